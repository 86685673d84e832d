"""Declares the settings and the operation of an action, and selects the part that plans it.

A setting is one value of a device or scheduler that takes a link or host out of use. The parts are links, the hosts of
a scheduler, and commands.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from railsight_automation.errors import Refused
from railsight_automation.journal import Change
from railsight_automation.messages import Remediation

Value = Any
"""A JSON value."""


class Setting(Protocol):
    """One value that an action changes; `address` identifies it in the journal."""

    @property
    def address(self) -> str: ...

    async def read(self) -> Value:
        """Return the present value; raise DeviceError."""

    async def write(self, value: Value) -> None:
        """Set a value; raise DeviceError."""

    def out(self, present: Value, remediation_id: str) -> Value:
        """Return the value that takes the link or host out of use; raise Refused if another party did that."""

    def back(self, present: Value, change: Change) -> Value:
        """Return the value without this change: the present value if the change is not in effect."""

    def is_own(self, present: Value, change: Change) -> bool:
        """Return whether a value shows that this own change is in effect without a mark of another party."""

    def is_out(self, present: Value) -> bool:
        """Return whether a value takes the link or host out of use, regardless of who set it."""


class Operation(Protocol):
    """An irreversible step, such as a reboot; a remediation begins it at most once."""

    async def prepare(self) -> Value:
        """Return the state before the operation, for the journal; raise ActionError if its precondition is not met."""

    async def run(self, before: Value) -> str:
        """Carry out the operation, verify the state, and return the result's detail; raise ActionError."""

    async def settle(self, before: Value) -> str:
        """Verify an interrupted operation without repeating it and return its detail; raise ActionError."""


@dataclass(frozen=True)
class Plan:
    """The plan of an action: `drain` remains until a restore, `hold` lasts as long as the operation."""

    drain: tuple[Setting, ...] = ()
    hold: tuple[Setting, ...] = ()
    before_hold: Callable[[], Awaitable[None]] | None = None
    """Waits between the drain and the hold."""
    operation: Operation | None = None


class Planner(Protocol):
    """Finds the settings of a remediation."""

    def plan(self, remediation: Remediation) -> Plan:
        """Return the plan of a remediation; raise Refused if its action or target is not configured."""

    def at(self, address: str) -> Setting:
        """Return the setting of a journaled change; raise Refused if it is no longer configured."""


CONFIGURED_BY = {
    "DRAIN_LINK": "[gnmi]", "RESTORE_LINK": "[gnmi]", "REPAIR_LINK": "[gnmi] and links.repair_command",
    "CORDON_HOST": "[slurm] or [kubernetes]", "UNCORDON_HOST": "[slurm] or [kubernetes]",
    "REBOOT_HOST": "slurm.reboot or [reboot_host]", "RESET_NIC": "[reset_nic]",
    "UPGRADE_FIRMWARE": "[upgrade_firmware]", "TUNE_CONGESTION": "[tune_congestion]",
}  # fmt: skip
"""Action -> the setting that enables it."""


class Part(Planner, Protocol):
    """A part that carries out actions; `kind` is the prefix of its settings' addresses."""

    @property
    def actions(self) -> tuple[str, ...]: ...

    @property
    def kind(self) -> str: ...


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
