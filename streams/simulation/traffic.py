"""Who sends how much and when: jobs that start, stop, pause for checkpoints, slow as a whole, and idle hosts."""

from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt

from streams.fabric.inventory import Job
from streams.simulation.effects import Interval

_S = 10**9
_LOAD = (0.3, 0.6)
"""Of its line that a rail of a training job carries on average."""
_IDLE = 2e-4
_RUN_S = (2400.0, 14_400.0)
_GAP_S = (120.0, 900.0)
_CHECKPOINT_EVERY_S = (900.0, 1800.0)
_CHECKPOINT_S = (20.0, 60.0)
_SLOW_EVERY_S = 5400.0
"""A job slows as a whole (its storage, its slowest rank) about so often."""
_EMPTY = 0.15
"""Of hosts without a job: between jobs a tenth to a fifth of a cluster waits."""


@dataclass(frozen=True, slots=True)
class JobRun:
    """One run of a job on hosts side by side: when, how much of its line each rail carries, and when less."""

    job: str
    hosts: range
    interval: Interval
    load: float
    slowdowns: tuple[tuple[Interval, float], ...]


class Traffic:
    """The runs of all jobs over a time."""

    def __init__(self, hosts: int, each: int, span: Interval, chance: np.random.Generator) -> None:
        """`each` hosts make a place for jobs, of which some stay empty."""
        self.hosts = hosts
        self._at: dict[range, list[JobRun]] = {}
        places = [range(first, min(first + each, hosts)) for first in range(0, hosts, each)]
        empty = set(chance.choice(len(places), round(_EMPTY * len(places)), replace=False).tolist())
        for i, place in enumerate(places):
            if i in empty:
                continue
            own_runs = self._at[place] = []
            at_ns = span.start_ns - round(chance.uniform(*_RUN_S) * _S / 2)
            while at_ns < span.end_ns:
                until_ns = at_ns + round(chance.uniform(*_RUN_S) * _S)
                own = Interval(at_ns, until_ns)
                number = sum(len(runs) for runs in self._at.values()) + 1
                own_runs.append(JobRun(f"job-{number:04d}", place, own, chance.uniform(*_LOAD), _less(own, chance)))
                at_ns = until_ns + round(chance.uniform(*_GAP_S) * _S)
        self._of_host = 1 + 0.01 * chance.standard_normal(hosts)

    def loads(self, at_ns: int, chance: np.random.Generator) -> npt.NDArray[np.float64]:
        """The share of its line that each host's rails carry now."""
        loads = np.full(self.hosts, _IDLE)
        for runs in self._at.values():
            place = bisect_right(runs, at_ns, key=lambda run: run.interval.start_ns) - 1
            if place >= 0 and at_ns < (run := runs[place]).interval.end_ns:
                less = min(
                    (share for span, share in run.slowdowns if span.start_ns <= at_ns < span.end_ns), default=1.0
                )
                loads[run.hosts.start : run.hosts.stop] = run.load * less * (1 + 0.05 * chance.standard_normal())
        return np.clip(loads * self._of_host, 1e-5, 0.95)

    def is_busy(self, host: int, span: Interval) -> bool:
        """Whether one job runs on the host for all of this time."""
        return any(
            run.interval.start_ns <= span.start_ns and span.end_ns <= run.interval.end_ns
            for place, runs in self._at.items()
            if host in place
            for run in runs
        )

    def jobs(self, names: list[str]) -> tuple[Job, ...]:
        """As the inventory has them."""
        return tuple(
            Job(run.job, names[host], _time(run.interval.start_ns), _time(run.interval.end_ns))
            for runs in self._at.values()
            for run in runs
            for host in run.hosts
        )


def _less(own: Interval, chance: np.random.Generator) -> tuple[tuple[Interval, float], ...]:
    found = []
    at_ns = own.start_ns + round(chance.uniform(*_CHECKPOINT_EVERY_S) * _S)
    while at_ns < own.end_ns:
        found.append((Interval(at_ns, at_ns + round(chance.uniform(*_CHECKPOINT_S) * _S)), 0.08))
        at_ns += round(chance.uniform(*_CHECKPOINT_EVERY_S) * _S)
    if chance.random() < (own.end_ns - own.start_ns) / _S / _SLOW_EVERY_S:
        at_ns = round(chance.uniform(own.start_ns, own.end_ns))
        found.append((Interval(at_ns, at_ns + round(chance.uniform(300, 1200) * _S)), chance.uniform(0.3, 0.7)))
    return tuple(found)


def _time(at_ns: int) -> datetime:
    return datetime.fromtimestamp(at_ns // _S, UTC)
