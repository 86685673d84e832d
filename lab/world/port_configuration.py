"""Stores the configuration of the ports of a simulated fabric, with its history.

A port can be enabled, and its BGP neighbor has import and export policies, as in OpenConfig. The history is
append-only, so that a past state does not change when a setting is changed.
"""

from bisect import bisect_right
from collections.abc import Callable
from enum import Enum

from lab.world.effects import Interval
from streams.fabric.ids import Port

DRAIN_POLICY = "GRACEFUL-SHUTDOWN"
"""Routes with this policy are the last choice (RFC 8326): traffic uses other paths if there are any."""

Policies = tuple[str, ...]
_ALWAYS_NS = 2**63 - 1


class Setting(Enum):
    """A setting of a port; its value is the name of the OpenConfig leaf."""

    ENABLED = "enabled"
    IMPORT_POLICY = "import-policy"
    EXPORT_POLICY = "export-policy"


INITIAL: dict[Setting, bool | Policies] = {
    Setting.ENABLED: True,
    Setting.IMPORT_POLICY: ("FABRIC-IN",),
    Setting.EXPORT_POLICY: ("FABRIC-OUT",),
}
POLICIES = ("FABRIC-IN", "FABRIC-OUT", DRAIN_POLICY)
"""The policies that every switch defines."""


class PortConfiguration:
    """The settings of all ports at any moment."""

    def __init__(self) -> None:
        self._history: dict[tuple[Port, Setting], list[tuple[int, bool | Policies]]] = {}

    def set(self, port: Port, setting: Setting, value: bool | Policies, at_ns: int) -> bool:
        """Set a value from a moment on; return True if it differs from the previous value."""
        history = self._history.setdefault((port, setting), [])
        if value == self.value(port, setting, _ALWAYS_NS):
            return False
        at_ns = max(at_ns, history[-1][0] + 1) if history else at_ns
        history.append((at_ns, value))
        return True

    def value(self, port: Port, setting: Setting, at_ns: int) -> bool | Policies:
        """Return the value of a setting at a moment."""
        history = self._history.get((port, setting), [])
        after = bisect_right(history, at_ns, key=lambda entry: entry[0])
        return history[after - 1][1] if after else INITIAL[setting]

    def disabled(self, port: Port) -> tuple[Interval, ...]:
        """Return the intervals in which a port is administratively down."""
        return self._intervals(port, Setting.ENABLED, lambda value: value is False)

    def withdrawn(self, sender: Port, receiver: Port) -> tuple[Interval, ...]:
        """Return the intervals in which the sender avoids a link: by its own import policy or the far export policy."""
        return (
            *self._intervals(sender, Setting.IMPORT_POLICY, _drains),
            *self._intervals(receiver, Setting.EXPORT_POLICY, _drains),
        )

    def _intervals(
        self, port: Port, setting: Setting, applies: Callable[[bool | Policies], bool]
    ) -> tuple[Interval, ...]:
        history = self._history.get((port, setting), [])
        return tuple(
            Interval(at_ns, history[number + 1][0] if number + 1 < len(history) else _ALWAYS_NS)
            for number, (at_ns, value) in enumerate(history)
            if applies(value)
        )


def _drains(value: bool | Policies) -> bool:
    return isinstance(value, tuple) and DRAIN_POLICY in value
