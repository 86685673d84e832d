"""Collects what the hosts of one partition carried, and emits each window of them in one message.

The window of a host is final with its own first reading beyond the lateness; that of all hosts that are read is
complete when the watermark has passed it. A message for each host was rejected: at the largest fabric they would be an
eighth of all messages.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streams.detect.detectors.rail_degraded.comparison import HostRows
from streams.wire.models import HostRates, Source


class HostRatesBuffer:
    """The windows that are not emitted yet."""

    def __init__(self, width_ns: int, lateness_ns: int) -> None:
        self._width_ns, self._lateness_ns = width_ns, lateness_ns
        self.windows: dict[tuple[int, int], tuple[list[str], npt.NDArray[np.float64]]] = {}
        """By number of the window and of the source: hosts, and one row for each field of HostRows."""

    def add(self, number: int, source: Source, hosts: Sequence[str], rows: HostRows) -> None:
        """Add hosts of one window."""
        names, known = self.windows.get((number, source.value), ([], np.empty((len(rows), 0))))
        self.windows[number, source.value] = [*names, *hosts], np.concatenate([known, np.array(rows)], axis=1)

    def due(self, watermark_ns: int) -> Iterator[HostRates]:
        """Yield the windows that are complete, with the hosts by name, and drop them."""
        for number, source in sorted(self.windows):
            begin_ns = number * self._width_ns
            if begin_ns + self._width_ns + self._lateness_ns > watermark_ns:
                break
            names, rows = self.windows.pop((number, source))
            order = sorted(range(len(names)), key=names.__getitem__)
            rate, speed, *counts = rows[:, order].tolist()
            rails, stalled, retransmitting = (tuple(map(int, one)) for one in counts)
            yield HostRates(
                Source(source), begin_ns, begin_ns + self._width_ns, tuple(names[n] for n in order), tuple(rate),
                tuple(speed), rails, stalled, retransmitting,
            )  # fmt: skip

    def dump(self) -> list[list[Any]]:
        """Return the state for a snapshot, as JSON holds it."""
        return [[number, source, names, rows.tolist()] for (number, source), (names, rows) in self.windows.items()]

    def load(self, data: list[list[Any]]) -> None:
        """Restore what `dump` returned."""
        self.windows = {(number, source): (names, np.array(rows, np.float64)) for number, source, names, rows in data}
