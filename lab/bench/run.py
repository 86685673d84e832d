"""Runs one benchmark from start to report: servers, pipeline, load, warm-up, window, drain, count.

Decides the order of steps and their timeouts. monitor.py samples the run, summarize.py computes the report. The caller
stops the supervisor.
"""

import asyncio
import os
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from lab.bench import params as process_specs
from lab.bench.clickhouse_metrics import StoredCounts, sample_row_count, stored_counts
from lab.bench.load import spec as arrays_file
from lab.bench.load.spec import LoadReport, Spec, read_report, write_spec
from lab.bench.monitor import Monitor
from lab.bench.params import Params
from lab.bench.processes import start_profiler
from lab.bench.report import Report
from lab.bench.summarize import summarize
from lab.world.fabric_arrays import FabricArrays, fabric_arrays
from streams.config.settings import Settings, load
from streams.embedded.watched_process import WatchedProcess
from streams.fabric.clos import GenerateParams, ImpossibleFabric, generate
from streams.runtime.foreground import run_and_stop
from streams.runtime.local_pipeline import SETUP_TIMEOUT_S, railsight_command, start_servers
from streams.runtime.supervise import Part, Supervisor
from streams.runtime.topic_io import inventory_records, publish
from streams.store.clickhouse import ClickHouse
from streams.wire.errors import Misconfigured, Retry
from streams.wire.topics import OPERATOR

READY_TIMEOUT_S = 180.0
ROWS_TIMEOUT_S = 60.0
"""The time without new rows after which the wait for them ends."""
PROFILE_TIMEOUT_S = 30.0
DRAIN_S = 90.0
"""The time beyond the lateness: silences, settling, and reserve for a slow machine."""


