"""One run from its start to its report: servers, pipeline, load, warm-up, window, drain, count.

Decides the order of things and how long each is waited for. What is looked at meanwhile is watching.py's, what
follows from it concluding.py's. Whoever calls stops the supervisor.
"""

import asyncio
import os
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from streams.bench import lineup
from streams.bench.concluding import conclude
from streams.bench.load import arrays_file
from streams.bench.load.spec import LoadReport, Spec, read_report, write_spec
from streams.bench.params import Params
from streams.bench.profiling import recording
from streams.bench.report import Report
from streams.bench.stored import Held, held, rows_of_samples
from streams.bench.watching import Watch
from streams.cli import parts
from streams.cli.inventory import records_of
from streams.cli.publishing import publish
from streams.config.settings import Settings, load
from streams.embedded.guarded import Guarded
from streams.embedded.kafka_folder import free_ports
from streams.runtime.supervise import Part, Supervisor
from streams.simulation.clos import GenerateParams, ImpossibleFabric, generate
from streams.simulation.fabric_arrays import FabricArrays, fabric_arrays
from streams.store.clickhouse import ClickHouse
from streams.wire.errors import Misconfigured, Retry

PREPARED_S = 120.0
READY_S = 180.0
ROWS_S = 60.0
"""How long is waited for rows when no more come."""
PROFILED_S = 30.0
DRAIN_S = 90.0
"""Beyond the lateness: silences, settling, and room for a slow machine."""


