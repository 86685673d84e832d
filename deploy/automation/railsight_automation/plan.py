"""Declares the plan of an action: the settings that it changes, and an operation that runs once."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from railsight_automation.messages import Remediation
from railsight_automation.settings import Setting, Value


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
