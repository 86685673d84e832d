"""Restarts hosts by Slurm: drains the node, waits until it is idle, and has `scontrol reboot` run its RebootProgram.

The node stays drained with our reason: UNCORDON_HOST resumes it after it has qualified. `ASAP` is not used, because
Slurm would then resume the node at its start, even if it was drained before (22.05). The reboot is complete when Slurm
shows a later start time and the node responds.
"""

import asyncio
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from railsight_automation.commands import until_idle
from railsight_automation.errors import DeviceError, Refused
from railsight_automation.messages import Remediation
from railsight_automation.node_names import target_node
from railsight_automation.plan import Plan, Setting, Value
from railsight_automation.slurm import SlurmHosts, SlurmParams, node_flags, node_name, node_state, scontrol, show_node

_POLL_S = 2.0
_PENDING = {"REBOOT_REQUESTED", "REBOOT_ISSUED"}
_BOOT = re.compile(r"\bBootTime=(\S+)")
_JITTER = timedelta(seconds=3)
"""Slurm computes the start from the uptime in seconds, so it can differ by one second between two registrations."""
_AWAY = {"REBOOT_REQUESTED", "DOWN", "NOT_RESPONDING", "POWERING_DOWN", "POWERED_DOWN", "POWERING_UP"}
"""Flags of a node that is not back; without REBOOT_ISSUED, which Slurm may retain after the start (22.05)."""


class SlurmReboot:
    """Plans REBOOT_HOST."""

    actions = ("REBOOT_HOST",)
    kind = "slurm-reboot"

    def __init__(self, params: SlurmParams, hosts: SlurmHosts, now_ns: Callable[[], int]) -> None:
        self._params = params
        self._hosts = hosts
        self._now_ns = now_ns

    def plan(self, remediation: Remediation) -> Plan:
        """Return the drain of the host's node, and its reboot."""
        node = target_node(remediation, self._params.nodes)
        operation = _Reboot(self._params, self._hosts, remediation, node, self._now_ns)
        return Plan((self._hosts.cordon(remediation),), operation=operation)

    def at(self, address: str) -> Setting:
        """Raise Refused: a reboot is no setting, and SlurmHosts has the drain."""
        raise Refused(f"{address} is no setting")


class _Reboot:
    def __init__(
        self, params: SlurmParams, hosts: SlurmHosts, remediation: Remediation, node: str, now_ns: Callable[[], int]
    ) -> None:
        self._params = params
        self._hosts = hosts
        self._remediation = remediation
        self._node = node
        self._now_ns = now_ns

    async def prepare(self) -> Value:
        assert self._remediation.a is not None
        device = self._remediation.a.device
        drained = node_state(await self._show())
        await until_idle(lambda: self._hosts.why_busy(device), self._params.idle_s)
        shown = await self._show()
        if not drained["is_drained"] or node_state(shown) != drained:
            raise Refused(f"the drain of node {self._node} was changed by another party: {node_state(shown)['reason']}")
        # Slurm has no start time for a node that does not respond; its next start is later than now.
        now = datetime.fromtimestamp(self._now_ns() // 10**9, UTC).astimezone()  # scontrol's zone
        return boot_time(shown) or now.replace(tzinfo=None).isoformat()

    async def run(self, before: Value) -> str:
        shown = await self._show()
        # The reason stays, or a restore would treat the drain as another party's.
        await scontrol(self._params, "reboot", f"reason={node_state(shown)['reason']}", node_name(shown))
        return await self._until_restarted(before)

    async def settle(self, before: Value) -> str:
        shown = await self._show()
        if not _is_later(boot_time(shown), before) and not node_flags(shown) & _PENDING:
            raise DeviceError(f"interrupted by a restart before node {self._node} was restarted; it is not repeated")
        return await self._until_restarted(before)

    async def _until_restarted(self, before: Value) -> str:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._params.reboot_s
        while True:
            try:
                shown = await self._show()
                flags, at = node_flags(shown), boot_time(shown)
                why = f"node {self._node} is {'+'.join(sorted(flags))}, started {at or 'at an unknown time'}"
                if _is_later(at, before) and not flags & _AWAY:
                    return f"node {self._node} restarted: {before} -> {at}"
            except DeviceError as error:
                flags, why = set(), str(error)
            if loop.time() >= deadline:
                await self._cancel(flags)
                raise DeviceError(f"no restart within {self._params.reboot_s:g} s: {why}")
            await asyncio.sleep(min(_POLL_S, self._params.reboot_s / 10))

    async def _cancel(self, flags: set[str]) -> None:
        """Cancel a reboot that Slurm has not begun, so that it does not happen later."""
        if "REBOOT_REQUESTED" in flags:
            await scontrol(self._params, "cancel_reboot", node_name(await self._show()))

    async def _show(self) -> str:
        return await show_node(self._params, self._node)


def boot_time(shown: str) -> str:
    """Return the time of a node's start from a line of `scontrol show node -o`; empty if there is none.

    Slurm shows times in its own zone without naming it; a time with a zone is not Slurm's.
    """
    found = _BOOT.search(shown)
    try:
        at = datetime.fromisoformat(found[1] if found else "")
    except ValueError:
        return ""
    return at.isoformat() if at.tzinfo is None else ""


def _is_later(at: str, before: Value) -> bool:
    return bool(at) and datetime.fromisoformat(at) > datetime.fromisoformat(str(before)) + _JITTER
