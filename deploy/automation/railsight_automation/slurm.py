"""Takes hosts out of use in Slurm: drains a node with a reason that has the remediation's id, and resumes only that.

Running jobs of a drained node continue; Slurm starts no others there. slurm_reboot.py has REBOOT_HOST.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypedDict

from railsight_automation.commands import run
from railsight_automation.errors import DeviceError, Refused
from railsight_automation.journal import Change
from railsight_automation.messages import Remediation
from railsight_automation.node_names import names_of, plain_name, target_node
from railsight_automation.plan import Plan, Setting

_KIND = "slurm"
MARK = "railsight"
"""The begin of the reasons of own drains, for people; the journal decides whether a drain is own."""
_NAME = re.compile(r"\bNodeName=(\S+)")
_STATE = re.compile(r"\bState=(\S+)")
_REASON = re.compile(r"\bReason=(.*?) \[[^\[\]]*@[^\[\]]*\]")
_REBOOT = re.compile(r"(?: : reboot \w+)+$")
"""Slurm adds this to the reason of a node that it restarts."""
_REASON_LENGTH = 120
_UNKNOWN = "not found"
_BUSY = {"COMPLETING", "REBOOT_REQUESTED", "REBOOT_ISSUED", "RESERVED", "PLANNED"}
_MAINTENANCE = {"MAINTENANCE", "MAINT"}


@dataclass(frozen=True)
class SlurmParams:
    """Settings of `[slurm]`."""

    scontrol: str = "scontrol"
    timeout_s: float = 30.0
    """Limit of a command of scontrol, which waits some 9 s while slurmctld is down."""
    nodes: Mapping[str, str] = field(default_factory=dict)
    """The Slurm node of each host whose name differs by more than case and domain."""
    reboot: bool = False
    """Enables REBOOT_HOST by `scontrol reboot`; slurm.conf needs a RebootProgram."""
    idle_s: float = 60.0
    """Longest wait for the end of a cordoned host's jobs before its reboot."""
    reboot_s: float = 1800.0
    """Longest wait for the node after a reboot: a GPU host takes ten minutes or more to start (choice)."""


class NodeState(TypedDict):
    """The state of a node, with the reason of a drain."""

    is_drained: bool
    reason: str


@dataclass(frozen=True)
class NodeSetting:
    """The drain of a node."""

    params: SlurmParams
    node: str
    text: str = ""
    """The reason, after the remediation's id."""

    @property
    def address(self) -> str:
        return f"{_KIND}:{self.node}"

    async def read(self) -> NodeState:
        return node_state(await show_node(self.params, self.node))

    async def write(self, value: NodeState) -> None:
        shown = await show_node(self.params, self.node)
        name = f"NodeName={node_name(shown)}"
        if value["is_drained"]:
            await self._scontrol("update", name, "State=DRAIN", f"Reason={value['reason']}")
            return
        # RESUME would return a node to service that failed while it was drained.
        state = "UNDRAIN" if "DOWN" in node_flags(shown) else "RESUME"
        await self._scontrol("update", name, f"State={state}")

    def out(self, present: NodeState, remediation_id: str) -> NodeState:
        if present["is_drained"]:
            raise Refused(f"node {self.node} is drained already: {present['reason'] or 'without a reason'}")
        return NodeState(is_drained=True, reason=" ".join(f"{MARK} {remediation_id} {self.text}".split()))

    def back(self, present: NodeState, change: Change) -> NodeState:
        return NodeState(is_drained=False, reason="") if self.is_own(present, change) else present

    def is_own(self, present: NodeState, change: Change) -> bool:
        """Return whether the reason is the one that was set; any other is of another party, whatever it begins with."""
        if "owner" in change.written:  # of an earlier version, which had no text of the reason
            return present["is_drained"] and present["reason"].split()[:2] == [MARK, change.remediation_id]
        return present["is_drained"] and present == change.written

    def is_out(self, present: NodeState) -> bool:
        return present["is_drained"]

    async def _scontrol(self, *arguments: str) -> str:
        return await scontrol(self.params, *arguments)


class SlurmHosts:
    """Plans the actions on hosts."""

    actions = ("CORDON_HOST", "UNCORDON_HOST")
    kind = _KIND

    def __init__(self, params: SlurmParams) -> None:
        self._params = params

    def plan(self, remediation: Remediation) -> Plan:
        """Return the node of the host."""
        return Plan((self.cordon(remediation),))

    def at(self, address: str) -> Setting:
        """Return the setting of a journaled change."""
        return NodeSetting(self._params, address.partition(":")[2])

    def cordon(self, remediation: Remediation) -> Setting:
        """Return the drain of the target's host for an operation."""
        node = target_node(remediation, self._params.nodes)
        return NodeSetting(self._params, node, reason_text(remediation))

    async def why_busy(self, device: str) -> str:
        """Return the state of a node that is not idle, because jobs run or end there or a reboot is pending."""
        node = plain_name(device, self._params.nodes)
        return busy_text(node, await show_node(self._params, node))

    async def boot(self, device: str) -> str:
        """Raise DeviceError: Slurm only has the time of a start, which can differ by a second between two readings."""
        raise DeviceError(f"Slurm has no boot id of {device}: set reboot_host.state_command")


async def scontrol(params: SlurmParams, *arguments: str) -> str:
    """Run a command of scontrol and return its output; raise DeviceError."""
    return await run([params.scontrol, *arguments], params.timeout_s)


async def show_node(params: SlurmParams, node: str) -> str:
    """Return the line of `scontrol show node -o`, under the first of the node's possible names that Slurm has."""
    for name in names_of(node):
        try:
            shown = await scontrol(params, "show", "node", "-o", name)
        except DeviceError as error:
            if _UNKNOWN not in str(error):
                raise
        else:
            if _UNKNOWN not in shown:
                return shown
    raise DeviceError(f"scontrol: node {node} {_UNKNOWN}; name it in slurm.nodes")


def node_name(shown: str) -> str:
    """Return the name of a node from its line; raise DeviceError if it has none."""
    found = _NAME.search(shown)
    if found is None:
        raise DeviceError(f"scontrol shows no name: {shown[:200]}")
    return found[1]


def reason_text(remediation: Remediation) -> str:
    """Return the text after the id in the reason of a drain, without characters that Slurm interprets."""
    return "".join(c for c in remediation.reason if c.isprintable() and c not in "\"'[]\\")[:_REASON_LENGTH]


def busy_text(node: str, shown: str) -> str:
    """Return why a node is in use, from a line of `scontrol show node -o`; empty if it is idle or down."""
    flags = node_flags(shown)
    # A reservation for maintenance has no jobs; any other one is for jobs that are about to start.
    busy = _BUSY - {"RESERVED"} if flags & _MAINTENANCE else _BUSY
    is_idle = flags & {"IDLE", "DOWN"} and not flags & busy
    return "" if is_idle else f"node {node} is {'+'.join(sorted(flags))}"


def node_state(shown: str) -> NodeState:
    """Return the state of a node from a line of `scontrol show node -o`; raise DeviceError if it has none."""
    is_drained = "DRAIN" in node_flags(shown)
    found = _REASON.search(shown)
    reason = _REBOOT.sub("", found[1]) if found and is_drained else ""
    return NodeState(is_drained=is_drained, reason=" ".join(reason.split()))


def node_flags(shown: str) -> set[str]:
    """Return the state of a node and its flags; raise DeviceError if there is none."""
    state = _STATE.search(shown)
    if state is None:
        raise DeviceError(f"scontrol shows no state: {shown[:200]}")
    return set(re.split(r"[+*$~#!%@^-]+", state[1]))
