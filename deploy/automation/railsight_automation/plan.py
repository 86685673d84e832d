"""Declares the plan of an action: the settings that it changes, and the operation that is carried out once."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from railsight_automation.messages import Remediation
from railsight_automation.settings import Setting, Value


class Operation(Protocol):
    """An act that cannot be undone, such as a reboot: it is begun at most once for a remediation."""

    async def prepare(self) -> Value:
        """Return the state before it, for the journal; raise ActionError if its precondition is not met."""

    async def run(self, before: Value) -> str:
        """Carry it out, verify the state after it, and return what was done; raise ActionError."""

    async def settle(self, before: Value) -> str:
        """Return what was done before a crash, and do nothing again; raise ActionError if that cannot be shown."""


@dataclass(frozen=True)
class Plan:
    """An action: `drain` remains until a restore, `hold` lasts as long as the operation."""

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
