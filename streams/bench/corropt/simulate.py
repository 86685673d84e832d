"""Simulates one policy: faults, repairs, the penalty of the links that stay in service, and the capacity that is left.

The constraint is recounted here from the numbers of ports, without the code of the policy.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import fsum
from time import perf_counter

import numpy as np

from streams.bench.corropt.policies import Policy
from streams.bench.corropt.setting import DAY_S, MTTF_HOURS, PLANES, SPINES, TORS, Faults
from streams.decide.optimizer import Candidate
from streams.fabric.graph import Floats, Graph

SAMPLE_S = DAY_S / 2
"""The interval of the curves."""

_FAULT, _RETURN = 0, 1


@dataclass
class Outcome:
    """The result of one policy under one constraint. A penalty is the sum of the loss rates of links in service."""

    policy: str
    constraint: float
    days: float
    mttf_hours: float
    penalty_s: float = 0.0
    """The integral of the penalty over time."""
    faults: int = 0
    taken_out: int = 0
    out_s: float = 0.0
    """The integral of the number of links that are out."""
    most_out: int = 0
    least_tor_ratio: float = 1.0
    least_pod_ratio: float = 1.0
    breaches: int = 0
    """Decisions after which a ToR of the pod had fewer paths than the constraint."""
    decision_s: list[float] = field(default_factory=list)
    penalties: list[float] = field(default_factory=list)
    """The penalty at each sample of the curve."""

    @property
    def mean_penalty(self) -> float:
        """Return the mean penalty over the time of the simulation."""
        return self.penalty_s / (self.days * DAY_S)

    @property
    def mean_out(self) -> float:
        """Return the mean number of links that are out."""
        return self.out_s / (self.days * DAY_S)


def simulate(
    graph: Graph, faults: Faults, policy: Policy, constraint: float, days: float, mttf_hours: float = MTTF_HOURS
) -> Outcome:
    """Run one policy over the faults."""
    return _Simulation(graph, faults, policy, Outcome(policy.name, constraint, days, mttf_hours)).run()


class _Simulation:
    def __init__(self, graph: Graph, faults: Faults, policy: Policy, outcome: Outcome) -> None:
        self._faults, self._policy, self._end_s = faults, policy, outcome.days * DAY_S
        self.outcome = outcome
        self._fault_of = np.zeros(len(graph.links), np.int64)
        first_s = faults.in_service_s[0]
        links = np.flatnonzero(first_s < self._end_s)
        self._events = [(float(first_s[link]), _FAULT, int(link)) for link in links]
        heapq.heapify(self._events)
        self._penalty, self._out = 0.0, 0
        self._active: dict[int, float] = {}
        """Links that corrupt packets in service, and their loss rates."""
        self._recount = _Recount(graph)

    def run(self) -> Outcome:
        outcome, now_s = self.outcome, 0.0
        for at_s, kind, link in self._in_order():
            while len(outcome.penalties) * SAMPLE_S <= at_s:
                outcome.penalties.append(self._penalty)
            outcome.penalty_s += self._penalty * (at_s - now_s)
            outcome.out_s += self._out * (at_s - now_s)
            now_s = at_s
            if kind == _FAULT:
                self._fault(link, at_s)
            elif kind == _RETURN:
                self._return(link, at_s)
        return outcome

    def _in_order(self) -> Iterator[tuple[float, int, int]]:
        while self._events and self._events[0][0] < self._end_s:
            yield heapq.heappop(self._events)
        yield self._end_s, -1, -1

    def _fault(self, link: int, at_s: float) -> None:
        loss = float(self._faults.loss[self._fault_of[link], link])
        self._active[link] = loss
        self.outcome.faults += 1
        began = perf_counter()
        selected = self._policy.on_fault(Candidate(link, loss))
        self.outcome.decision_s.append(perf_counter() - began)
        self._take_out(selected, at_s)

    def _return(self, link: int, at_s: float) -> None:
        self._out -= 1
        self._recount.set_in_service(link, is_in_service=True)
        fault = self._fault_of[link] = self._fault_of[link] + 1
        heapq.heappush(self._events, (at_s + float(self._faults.in_service_s[fault, link]), _FAULT, link))
        began = perf_counter()
        selected = self._policy.on_return(link)
        self.outcome.decision_s.append(perf_counter() - began)
        self._take_out(selected, at_s)

    def _take_out(self, links: Sequence[int], at_s: float) -> None:
        for link in links:
            del self._active[link]
            self._recount.set_in_service(link, is_in_service=False)
            repair_s = float(self._faults.repair_s[self._fault_of[link], link])
            heapq.heappush(self._events, (at_s + repair_s, _RETURN, link))
        self._penalty = fsum(self._active.values())
        outcome = self.outcome
        outcome.taken_out += len(links)
        self._out += len(links)
        outcome.most_out = max(outcome.most_out, self._out)
        for pod in {self._recount.pod_of(link) for link in links}:
            ratios = self._recount.tor_ratios(pod)
            outcome.least_tor_ratio = min(outcome.least_tor_ratio, float(ratios.min()))
            outcome.least_pod_ratio = min(outcome.least_pod_ratio, float(ratios.mean()))
            outcome.breaches += bool(ratios.min() < outcome.constraint)


class _Recount:
    """Counts the paths of ToRs: for each plane, the link to its aggregation switch times the uplinks of that."""

    def __init__(self, graph: Graph) -> None:
        pods = len(graph.pods)
        self._tors = np.ones((pods, TORS, PLANES), np.bool_)
        self._aggs = np.ones((pods, PLANES, SPINES), np.bool_)
        self._pods = graph.pod.tolist()
        self._links = graph.links

    def pod_of(self, link: int) -> int:
        """Return the number of the pod of a link."""
        pod: int = self._pods[link]
        return pod

    def set_in_service(self, link: int, *, is_in_service: bool) -> None:
        """Set whether a link is in service."""
        device, port = self._links[link].lower
        tier, number = device.split("-")[2:]
        in_service = self._tors if tier == "tor" else self._aggs
        in_service[self._pods[link], int(number), int(port.removeprefix("up"))] = is_in_service

    def tor_ratios(self, pod: int) -> Floats:
        """Return the ratio of its paths to the spines that each ToR of a pod has."""
        ratios: Floats = (self._tors[pod] * self._aggs[pod].sum(axis=1)).sum(axis=1) / (PLANES * SPINES)
        return ratios
