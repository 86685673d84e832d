"""Simulates the round-trip times of probes: of healthy paths, of a host that is slow, and of queues on the way.

Random numbers are an argument.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lab.world.effects import Interval
from lab.world.probe_noise import ProbedPath
from streams.fabric.ids import Port

_HOST_NS, _SWITCH_NS = 12_000, 1_200
"""Median round-trip time of kernels and NICs (PROBES "Python, measured": 17 to 20 us), and of a switch each way."""
_SPREAD = 0.15
"""Standard deviation of the logarithm of a median of ten probes (choice)."""
_SLOW_HOST, _BURST = 0.005, 0.01
"""Share of the windows in which a prober's host is slow, and in which a collective's burst fills the queue of a rail
(choice)."""
_SLOW_NS, _BURST_NS = (50_000, 2_000_000), (50_000, 500_000)
"""The least and the most that these add to a median (choice)."""
_QUEUE_SPREAD = 0.2
"""A queue is longer and shorter by this share while different flows are probed (choice)."""


class Queue(NamedTuple):
    """Packets wait for `delay_ns` before the link into `port`."""

    port: Port
    interval: Interval
    delay_ns: int


class ProbeTimes:
    """The median round-trip times of all probers of a mesh; `queues` may be replaced between two windows."""

    def __init__(
        self, flows: Mapping[str, Sequence[ProbedPath]], queues: Sequence[Queue], rng: np.random.Generator
    ) -> None:
        self.queues = list(queues)
        self._rng = rng
        self._usual = {
            host: np.array([_HOST_NS + _SWITCH_NS * (len(path.forward) + len(path.back)) for path in paths], np.float64)
            for host, paths in flows.items()
        }
        self._rails = list(dict.fromkeys(path.back[-1] for paths in flows.values() for path in paths))
        self._window_ns = -1
        self._present: list[tuple[Port, float]] = []
        """Queues of the window, with what they add to a median."""

    def medians(self, host: str, window: Interval, crossing: Mapping[Port, Sequence[int]]) -> npt.NDArray[np.float64]:
        """Return the medians of a prober's flows in a window, in ns; `crossing` has the flows into each port."""
        if window.end_ns != self._window_ns:
            self._window_ns, self._present = window.end_ns, self._queues_in(window)
        usual = self._usual[host]
        found = usual * np.exp(_SPREAD * self._rng.standard_normal(len(usual)))
        if self._rng.random() < _SLOW_HOST:
            found += self._rng.uniform(*_SLOW_NS)
        for port, delay_ns in self._present:
            if numbers := crossing.get(port):
                found[list(numbers)] += delay_ns * (1 + _QUEUE_SPREAD * self._rng.uniform(-1, 1, len(numbers)))
        return found

    def _queues_in(self, window: Interval) -> list[tuple[Port, float]]:
        """Return the queues that half of a window's probes meet, and the bursts of the window."""
        middle_ns = (window.start_ns + window.end_ns) // 2
        found = [(one.port, float(one.delay_ns)) for one in self.queues if one.interval.contains(middle_ns)]
        bursts = np.flatnonzero(self._rng.random(len(self._rails)) < _BURST).tolist()
        return found + [(self._rails[number], float(self._rng.uniform(*_BURST_NS))) for number in bursts]