@dataclass
class PipelineBenchmark:
    """Runs one benchmark; `phase` names its current step for the progress display."""

    params: Params
    supervisor: Supervisor
    phase: str = "starting"
    problems: list[str] = field(default_factory=list)
    settings: Settings = field(init=False)
    monitor: Monitor = field(init=False)
    generator: WatchedProcess | None = None
    profiler: subprocess.Popen[bytes] | None = None

    async def run(self) -> Report:
        """Start everything, run the load, and return the report; raise Misconfigured when its limit is reached."""
        try:
            async with asyncio.timeout(self.params.limit_s):
                return await self._run()
        except TimeoutError as error:
            raise Misconfigured(
                f"the benchmark did not end within {self.params.limit_s:.0f} s; it was at: {self.phase}"
                f" (logs: {self.params.folder}); a run of these options takes {self.params.expected_s:.0f} s on an idle"
                " machine"
            ) from error

    async def _run(self) -> Report:
        began_s = time.monotonic()
        try:
            async with asyncio.TaskGroup() as tasks:
                background = [tasks.create_task(self.supervisor.watch())]
                fabric = await self._start_pipeline()
                self.monitor = Monitor(self.params, self.settings, self.supervisor)
                background += [tasks.create_task(work) for work in self.monitor.tasks()]
                await self._wait_for_stages()
                start_s = time.monotonic() - began_s
                sent = await self._run_load()
                stored = await self._wait_for_rows(sent)
                for task in background:
                    task.cancel()
            return await asyncio.to_thread(summarize, self.monitor, fabric, sent, stored, start_s, self.problems)
        finally:
            if self.profiler is not None:
                self.profiler.terminate()
                self.profiler.wait()
            if self.generator is not None:
                self.generator.stop()
            if hasattr(self, "monitor"):
                self.monitor.close()

    async def _start_pipeline(self) -> FabricArrays:
        """Start servers and pipeline, with topics, tables and the inventory; return the fabric."""
        self.phase = "starting Kafka and ClickHouse"
        servers = await start_servers(self.supervisor, self.params.folder, self.params.security)
        config = process_specs.write_config(self.params, servers)
        self.settings = load(config, None, os.environ)
        self.phase = "making topics and tables"
        for name in ("topics", "migrate"):
            part = Part(name, railsight_command(name, "--config", str(config)))
            await self.supervisor.run_once(part, SETUP_TIMEOUT_S)
        self.phase = f"generating a fabric of {self.params.gpus} GPUs"
        fabric = await self._publish_fabric()
        for part in process_specs.pipeline_parts(self.params, config):
            self.supervisor.start(part)
        return fabric

    async def _publish_fabric(self) -> FabricArrays:
        try:
            inventory = await asyncio.to_thread(
                generate, GenerateParams(gpus=self.params.gpus, planes=self.params.planes)
            )
        except ImpossibleFabric as error:
            raise Misconfigured(f"--gpus {self.params.gpus}: {error}") from error
        await publish(
            self.settings.kafka.of_part(OPERATOR), await asyncio.to_thread(inventory_records, inventory, time.time_ns())
        )
        fabric = await asyncio.to_thread(fabric_arrays, inventory)
        await asyncio.to_thread(arrays_file.save, fabric, self.params.folder / "plant.json")
        return fabric

    async def _wait_for_stages(self) -> None:
        """Wait until an owner reports progress for every partition of every stage."""
        self.phase = "waiting for the stages"
        wanted = {"measure": self.params.partitions, "correlate": self.settings.kafka.pod_partitions}
        stages = self.monitor.observed.stages
        if not await self._wait_until(
            lambda: all(len(progress.lags) >= wanted.get(name, 1) for name, progress in stages.items()),
            READY_TIMEOUT_S,
        ):
            raise Misconfigured(f"the stages were not ready after {READY_TIMEOUT_S:g} s (logs: {self.params.folder})")

    async def _run_load(self) -> LoadReport:
        """Run the load through warm-up, window and drain; return its report."""
        params, report_file = self.params, self.params.folder / "load-report.json"
        spec = Spec(
            str(params.folder / process_specs.CONFIG), str(params.folder / "plant.json"), str(report_file),
            params.partitions, params.cadence_s, params.warm_s, params.seconds, params.seed, params.compression,
            params.slot_s, params.senders, is_healthy=params.quick,
        )  # fmt: skip
        spec_file = params.folder / "load.json"
        write_spec(spec, spec_file)
        self.phase = "the load generator gets ready"
        self.generator = WatchedProcess(process_specs.load_command(spec_file), params.folder / "load.log", grace_s=30)
        self.monitor.generator = self.generator
        await self._wait_while_loading(lambda: read_report(report_file) is not None, READY_TIMEOUT_S)
        began = read_report(report_file)
        assert began is not None
        self.phase = "warming up"
        await self._load_until(began.began_ns + round(params.warm_s * 1e9))
        await self._measure_window()
        if not params.quick:
            self.phase = "draining under load: the last windows become final"
            await self._drain(max(time.time_ns(), began.over_ns))
        self.monitor.freeze_revisions()
        await self._finish_profile()
        self.phase = "stopping the load"
        await asyncio.to_thread(self.generator.stop)
        sent = read_report(report_file)
        assert sent is not None
        if not sent.done:
            raise Misconfigured(f"the load generator did not end in order (log: {params.folder / 'load.log'})")
        return sent

    async def _measure_window(self) -> None:
        self.phase = f"measuring for {self.params.seconds:g} s"
        self.monitor.begin_window()
        self._start_profiler()
        await self._load_until(time.time_ns() + round(self.params.seconds * 1e9))
        self.monitor.end_window()

    def _start_profiler(self) -> None:
        profile = self.params.profile
        for state in self.supervisor.states():
            if profile is not None and state.name == profile.part and state.pid is not None:
                self.profiler = start_profiler(profile, state.pid, self.params.seconds)

    async def _finish_profile(self) -> None:
        profiler = self.profiler
        if profiler is None:
            return
        ended = await self._wait_until(lambda: profiler.poll() is not None, PROFILE_TIMEOUT_S)
        if not ended or profiler.returncode:
            self.problems.append("py-spy recorded no profile")

    async def _drain(self, over_ns: int) -> None:
        """Wait until the window's faults have ended and their findings are final, while the load continues."""
        end_ns = over_ns + round((2 * self.params.cadence_s + self.settings.detect.lateness_s) * 1e9)
        stages = self.monitor.observed.stages
        timeout_s = (end_ns - time.time_ns()) / 1e9 + self.params.cadence_s + DRAIN_S
        if not await self._wait_until(lambda: stages["decide"].has_reached(end_ns), timeout_s):
            self.problems.append(f"the pipeline did not conclude within {timeout_s:g} s of the window's end")

    async def _wait_for_rows(self, sent: LoadReport) -> StoredCounts:
        """Wait until the rows are stored, then count them all."""
        self.phase = "waiting for the last rows"
        clickhouse = ClickHouse(self.settings.store)
        last_rows, deadline_s = 0, time.monotonic() + ROWS_TIMEOUT_S
        try:
            while time.monotonic() < deadline_s:
                with suppress(Retry):
                    rows = await asyncio.to_thread(sample_row_count, clickhouse)
                    if rows > last_rows:
                        last_rows, deadline_s = rows, time.monotonic() + ROWS_TIMEOUT_S
                    if rows >= sent.rows:
                        stored = await asyncio.to_thread(stored_counts, clickhouse)
                        if stored.statuses >= _sent_to(sent, "status") and stored.events >= _sent_to(sent, "events"):
                            return stored
                await asyncio.sleep(0.5)
            return await asyncio.to_thread(stored_counts, clickhouse)
        finally:
            clickhouse.close()

    async def _load_until(self, at_ns: int) -> None:
        await self._wait_while_loading(lambda: time.time_ns() >= at_ns, (at_ns - time.time_ns()) / 1e9 + 1)

    async def _wait_while_loading(self, condition: Callable[[], bool], timeout_s: float) -> None:
        """Wait for the condition; raise Misconfigured if the generator ends first or the time is over."""
        assert self.generator is not None
        generator = self.generator
        await self._wait_until(lambda: condition() or generator.exit_code is not None, timeout_s)
        if generator.exit_code is not None or not condition():
            raise Misconfigured(f"the load generator failed (log: {self.params.folder / 'load.log'})")

    async def _wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        deadline_s = time.monotonic() + timeout_s
        while not condition() and time.monotonic() < deadline_s:  # noqa: ASYNC110 — nothing sets an event
            await asyncio.sleep(0.1)
        return condition()


def _sent_to(sent: LoadReport, topic_part: str) -> int:
    return sum(count for topic, count in sent.messages.items() if topic_part in topic)


_PROGRESS_EVERY_S = 0.25


def run_benchmark(params: Params, report_progress: Callable[[str], None]) -> Report | None:
    """Run the benchmark once and return its report, None when a signal ended it."""
    supervisor = Supervisor(params.folder)
    benchmark = PipelineBenchmark(params, supervisor)
    background = _report_phases(benchmark, report_progress)
    return run_and_stop(benchmark.run(), background, supervisor.stop, restore_signals=True)


async def _report_phases(benchmark: PipelineBenchmark, report_progress: Callable[[str], None]) -> None:
    """Report the phase whenever it changes."""
    reported = ""
    while True:
        if benchmark.phase != reported:
            reported = benchmark.phase
            report_progress(reported)
        await asyncio.sleep(_PROGRESS_EVERY_S)
