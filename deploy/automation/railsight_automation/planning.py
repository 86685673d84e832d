"""Finds who carries out an action: links, or the hosts of a scheduler."""

from collections.abc import Sequence
from typing import Protocol

from railsight_automation.engine import Plan
from railsight_automation.errors import Refused
from railsight_automation.messages import Remediation
from railsight_automation.settings import Setting


class Part(Protocol):
    """One way to act: its actions, and the kind at the begin of the addresses of its settings."""

    @property
    def actions(self) -> tuple[str, ...]: ...

    @property
    def kind(self) -> str: ...

    def plan(self, remediation: Remediation) -> Plan | None: ...

    def at(self, address: str) -> Setting: ...


class Parts:
    """The configured parts, one for each action."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._by_action = {action: part for part in parts for action in part.actions}
        self._by_kind = {part.kind: part for part in parts}

    def plan(self, remediation: Remediation) -> Plan | None:
        """Return the plan of a remediation, None if no part supports its action."""
        part = self._by_action.get(remediation.action)
        return part.plan(remediation) if part else None

    def at(self, address: str) -> Setting:
        """Return the setting of a journaled change."""
        kind = address.partition(":")[0]
        if kind not in self._by_kind:
            raise Refused(f"{address}: [{kind}] is not configured any more")
        return self._by_kind[kind].at(address)
