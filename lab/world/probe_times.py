"""Simulates the noise of probes: round-trip times of healthy paths, slow hosts and queues, and losses without a fault.

Random numbers are an argument.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lab.world.effects import Interval
from streams.fabric.ids import Port

LINK_NOISE = 1e-5, 1e-4
"""The loss rates of a healthy link per packet (PROBES "Localization"), drawn for each direction of a link."""
STALLED = 0.002
"""The share of the windows in which a host stalls, or its prober restarts: 17 a day (choice)."""
_LONGEST_STALL = 5
"""The maximum in seconds, and thus in probes of a flow."""
_HOST_NS, _SWITCH_NS = 12_000, 1_200
"""The median round-trip time of kernels and NICs (PROBES "Python, measured": 17 to 20 us), and a switch's each way."""
_SPREAD = 0.15
"""The standard deviation of the logarithm of a median of ten probes (choice)."""
_SLOW_HOST, _BURST = 0.005, 0.01
"""The shares of the windows in which a prober's host is slow, and in which a burst of a collective fills a rail's queue
(choice)."""
_SLOW_NS, _BURST_NS = (50_000, 2_000_000), (50_000, 500_000)
"""The minimum and the maximum that these add to a median (choice)."""
_QUEUE_SPREAD = 0.2
"""A queue's length varies by this share between flows (choice)."""


class ProbedPath(NamedTuple):
    """The ports that the probes of a flow enter in both directions, and the host that answers."""

    forward: tuple[Port, ...]
    back: tuple[Port, ...]
    target: str


class _Paths(NamedTuple):
    cumulated: npt.NDArray[np.float64]
    """The cumulative probability of a loss over all flows, forward, then back."""
    by_target: dict[str, list[int]]
    """Maps a host that answers to the numbers of its flows."""


class ProbeNoise:
    """The losses without a fault of all probers of a mesh."""

    def __init__(self, ports: Iterable[Port], rng: np.random.Generator) -> None:
        """Draw the loss rates of the links into these ports."""
        self._rng = rng
        names = list(ports)
        low, high = LINK_NOISE
        self._of_link = dict(zip(names, (low * (high / low) ** rng.uniform(size=len(names))).tolist(), strict=True))
        self._paths: dict[str, _Paths] = {}
        self._stalled_ns = -1
        self._stalled: dict[str, int] = {}

    def add_probers(self, flows: Mapping[str, Sequence[ProbedPath]]) -> None:
        """Set the flows of each prober, in the order of its reports."""
        for name, paths in flows.items():
            of_flows = [sum(map(self._of_link.__getitem__, path.forward)) for path in paths]
            of_flows += [sum(map(self._of_link.__getitem__, path.back)) for path in paths]
            by_target: dict[str, list[int]] = {}
            for number, path in enumerate(paths):
                by_target.setdefault(path.target, []).append(number)
            self._paths[name] = _Paths(np.cumsum(of_flows), by_target)

    def losses(self, host: str, end_ns: int, sent: int) -> tuple[int, dict[int, tuple[int, int]]]:
        """Return a prober's stalls in the window that ends at a time, and by flow its losses forward and back."""
        if end_ns != self._stalled_ns:
            self._stalled_ns, self._stalled = end_ns, self._draw_stalls()
        cumulated, by_target = self._paths[host]
        flows = len(cumulated) // 2
        found: dict[int, tuple[int, int]] = {}
        count = int(self._rng.poisson(sent * cumulated[-1]))
        if count:
            for place in np.searchsorted(cumulated, self._rng.uniform(0, cumulated[-1], count)).tolist():
                forward, back = found.get(place % flows, (0, 0))
                found[place % flows] = (forward + 1, back) if place < flows else (forward, back + 1)
        for other, lost in self._stalled.items():
            numbers = range(flows) if other == host else by_target.get(other, ())
            for number in numbers:
                forward, back = found.get(number, (0, 0))
                found[number] = forward + lost, back
        return int(host in self._stalled), found

    def _draw_stalls(self) -> dict[str, int]:
        """Return the hosts that stall in a window, with the number of lost probes of each of their flows."""
        names = list(self._paths)
        stalled = np.flatnonzero(self._rng.random(len(names)) < STALLED).tolist()
        return {names[place]: int(self._rng.integers(1, _LONGEST_STALL + 1)) for place in stalled}


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
        """The queues of the window, each with the time that it adds to a median."""

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
