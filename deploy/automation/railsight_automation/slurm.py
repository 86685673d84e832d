"""Takes hosts out of use in Slurm: drains a node with a reason that has the remediation's id, and resumes only that.

Jobs that run on a drained node go on; Slurm starts no other there.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypedDict

from railsight_automation.commands import run
from railsight_automation.engine import Plan
from railsight_automation.errors import DeviceError, Refused
from railsight_automation.journal import Change
from railsight_automation.messages import Remediation
from railsight_automation.settings import Setting

_KIND = "slurm"
_MARK = "railsight"
_STATE = re.compile(r"\bState=(\S+)")
_REASON = re.compile(r"\bReason=(.*?) \[[^\[\]]*@[^\[\]]*\]")
_REASON_LENGTH = 120


@dataclass(frozen=True)
class SlurmParams:
    """Settings of `[slurm]`."""

    scontrol: str = "scontrol"
    timeout_s: float = 30.0
    """slurmctld that is down lets a command wait for some 9 s."""
    nodes: Mapping[str, str] = field(default_factory=dict)
    """The node of a host whose name in Slurm is another."""


class NodeState(TypedDict):
    """`owner` is the remediation of a drain of ours, `reason` that of another party's."""

    is_drained: bool
    owner: str
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
        return node_state(await self._scontrol("show", "node", "-o", self.node))

    async def write(self, value: NodeState) -> None:
        if value["is_drained"]:
            reason = f"{_MARK} {value['owner']} {self.text}".strip()
            await self._scontrol("update", f"NodeName={self.node}", "State=DRAIN", f"Reason={reason}")
            return
        shown = await self._scontrol("show", "node", "-o", self.node)
        # RESUME would bring a node into service that failed while it was drained.
        state = "UNDRAIN" if "DOWN" in _flags(shown) else "RESUME"
        await self._scontrol("update", f"NodeName={self.node}", f"State={state}")

    def out(self, present: NodeState, remediation_id: str) -> NodeState:
        if present["is_drained"]:
            raise Refused(f"node {self.node} is drained already: {present['owner'] or present['reason']}")
        return NodeState(is_drained=True, owner=remediation_id, reason="")

    def back(self, present: NodeState, change: Change) -> NodeState:
        if not present["is_drained"] or present["owner"] != change.remediation_id:
            return present
        return NodeState(is_drained=False, owner="", reason="")

    def is_out(self, present: NodeState) -> bool:
        return present["is_drained"]

    async def _scontrol(self, *arguments: str) -> str:
        return await run([self.params.scontrol, *arguments], self.params.timeout_s)


class SlurmHosts:
    """Plans the actions on hosts."""

    actions = ("CORDON_HOST", "UNCORDON_HOST")
    kind = _KIND

    def __init__(self, params: SlurmParams) -> None:
        self._params = params

    def plan(self, remediation: Remediation) -> Plan | None:
        """Return the node of the host."""
        if remediation.a is None:
            raise Refused(f"{remediation.target_id} has no device")
        node = self._params.nodes.get(remediation.a.device, remediation.a.device)
        text = "".join(c for c in remediation.reason if c.isprintable() and c not in "\"'[]\\")[:_REASON_LENGTH]
        return Plan((NodeSetting(self._params, node, text),))

    def at(self, address: str) -> Setting:
        """Return the setting of a journaled change."""
        return NodeSetting(self._params, address.partition(":")[2])


def node_state(shown: str) -> NodeState:
    """Return the state of a node from a line of `scontrol show node -o`; raise DeviceError if it has none."""
    is_drained = "DRAIN" in _flags(shown)
    reason = _REASON.search(shown)
    words = reason[1].split() if reason and is_drained else []
    owner = words[1] if len(words) > 1 and words[0] == _MARK else ""
    return NodeState(is_drained=is_drained, owner=owner, reason="" if owner else " ".join(words))


def _flags(shown: str) -> set[str]:
    state = _STATE.search(shown)
    if state is None:
        raise DeviceError(f"scontrol shows no state: {shown[:200]}")
    return set(re.split(r"[+*$~#!%@^-]+", state[1]))
