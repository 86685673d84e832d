"""Samples a run: processes and rows each second, lags every five seconds, findings as they arrive.

Separates the values of the window from those before and after it; summarize.py evaluates them.
"""

import asyncio
import os
import signal
import time
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from lab.bench.clickhouse_metrics import RowAges
from lab.bench.kafka_observer import KafkaObservations, observe, open_group_lag
from lab.bench.params import SINK, Params, worker_names
from lab.bench.processes import ProcessCosts
from lab.bench.report import WorkerKill
from lab.bench.statistics import Observation
from streams.config.settings import Settings
from streams.embedded.watched_process import WatchedProcess
from streams.runtime.supervise import Supervisor
from streams.store.clickhouse import ClickHouse
from streams.wire.errors import Retry
from streams.wire.models import Finding
from streams.wire.topics import ADMIN, READER

LOAD = "load"
COSTS_EVERY_S = 1.0
ROWS_EVERY_S, ROWS_EVERY_QUICK_S = 1.0, 5.0
"""A sample with new rows costs 15 ms of CPU, which is counted as ClickHouse's; a sample without costs about 1 ms."""
LAGS_EVERY_S = 5.0
RECOVERED_WITHIN_S = 120.0


@dataclass(slots=True)
class WindowEdge:
    """The CPU seconds used and the records read at the start or end of the window."""

    at_ns: int
    cpu_s: dict[str, float]
    records: dict[str, int]


@dataclass
class Monitor:
    """All observations of one run."""

    params: Params
    settings: Settings
    supervisor: Supervisor
    observed: KafkaObservations = field(default_factory=KafkaObservations)
    costs: ProcessCosts = field(default_factory=ProcessCosts)
    row_ages: RowAges = field(default_factory=RowAges)
    row_age_counts: dict[float, int] = field(default_factory=dict)
    lags: dict[str, list[Observation]] = field(default_factory=dict)
    memory: dict[str, list[Observation]] = field(default_factory=dict)
    kills: list[WorkerKill] = field(default_factory=list)
    generator: WatchedProcess | None = None
    first: WindowEdge | None = None
    last: WindowEdge | None = None
    revisions: list[tuple[int, Finding]] = field(default_factory=list)
    """Revisions from before the end of the load; afterwards the whole fabric is silent."""
    decided_ns: int = 0
    """The watermark of `decide` at the end of the load."""
    behind_s: float = 0.0
    """The age of that watermark at the end of the window."""

    def __post_init__(self) -> None:
        """Create the client of ClickHouse, which connects at the first sample."""
        self._clickhouse = ClickHouse(self.settings.store)

    def tasks(self) -> Iterator[Coroutine[Any, Any, None]]:
        """Yield the tasks that run all the time."""
        yield observe(self.settings.kafka.of_part(READER), self.observed)
        yield self._sample_processes()
        yield self._sample_rows()
        yield self._sample_lag()
        if self.params.kill_every_s is not None:
            yield self._kill_workers(self.params.kill_every_s)

    def close(self) -> None:
        """Close the client of ClickHouse."""
        self._clickhouse.close()

    @property
    def is_measuring(self) -> bool:
        """True between the start and the end of the window."""
        return self.first is not None and self.last is None

    def begin_window(self) -> None:
        """Start the window."""
        self.first = self._edge()
        self.row_ages.reset()

    def end_window(self) -> None:
        """End the window."""
        self.last = self._edge()
        self.row_age_counts = dict(self.row_ages.ages)
        self.behind_s = (self.last.at_ns - self._decided_ns()) / 1e9

    def freeze_revisions(self) -> None:
        """Ignore later findings, which are about the end of the load."""
        self.revisions = list(self.observed.revisions)
        self.decided_ns = self._decided_ns()

    def _decided_ns(self) -> int:
        return self.observed.stages["decide"].watermark_ns or 0

    def _edge(self) -> WindowEdge:
        self._sample_costs()
        records = {stage: progress.total for stage, progress in self.observed.stages.items()}
        return WindowEdge(time.time_ns(), self.costs.cpu_s(), records)

    def _sample_costs(self) -> None:
        roots = {state.name: state.pid for state in self.supervisor.states()}
        # The watchdogs of all parts are children of this process and are counted with them; the rest is the benchmark.
        self.costs.sample(roots | {LOAD: self.generator.pid if self.generator else None})

    def _elapsed_s(self) -> float:
        return (time.time_ns() - self.first.at_ns) / 1e9 if self.first else 0.0

    async def _sample_processes(self) -> None:
        while True:
            self._sample_costs()
            if self.is_measuring:
                for part, size in self.costs.rss().items():
                    self.memory.setdefault(part, []).append((self._elapsed_s(), float(size)))
            await asyncio.sleep(COSTS_EVERY_S)

    async def _sample_rows(self) -> None:
        while True:
            # ClickHouse is down or restarting; the supervisor restarts it.
            with suppress(Retry):
                await asyncio.to_thread(self.row_ages.sample, self._clickhouse)
            await asyncio.sleep(ROWS_EVERY_QUICK_S if self.params.quick else ROWS_EVERY_S)

    async def _sample_lag(self) -> None:
        async with open_group_lag(self.settings.kafka.of_part(ADMIN)) as group_lag:
            while True:
                behind = await group_lag.lag_of(self.settings.persist.group)
                if self.is_measuring:
                    lags = self.observed.lag if behind is None else self.observed.lag | {SINK: behind}
                    for reader, lag in lags.items():
                        self.lags.setdefault(reader, []).append((self._elapsed_s(), float(lag)))
                await asyncio.sleep(LAGS_EVERY_S)

    async def _kill_workers(self, every_s: float) -> None:
        """Kill the workers in turn at an interval, and measure each recovery."""
        number = 0
        while True:
            await asyncio.sleep(0.5)
            if not self.is_measuring or self._elapsed_s() < (number + 1) * every_s:
                continue
            name = worker_names(self.params)[number % self.params.workers]
            number += 1
            pid = next((state.pid for state in self.supervisor.states() if state.name == name), None)
            if pid is not None and self._elapsed_s() < self.params.seconds - 1:
                self._sample_costs()
                at_s, before, normal = self._elapsed_s(), self.observed.epochs, self._normal_lag()
                os.kill(pid, signal.SIGKILL)
                self.kills.append(await self._measure_recovery(name, at_s, before, normal))

    def _normal_lag(self) -> float:
        """Return the lag that counts as caught up: the lag of measure's first samples, at least a second's messages."""
        lags = [lag for _, lag in self.lags.get("measure", [])]
        records = self.observed.stages["measure"].rate(time.monotonic())
        return max([records, *lags[:3]])

    async def _measure_recovery(self, name: str, at_s: float, before: dict[int, int], normal: float) -> WorkerKill:
        first = everything = caught_up = None
        deadline_s = self._elapsed_s() + RECOVERED_WITHIN_S
        while caught_up is None and self._elapsed_s() < deadline_s:
            await asyncio.sleep(0.05)
            after = self.observed.epochs
            taken_over = [partition for partition, epoch in after.items() if epoch > before.get(partition, 0)]
            since_s = self._elapsed_s() - at_s
            if taken_over and first is None:
                first = since_s
            if everything is None and len(taken_over) >= self.params.partitions / self.params.workers:
                everything = since_s
            if everything is not None and self.observed.stages["measure"].lag <= normal:
                caught_up = since_s
        return WorkerKill(name, at_s, first, everything, caught_up)