@dataclass
class Bench:
    """One run; `phase` is where it stands, for whoever watches."""

    params: Params
    supervisor: Supervisor
    phase: str = "starting"
    problems: list[str] = field(default_factory=list)
    settings: Settings = field(init=False)
    watch: Watch = field(init=False)
    generator: Guarded | None = None
    profiler: subprocess.Popen[bytes] | None = None

    async def run(self) -> Report:
        """Start everything, load it, and conclude."""
        began_s = time.monotonic()
        try:
            async with asyncio.TaskGroup() as tasks:
                background = [tasks.create_task(self.supervisor.watch())]
                plant = await self._start()
                self.watch = Watch(self.params, self.settings, self.supervisor)
                background += [tasks.create_task(work) for work in self.watch.works()]
                await self._ready()
                start_s = time.monotonic() - began_s
                sent = await self._load()
                there = await self._rows(sent)
                for task in background:
                    task.cancel()
            return await asyncio.to_thread(conclude, self.watch, plant, sent, there, start_s, self.problems)
        finally:
            if self.profiler is not None:
                self.profiler.terminate()
                self.profiler.wait()
            if self.generator is not None:
                self.generator.stop()
            if hasattr(self, "watch"):
                self.watch.close()

    async def _start(self) -> FabricArrays:
        """Servers, topics, tables, the inventory, and the pipeline."""
        folder, supervisor = self.params.folder, self.supervisor
        self.phase = "starting Kafka and ClickHouse"
        kafka_port, clickhouse_port = free_ports(2)
        supervisor.start(parts.broker(folder / "kafka", kafka_port))
        supervisor.start(parts.clickhouse(folder / "clickhouse", clickhouse_port))
        bootstrap = (await parts.until_said(supervisor, "broker", "bootstrap"))["bootstrap"]
        url = (await parts.until_said(supervisor, "clickhouse", "url"))["url"]
        config = lineup.written_config(self.params, bootstrap, url)
        self.settings = load(config, None, os.environ)
        self.phase = "making topics and tables"
        for name in ("topics", "migrate"):
            part = Part(name, parts.railsight(name, "--config", str(config)))
            await supervisor.run_once(part, PREPARED_S)
        self.phase = f"generating a fabric of {self.params.gpus} GPUs"
        plant = await self._publish_fabric()
        for part in lineup.pipeline(self.params, config):
            supervisor.start(part)
        return plant

    async def _publish_fabric(self) -> FabricArrays:
        try:
            inventory = await asyncio.to_thread(generate, GenerateParams(gpus=self.params.gpus))
        except ImpossibleFabric as error:
            raise Misconfigured(f"--gpus {self.params.gpus}: {error}") from error
        await publish(self.settings.kafka, await asyncio.to_thread(records_of, inventory, time.time_ns()))
        plant = await asyncio.to_thread(fabric_arrays, inventory)
        await asyncio.to_thread(arrays_file.save, plant, self.params.folder / "plant.json")
        return plant

    async def _ready(self) -> None:
        """Every partition of every stage has an owner that says so."""
        self.phase = "waiting for the stages"
        wanted = {"measure": self.params.partitions, "correlate": self.settings.kafka.pod_partitions}
        stages = self.watch.heard.stages
        if not await self._until(
            lambda: all(len(view.lags) >= wanted.get(name, 1) for name, view in stages.items()), READY_S
        ):
            raise Misconfigured(f"the stages were not ready after {READY_S:g} s (logs: {self.params.folder})")

    async def _load(self) -> LoadReport:
        """Run the load through warm-up, window and drain; answer what was sent."""
        params, said = self.params, self.params.folder / "load-said.json"
        spec = Spec(
            self.settings.kafka.bootstrap, str(params.folder / "plant.json"), str(said), params.partitions,
            params.cadence_s, params.warm_s, params.seconds, params.seed, params.compression, params.slot_s,
            params.senders,
        )  # fmt: skip
        asked = params.folder / "load.json"
        write_spec(spec, asked)
        self.phase = "the load generator gets ready"
        self.generator = Guarded(lineup.load(asked), params.folder / "load.log", grace_s=30)
        self.watch.generator = self.generator
        await self._alive(lambda: read_report(said) is not None, READY_S)
        began = read_report(said)
        assert began is not None
        self.phase = "warming up"
        await self._alive_until(began.began_ns + round(params.warm_s * 1e9))
        self.phase = f"measuring for {params.seconds:g} s"
        self.watch.begin()
        self._profile()
        await self._alive_until(time.time_ns() + round(params.seconds * 1e9))
        self.watch.end()
        self.phase = "draining under load: the last windows become final"
        await self._drain(max(time.time_ns(), began.over_ns))
        self.watch.stop_hearing()
        if self.profiler is not None:
            profiler = self.profiler
            if not await self._until(lambda: profiler.poll() is not None, PROFILED_S) or profiler.returncode:
                self.problems.append("py-spy recorded no profile")
        self.phase = "stopping the load"
        await asyncio.to_thread(self.generator.stop)
        sent = read_report(said)
        assert sent is not None
        if not sent.done:
            raise Misconfigured(f"the load generator did not end in order (log: {params.folder / 'load.log'})")
        return sent

    def _profile(self) -> None:
        profile = self.params.profile
        for state in self.supervisor.states():
            if profile is not None and state.name == profile.part and state.pid is not None:
                self.profiler = recording(profile, state.pid, self.params.seconds)

    async def _drain(self, over_ns: int) -> None:
        """Faults that began in the window end, and what they led to becomes final, while the load goes on."""
        end_ns = over_ns + round((2 * self.params.cadence_s + self.settings.detect.lateness_s) * 1e9)
        stages = self.watch.heard.stages
        give_up_s = (end_ns - time.time_ns()) / 1e9 + self.params.cadence_s + DRAIN_S
        if not await self._until(lambda: stages["decide"].reached(end_ns), give_up_s):
            self.problems.append(f"the pipeline did not conclude within {give_up_s:g} s of the window's end")

    async def _rows(self, sent: LoadReport) -> Held:
        """Wait until the rows are there, then count them all."""
        self.phase = "waiting for the last rows"
        clickhouse = ClickHouse(self.settings.store)
        seen, give_up = 0, time.monotonic() + ROWS_S
        try:
            while time.monotonic() < give_up:
                with suppress(Retry):
                    rows = await asyncio.to_thread(rows_of_samples, clickhouse)
                    if rows > seen:
                        seen, give_up = rows, time.monotonic() + ROWS_S
                    if rows >= sent.rows:
                        there = await asyncio.to_thread(held, clickhouse)
                        if there.statuses >= self._sent(sent, "status") and there.events >= self._sent(sent, "events"):
                            return there
                await asyncio.sleep(0.5)
            return await asyncio.to_thread(held, clickhouse)
        finally:
            clickhouse.close()

    def _sent(self, sent: LoadReport, word: str) -> int:
        return sum(count for topic, count in sent.messages.items() if word in topic)

    async def _alive_until(self, at_ns: int) -> None:
        await self._alive(lambda: time.time_ns() >= at_ns, (at_ns - time.time_ns()) / 1e9 + 1)

    async def _alive(self, holds: Callable[[], bool], within_s: float) -> None:
        """Wait until it holds; raises Misconfigured where the generator ends first, or the time does."""
        assert self.generator is not None
        ended = self.generator
        await self._until(lambda: holds() or ended.exit_code is not None, within_s)
        if ended.exit_code is not None or not holds():
            raise Misconfigured(f"the load generator failed (log: {self.params.folder / 'load.log'})")

    async def _until(self, holds: Callable[[], bool], within_s: float) -> bool:
        give_up = time.monotonic() + within_s
        while not holds() and time.monotonic() < give_up:  # noqa: ASYNC110 — what is waited for sets no event
            await asyncio.sleep(0.1)
        return holds()
