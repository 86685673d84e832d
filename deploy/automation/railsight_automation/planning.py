"""Selects the part that carries out an action: links, the hosts of a scheduler, or a command."""

from collections.abc import Sequence
from typing import Protocol

from railsight_automation.errors import Refused
from railsight_automation.messages import Remediation
from railsight_automation.plan import Plan
from railsight_automation.settings import Setting

CONFIGURED_BY = {
    "DRAIN_LINK": "[gnmi]", "RESTORE_LINK": "[gnmi]", "REPAIR_LINK": "[gnmi] and links.repair_command",
    "CORDON_HOST": "[slurm] or [kubernetes]", "UNCORDON_HOST": "[slurm] or [kubernetes]",
    "REBOOT_HOST": "slurm.reboot or [reboot_host]", "RESET_NIC": "[reset_nic]",
    "UPGRADE_FIRMWARE": "[upgrade_firmware]", "TUNE_CONGESTION": "[tune_congestion]",
}  # fmt: skip
"""Action -> the setting that enables it."""


class Part(Protocol):
    """A part that carries out actions; `kind` is the prefix of its settings' addresses."""

    @property
    def actions(self) -> tuple[str, ...]: ...

    @property
    def kind(self) -> str: ...

    def plan(self, remediation: Remediation) -> Plan: ...

    def at(self, address: str) -> Setting: ...


class Parts:
    """The configured parts, one for each action."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._by_action = {action: part for part in parts for action in part.actions}
        self._by_kind = {part.kind: part for part in parts}

    def plan(self, remediation: Remediation) -> Plan:
        """Return the plan of a remediation; raise Refused if its action or its target is not configured."""
        action = remediation.action
        part = self._by_action.get(action)
        if part is not None:
            return part.plan(remediation)
        if action in CONFIGURED_BY:
            raise Refused(f"{action} is not configured: set {CONFIGURED_BY[action]}")
        raise Refused(f"{action} is not supported by this automation")

    def at(self, address: str) -> Setting:
        """Return the setting of a journaled change."""
        kind = address.partition(":")[0]
        if kind not in self._by_kind:
            raise Refused(f"{address}: [{kind}] is not configured any more")
        return self._by_kind[kind].at(address)
