"""Simulates the traffic of jobs, which start, stop, pause for checkpoints and slow down; some hosts are idle."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

import numpy as np
import numpy.typing as npt

from lab.world.effects import Interval
from streams.fabric.inventory import Job

_S = 10**9
_LOAD = (0.3, 0.6)
"""The mean share of its line rate that a rail of a training job carries."""
_IDLE_LOAD = 2e-4
_RUN_S = (2400.0, 14_400.0)
_GAP_S = (120.0, 900.0)
_CHECKPOINT_INTERVAL_S = (900.0, 1800.0)
_CHECKPOINT_S = (20.0, 60.0)
_CHECKPOINT_LOAD = 0.08
_SLOWDOWN_INTERVAL_S = 5400.0
"""The mean time between slowdowns of a whole job (by its storage, or its slowest rank)."""
_EMPTY_RATIO = 0.15
"""The share of hosts without a job: between jobs a tenth to a fifth of a cluster waits."""


class Busyness(Protocol):
    """Provides the times at which hosts carry a job's traffic, for a FaultPlacer."""

    def is_busy(self, host: int, interval: Interval) -> bool: ...

    def neighbors(self, host: int) -> Sequence[int]:
        """Return the hosts that run the same jobs as a host, itself included."""
        ...


class SteadyTraffic:
    """Traffic that never stops, for worlds without jobs that start and end."""

    def is_busy(self, host: int, interval: Interval) -> bool:
        """Return True: the traffic never stops."""
        return True

    def neighbors(self, host: int) -> Sequence[int]:
        """Return the host alone."""
        return (host,)


@dataclass(frozen=True, slots=True)
class JobRun:
    """One run of a job on its hosts: its time, its load by rail as a share of the line rate, its slowdowns."""

    job: str
    hosts: Sequence[int]
    interval: Interval
    load: float
    slowdowns: tuple[tuple[Interval, float], ...]


class Traffic:
    """The runs of all jobs within an interval."""

    def __init__(
        self, hosts: int, hosts_per_job: int, interval: Interval, rng: np.random.Generator,
        order: Sequence[int] | None = None,
    ) -> None:  # fmt: skip
        """Divide the hosts, in an `order`, into groups of `hosts_per_job`; some groups have no jobs."""
        self.hosts = hosts
        self._runs: dict[Sequence[int], list[JobRun]] = {}
        ordered = range(hosts) if order is None else tuple(order)
        groups = [ordered[first : first + hosts_per_job] for first in range(0, hosts, hosts_per_job)]
        empty = set(rng.choice(len(groups), round(_EMPTY_RATIO * len(groups)), replace=False).tolist())
        for number, group in enumerate(groups):
            if number in empty:
                continue
            runs = self._runs[group] = []
            at_ns = interval.start_ns - round(rng.uniform(*_RUN_S) * _S / 2)
            while at_ns < interval.end_ns:
                until_ns = at_ns + round(rng.uniform(*_RUN_S) * _S)
                run = Interval(at_ns, until_ns)
                job = sum(len(runs) for runs in self._runs.values()) + 1
                runs.append(JobRun(f"job-{job:04d}", group, run, rng.uniform(*_LOAD), _slowdowns(run, rng)))
                at_ns = until_ns + round(rng.uniform(*_GAP_S) * _S)
        self._host_factor = 1 + 0.01 * rng.standard_normal(hosts)

    def loads(self, at_ns: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
        """Return the share of its line rate that each rail of each host carries at a moment."""
        loads = np.full(self.hosts, _IDLE_LOAD)
        for runs in self._runs.values():
            number = bisect_right(runs, at_ns, key=lambda run: run.interval.start_ns) - 1
            if number >= 0 and at_ns < (run := runs[number]).interval.end_ns:
                share = min((share for interval, share in run.slowdowns if interval.contains(at_ns)), default=1.0)
                loads[list(run.hosts)] = run.load * share * (1 + 0.05 * rng.standard_normal())
        return np.clip(loads * self._host_factor, 1e-5, 0.95)

    def is_busy(self, host: int, interval: Interval) -> bool:
        """Return True if one job runs on the host for the whole interval."""
        return any(
            run.interval.start_ns <= interval.start_ns and interval.end_ns <= run.interval.end_ns
            for group, runs in self._runs.items()
            if host in group
            for run in runs
        )

    def neighbors(self, host: int) -> Sequence[int]:
        """Return the hosts that run the same jobs as a host, including itself; none without a job."""
        return next((group for group in self._runs if host in group), ())

    def jobs(self, names: list[str]) -> tuple[Job, ...]:
        """Return the rows of the inventory; `names` has the names of the hosts."""
        return tuple(
            Job(run.job, names[host], _time(run.interval.start_ns), _time(run.interval.end_ns))
            for runs in self._runs.values()
            for run in runs
            for host in run.hosts
        )


def over_two_pods(pods: Sequence[str], hosts_per_job: int) -> tuple[int, ...]:
    """Return an order of hosts in which a job has half of its hosts in each of two pods; `pods` has each host's pod.

    A fabric of one pod has the order of the hosts.
    """
    half = max(1, hosts_per_job // 2)
    pod_number = {pod: number for number, pod in enumerate(dict.fromkeys(pods))}
    seen: Counter[str] = Counter()
    keys = []
    for host, pod in enumerate(pods):
        keys.append((pod_number[pod] // 2, seen[pod] // half, pod_number[pod], host))
        seen[pod] += 1
    return tuple(host for *_, host in sorted(keys))


def _slowdowns(run: Interval, rng: np.random.Generator) -> tuple[tuple[Interval, float], ...]:
    """Return the checkpoints of a run, and at most one slowdown of the whole job."""
    found = []
    at_ns = run.start_ns + round(rng.uniform(*_CHECKPOINT_INTERVAL_S) * _S)
    while at_ns < run.end_ns:
        found.append((Interval(at_ns, at_ns + round(rng.uniform(*_CHECKPOINT_S) * _S)), _CHECKPOINT_LOAD))
        at_ns += round(rng.uniform(*_CHECKPOINT_INTERVAL_S) * _S)
    if rng.random() < (run.end_ns - run.start_ns) / _S / _SLOWDOWN_INTERVAL_S:
        at_ns = round(rng.uniform(run.start_ns, run.end_ns))
        found.append((Interval(at_ns, at_ns + round(rng.uniform(300, 1200) * _S)), rng.uniform(0.3, 0.7)))
    return tuple(found)


def _time(at_ns: int) -> datetime:
    return datetime.fromtimestamp(at_ns // _S, UTC)
