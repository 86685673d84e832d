"""The policies that `railsight bench corropt` compares: each selects the corrupting links to take out."""

from collections import defaultdict
from collections.abc import Sequence
from math import ceil
from typing import Protocol

from streams.decide.capacity import ROUNDING, Capacity
from streams.decide.optimizer import Candidate, select
from streams.fabric.graph import Graph
from streams.fabric.topology import Topology


class Policy(Protocol):
    """A policy; it takes out the links that it returns."""

    name: str

    def on_fault(self, candidate: Candidate) -> Sequence[int]:
        """Return the links to take out after a link has begun to corrupt packets."""
        ...

    def on_return(self, link: int) -> Sequence[int]:
        """Return the links to take out after a repaired link is back in service."""
        ...


class DoNothing:
    """Leaves every corrupting link in service."""

    name = "do nothing"

    def on_fault(self, candidate: Candidate) -> Sequence[int]:
        return ()

    def on_return(self, link: int) -> Sequence[int]:
        return ()


class SwitchLocal:
    """Takes a link out if its lower switch keeps c^(1/r) of its uplinks, r tiers of links above the ToRs (here 2).

    This is the strongest rule that keeps the constraint of every ToR without a view of other switches. A switch
    evaluates its corrupting links again, worst first, when one of its uplinks returns.
    """

    name = "switch-local"

    def __init__(self, graph: Graph, constraint: float, tiers: int = 2) -> None:
        self._lower = graph.lower.tolist()
        ratio = constraint ** (1 / tiers)
        self._spare: dict[int, int] = {}
        for device in set(self._lower):
            uplinks = int(graph.first_uplink[device + 1] - graph.first_uplink[device])
            self._spare[device] = uplinks - ceil(ratio * uplinks - ROUNDING)
        self._waiting: dict[int, list[Candidate]] = defaultdict(list)

    def on_fault(self, candidate: Candidate) -> Sequence[int]:
        device = self._lower[candidate.link]
        if self._spare[device] > 0:
            self._spare[device] -= 1
            return (candidate.link,)
        self._waiting[device].append(candidate)
        return ()

    def on_return(self, link: int) -> Sequence[int]:
        device = self._lower[link]
        self._spare[device] += 1
        waiting = self._waiting[device]
        if not waiting:
            return ()
        worst = max(waiting, key=lambda candidate: candidate.penalty)
        waiting.remove(worst)
        return self.on_fault(worst)


class CorrOpt:
    """Takes a link out if all groups keep the constraint; optimises over the waiting links when a link returns.

    Uses the capacity and the optimizer of `streams.decide`. A link constrains its own domain only, a pod here, so the
    optimizer runs over the waiting links of that pod.
    """

    name = "railsight"

    def __init__(self, topology: Topology, constraint: float, max_checks: int = 200) -> None:
        self._capacity, self._floor, self._max_checks = Capacity(topology), constraint, max_checks
        self._capacity.set_all_carrying(True)
        self._pods = topology.graph.pod.tolist()
        self._waiting: dict[int, list[Candidate]] = defaultdict(list)

    def on_fault(self, candidate: Candidate) -> Sequence[int]:
        if self._capacity.below([candidate.link], self._floor):
            self._waiting[self._pods[candidate.link]].append(candidate)
            return ()
        self._capacity.set_carrying(candidate.link, False)
        return (candidate.link,)

    def on_return(self, link: int) -> Sequence[int]:
        self._capacity.set_carrying(link, True)
        pod = self._pods[link]
        if not self._waiting[pod]:
            return ()
        selection = select(self._capacity, self._waiting[pod], self._floor, self._max_checks)
        self._waiting[pod] = list(selection.waiting)
        for candidate in selection.selected:
            self._capacity.set_carrying(candidate.link, False)
        return [candidate.link for candidate in selection.selected]


BASELINES = (DoNothing.name, SwitchLocal.name)
"""The policies that the third is compared with."""
