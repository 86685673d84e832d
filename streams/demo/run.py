"""One demo from its start to its report: the servers, the pipeline, a simulated fabric or a recording, the score.

Decides the order of things and how long each is waited for. What runs in which process is parts.py's, what was seen
board.py's, what is said at the end report.py's.
"""

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from streams.cli import parts
from streams.cli.inventory import records_of
from streams.cli.publishing import publish
from streams.config.settings import Settings, load
from streams.demo import lineup
from streams.demo.board import Board, StageView
from streams.demo.own import own_records
from streams.demo.player import Tape, play, say_the_end
from streams.demo.report import Report, concluded
from streams.demo.rows import OF_A_RECORDING, TABLES, count_rows, empty
from streams.demo.watch import watch
from streams.embedded.kafka_folder import free_ports
from streams.fabric.inventory import Inventory
from streams.replay.score import Score, Truth, read_truth, score
from streams.runtime.supervise import Supervisor
from streams.store.clickhouse import ClickHouse
from streams.wire.errors import Retry

DRAIN_S = 90.0
"""How long is waited for the last conclusions: 30 s of lateness, 10 s of settling, and room for a slow machine."""
ROWS_S = 30.0
LOOK_EVERY_S = 0.5
INVENTORY_BEFORE_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Play:
    """A recording instead of the simulated fabric."""

    tape: Tape
    inventory: Inventory
    speed: float
    truths: tuple[Truth, ...] | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What was asked for."""

    folder: Path
    seconds: float = 60.0
    play: Play | None = None
    alertmanager: str | None = None


@dataclass
class Demo:
    """One run; `phase` is where it stands, for whoever watches."""

    plan: Plan
    board: Board
    supervisor: Supervisor
    phase: str = "starting"
    problems: list[str] = field(default_factory=list)
    settings: Settings = field(init=False)
    where: dict[str, str] = field(default_factory=dict)

    async def run(self) -> Report:
        """Start everything, let it run, and conclude; whoever calls stops the supervisor."""
        async with asyncio.TaskGroup() as tasks:
            background = [tasks.create_task(self.supervisor.watch())]
            await self._start_servers()
            await self._start_pipeline()
            background.append(tasks.create_task(watch(self.settings.kafka, self.board)))
            background.append(tasks.create_task(self._count()))
            truths = await (self._simulate() if self.plan.play is None else self._play(self.plan.play))
            self.phase = "waiting for the last rows"
            needed = TABLES if self.plan.play is None else OF_A_RECORDING
            await self._until(lambda: not empty(self.board.rows, needed), ROWS_S)
            for task in background:
                task.cancel()
        self.problems += [f"no rows in {table}" for table in empty(self.board.rows, needed)]
        return concluded(self.board, self._score(truths), self.supervisor.states(), self.problems)

    def _score(self, truths: list[Truth] | None) -> Score | None:
        return None if truths is None else score(self.board.revisions, truths)

    async def _start_servers(self) -> None:
        folder, supervisor = self.plan.folder, self.supervisor
        self.phase = "starting Kafka and ClickHouse"
        kafka_port, clickhouse_port = free_ports(2)
        supervisor.start(parts.broker(folder / "kafka", kafka_port))
        supervisor.start(parts.clickhouse(folder / "clickhouse", clickhouse_port))
        bootstrap = (await parts.until_said(supervisor, "broker", "bootstrap"))["bootstrap"]
        url = (await parts.until_said(supervisor, "clickhouse", "url"))["url"]
        config = lineup.written_config(folder, bootstrap, url, self.plan)
        self.settings = load(config, None, os.environ)
        self.where = {"run_dir": str(folder), "kafka": bootstrap, "clickhouse": url, "config": str(config)}
        scratch = folder / "demo.new"
        scratch.write_bytes(orjson.dumps(self.where | {"database": self.settings.store.database}))
        scratch.replace(folder / "demo.json")

    async def _start_pipeline(self) -> None:
        config = self.plan.folder / lineup.CONFIG
        self.phase = "making topics and tables"
        await asyncio.gather(*(self.supervisor.run_once(part, 60) for part in lineup.once(config)))
        if self.plan.play is not None:
            effective = self.plan.play.tape.first_ns - INVENTORY_BEFORE_NS
            await publish(self.settings.kafka, records_of(self.plan.play.inventory, effective))
        for part in lineup.pipeline(config, self.plan.alertmanager):
            self.supervisor.start(part)

    async def _simulate(self) -> list[Truth]:
        """Run the simulated fabric for the asked time, then wait until nothing of it is still under way."""
        config = self.plan.folder / lineup.CONFIG
        self.supervisor.start(lineup.sim(config))
        await self._until((self.plan.folder / lineup.TARGETS).exists, DRAIN_S)
        self.supervisor.start(lineup.gnmi(config))
        self.phase = "running"
        await asyncio.sleep(self.plan.seconds)
        await self._write_own()
        self.phase = "draining: the last windows become final"
        truths = read_truth(self.plan.folder / lineup.TRUTH)
        end_ns = max([time.time_ns(), *(truth.end_ns for truth in truths)])
        await self._drain(end_ns + round(self.settings.detect.lateness_s * 1e9))
        return read_truth(self.plan.folder / lineup.TRUTH)

    async def _play(self, tape_and_more: Play) -> list[Truth] | None:
        self.phase = f"playing {len(tape_and_more.tape.messages)} messages at {tape_and_more.speed:g} times their pace"
        await play(tape_and_more.tape, self.settings.kafka, tape_and_more.speed)
        end_ns = tape_and_more.tape.last_ns + round(self.settings.detect.lateness_s * 1e9)
        await say_the_end(self.settings.kafka, end_ns)
        self.phase = "draining: the last windows become final"
        await self._drain(end_ns)
        # Only now: a person's control has no place in the past that was recorded.
        await self._write_own()
        return None if tape_and_more.truths is None else list(tape_and_more.truths)

    async def _drain(self, end_ns: int) -> None:
        decide = self.board.stages["decide"]
        if not await self._until(lambda: decide.reached(end_ns), DRAIN_S):
            behind = ", ".join(f"{name} {_behind(view, end_ns)}" for name, view in self.board.stages.items())
            self.problems.append(f"the pipeline did not conclude within {DRAIN_S:g} s of the end ({behind})")

    async def _write_own(self) -> None:
        await publish(self.settings.kafka, own_records(self.board.remediations.values(), time.time_ns()))

    async def _count(self) -> None:
        """Keep the board's counts of rows current, for ever."""
        database = ClickHouse(self.settings.store)
        try:
            while True:
                # Not there yet, or on its way back: the supervisor sees to it.
                with suppress(Retry):
                    self.board.rows = await asyncio.to_thread(count_rows, database)
                await asyncio.sleep(LOOK_EVERY_S)
        finally:
            database.close()

    async def _until(self, holds: Callable[[], bool], within_s: float) -> bool:
        """Wait until it holds, or the time is over; say which."""
        give_up = time.monotonic() + within_s
        while not holds() and time.monotonic() < give_up:  # noqa: ASYNC110 — what is waited for sets no event
            await asyncio.sleep(0.1)
        return holds()


def _behind(view: StageView, end_ns: int) -> str:
    return "idle" if view.watermark_ns is None else f"{(end_ns - view.watermark_ns) / 1e9:.1f} s behind"
