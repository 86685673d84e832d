"""Simulates the probes that a healthy fabric loses: each link drops a few, and now and then a host stalls.

Random numbers are an argument.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streams.fabric.ids import Port

LINK_NOISE = 1e-5, 1e-4
"""Losses of a healthy link for each packet (PROBES "Localization"), drawn for each direction of a link."""
STALLED = 0.002
"""Share of the windows in which a host stalls, or its prober restarts: 17 a day (choice)."""
_LONGEST_STALL = 5
"""Seconds, and so probes of a flow."""


class ProbedPath(NamedTuple):
    """The ports that the probes of a flow enter in both directions, and the host that answers."""

    forward: tuple[Port, ...]
    back: tuple[Port, ...]
    target: str


class _Paths(NamedTuple):
    cumulated: npt.NDArray[np.float64]
    """The probability of a loss, summed over all flows forward, then back."""
    by_target: dict[str, list[int]]
    """By host that answers, the numbers of its flows."""


class ProbeNoise:
    """The losses without a fault, of all probers of a mesh."""

    def __init__(self, ports: Iterable[Port], rng: np.random.Generator) -> None:
        """Draw what the links into these ports lose."""
        self._rng = rng
        names = list(ports)
        low, high = LINK_NOISE
        self._of_link = dict(zip(names, (low * (high / low) ** rng.uniform(size=len(names))).tolist(), strict=True))
        self._paths: dict[str, _Paths] = {}
        self._stalled_ns = -1
        self._stalled: dict[str, int] = {}

    def add_probers(self, flows: Mapping[str, Sequence[ProbedPath]]) -> None:
        """Set the flows of each prober, as its reports number them."""
        for name, paths in flows.items():
            of_flows = [sum(map(self._of_link.__getitem__, path.forward)) for path in paths]
            of_flows += [sum(map(self._of_link.__getitem__, path.back)) for path in paths]
            by_target: dict[str, list[int]] = {}
            for number, path in enumerate(paths):
                by_target.setdefault(path.target, []).append(number)
            self._paths[name] = _Paths(np.cumsum(of_flows), by_target)

    def losses(self, host: str, end_ns: int, sent: int) -> tuple[int, dict[int, tuple[int, int]]]:
        """Return the stalls of a prober in the window that ends then, and by flow its losses forward and back."""
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
        """Return the hosts that stall in a window, with the probes that each flow loses then."""
        names = list(self._paths)
        stalled = np.flatnonzero(self._rng.random(len(names)) < STALLED).tolist()
        return {names[place]: int(self._rng.integers(1, _LONGEST_STALL + 1)) for place in stalled}
