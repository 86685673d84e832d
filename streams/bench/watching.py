"""What is looked at while a run goes on: processes each second, rows too, lags each five, findings as they come.

Keeps the figures of the window apart from those before and after it; concludes nothing.
"""

import asyncio
import os
import signal
import time
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from streams.bench.figures import Looked
from streams.bench.lags import asking
from streams.bench.lineup import SINK, workers
from streams.bench.listening import Heard, listen
from streams.bench.params import Params
from streams.bench.processes import Costs
from streams.bench.report import Killed
from streams.bench.stored import Freshness
from streams.config.settings import Settings
from streams.embedded.guarded import Guarded
from streams.runtime.supervise import Supervisor
from streams.store.clickhouse import ClickHouse
from streams.wire.errors import Retry
from streams.wire.models import Finding

LOAD, BENCH = "load", "bench"
COSTS_EVERY_S = 1.0
ROWS_EVERY_S = 1.0
"""A look that finds new rows costs ClickHouse 15 ms of CPU, counted as its own; one that finds none about 1 ms."""
LAGS_EVERY_S = 5.0
RECOVERED_WITHIN_S = 120.0


@dataclass(slots=True)
class Edge:
    """What had been used and read when the window began or ended."""

    at_ns: int
    cpu_s: dict[str, float]
    records: dict[str, int]


@dataclass
class Watch:
    """Everything that was seen of one run."""

    params: Params
    settings: Settings
    supervisor: Supervisor
    heard: Heard = field(default_factory=Heard)
    costs: Costs = field(default_factory=Costs)
    freshness: Freshness = field(default_factory=Freshness)
    ages: dict[float, int] = field(default_factory=dict)
    lags: dict[str, list[Looked]] = field(default_factory=dict)
    memory: dict[str, list[Looked]] = field(default_factory=dict)
    kills: list[Killed] = field(default_factory=list)
    generator: Guarded | None = None
    first: Edge | None = None
    last: Edge | None = None
    revisions: list[tuple[int, Finding]] = field(default_factory=list)
    """Those that came before the load ended: what follows then is the silence of the whole fabric."""

    def __post_init__(self) -> None:
        """Nothing is asked of ClickHouse before the first look."""
        self._clickhouse = ClickHouse(self.settings.store)

    def works(self) -> Iterator[Coroutine[Any, Any, None]]:
        """What goes on all the time."""
        yield listen(self.settings.kafka, self.heard)
        yield self._processes()
        yield self._rows()
        yield self._lag()
        if self.params.kill_every_s is not None:
            yield self._kill(self.params.kill_every_s)

    def close(self) -> None:
        """Let go of ClickHouse."""
        self._clickhouse.close()

    @property
    def measuring(self) -> bool:
        """Whether the window has begun and not ended."""
        return self.first is not None and self.last is None

    def begin(self) -> None:
        """The window begins."""
        self.first = self._edge()
        self.freshness.forget()

    def end(self) -> None:
        """The window ends."""
        self.last = self._edge()
        self.ages = dict(self.freshness.ages)

    def stop_hearing(self) -> None:
        """Findings from now on are about the load that ended."""
        self.revisions = list(self.heard.revisions)

    def _edge(self) -> Edge:
        self._look()
        records = {stage: view.total for stage, view in self.heard.stages.items()}
        return Edge(time.time_ns(), self.costs.cpu_s(), records)

    def _look(self) -> None:
        roots = {state.name: state.pid for state in self.supervisor.states()}
        # Below this process are the guards of all parts, which are counted with them; itself alone is the benchmark.
        self.costs.look(roots | {LOAD: self.generator.pid if self.generator else None})

    def _seconds(self) -> float:
        return (time.time_ns() - self.first.at_ns) / 1e9 if self.first else 0.0

    async def _processes(self) -> None:
        while True:
            self._look()
            if self.measuring:
                for part, size in self.costs.rss().items():
                    self.memory.setdefault(part, []).append((self._seconds(), float(size)))
            await asyncio.sleep(COSTS_EVERY_S)

    async def _rows(self) -> None:
        while True:
            # Away, or on its way back: the supervisor sees to it.
            with suppress(Retry):
                await asyncio.to_thread(self.freshness.look, self._clickhouse)
            await asyncio.sleep(ROWS_EVERY_S)

    async def _lag(self) -> None:
        async with asking(self.settings.kafka) as ends:
            while True:
                behind = await ends.behind(self.settings.persist.group)
                if self.measuring:
                    seen = self.heard.lag if behind is None else self.heard.lag | {SINK: behind}
                    for reader, lag in seen.items():
                        self.lags.setdefault(reader, []).append((self._seconds(), float(lag)))
                await asyncio.sleep(LAGS_EVERY_S)

    async def _kill(self, every_s: float) -> None:
        """Kill a worker every so often, one after the other, and see how it comes back."""
        number = 0
        while True:
            await asyncio.sleep(0.5)
            if not self.measuring or self._seconds() < (number + 1) * every_s:
                continue
            name = workers(self.params)[number % self.params.workers]
            number += 1
            pid = next((state.pid for state in self.supervisor.states() if state.name == name), None)
            if pid is not None and self._seconds() < self.params.seconds - 1:
                self._look()
                at_s, before, normal = self._seconds(), self.heard.epochs, self._normal_lag()
                os.kill(pid, signal.SIGKILL)
                self.kills.append(await self._recovery(name, at_s, before, normal))

    def _normal_lag(self) -> float:
        """What counts as caught up: the most that measure lagged so far, a second's messages at least."""
        seen = [lag for _, lag in self.lags.get("measure", [])]
        records = self.heard.stages["measure"].rate(time.monotonic())
        return max([records, *seen[:3]])

    async def _recovery(self, name: str, at_s: float, before: dict[int, int], normal: float) -> Killed:
        first = everything = caught_up = None
        give_up = self._seconds() + RECOVERED_WITHIN_S
        while caught_up is None and self._seconds() < give_up:
            await asyncio.sleep(0.05)
            after = self.heard.epochs
            anew = [partition for partition, epoch in after.items() if epoch > before.get(partition, 0)]
            since_s = self._seconds() - at_s
            if anew and first is None:
                first = since_s
            if everything is None and len(anew) >= self.params.partitions / self.params.workers:
                everything = since_s
            if everything is not None and self.heard.stages["measure"].lag <= normal:
                caught_up = since_s
        return Killed(name, at_s, first, everything, caught_up)
