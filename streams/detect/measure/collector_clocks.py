"""Measures the clocks of collectors by the statuses that they send.

Only of collectors on machines of their own: the clock of a host shows in the samples of the host's agents.
"""

from dataclasses import astuple, replace
from typing import Any

from streams.detect.measure.source_clock import ClockChange, SourceClock, is_right
from streams.wire.models import CollectorStatus, Source, Symptom

_OF_HOSTS = (Source.SOURCE_NIC, Source.SOURCE_HOST)
_MAX_COLLECTORS = 4096
"""Clocks that are off; a status has the name of its collector, which anyone may write who may write statuses."""


class CollectorClocks:
    """The clocks of the collectors of one partition's devices; those that are right take no memory."""

    def __init__(self) -> None:
        self._clocks: dict[str, SourceClock] = {}

    def on_status(self, status: CollectorStatus) -> list[Symptom]:
        """Return what the time of a status shows of its collector's clock."""
        sent_ns, arrived_ns, name = status.sent_at_ns, status.at_ns, status.collector
        if not sent_ns or status.source in _OF_HOSTS:
            return []
        clock = self._clocks.get(name)
        if clock is None:
            if is_right(sent_ns, arrived_ns) or len(self._clocks) >= _MAX_COLLECTORS:
                return []
            clock = self._clocks[name] = SourceClock()
        change = clock.add(sent_ns, arrived_ns)
        if change is ClockChange.RIGHT:
            del self._clocks[name]
        reported = clock.report(change)
        if reported is None:
            return []
        payload, at_ns = replace(reported[0], of_collector=True), reported[1]
        return [Symptom(name, "", payload, at_ns, clock.first_ns, status.source)]

    def dump(self) -> list[list[Any]]:
        """Return the state as JSON can hold it."""
        return [[name, *astuple(clock)] for name, clock in self._clocks.items()]

    def load(self, data: list[list[Any]]) -> None:
        """Take over what `dump` returned."""
        self._clocks = {name: SourceClock(*clock) for name, *clock in data}
