"""Runs one demo from start to report: servers, pipeline, a simulated fabric or a recording, and the score.

Decides the order of steps and their timeouts. local_pipeline.py has the processes, state.py the received messages,
report.py the output at the end.
"""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from lab.demo import acting, grafana, process_specs
from lab.demo.disturbances import MARK, Disturbances
from lab.demo.player import control_record, follow_pipeline, play, poison_record, publish_end_of_time, result_record
from lab.demo.process_specs import DemoPlan, PlaybackPlan
from lab.demo.report import ActionScore, Report, build_report, read_bad_links, score_actions
from lab.demo.state import TABLES, TABLES_OF_A_RECORDING, DemoState, count_rows, empty_tables
from streams.config.settings import Settings, load
from streams.decide.policy import load_policy
from streams.embedded.running_instances import Instance, registered
from streams.replay.score import Score, Truth, read_truth, score
from streams.report.grafana import BoardReader, Grafana
from streams.runtime.local_pipeline import BOARD_READER, SETUP_TIMEOUT_S, reader_password_file, start_servers
from streams.runtime.stage_progress import StageProgress
from streams.runtime.supervise import Supervisor
from streams.runtime.topic_io import inventory_records, publish
from streams.store.clickhouse import ClickHouse
from streams.wire.errors import Retry
from streams.wire.topics import AUTOMATION, COLLECTOR, OPERATOR, READER

DRAIN_S = 90.0
"""Timeout of the last conclusions: 30 s of lateness, 10 s of settling, and reserve for a slow machine."""
ROWS_S = 30.0
COUNT_EVERY_S = 0.5
INVENTORY_BEFORE_NS = 1_000_000_000
SETTLE_S = 3.0
"""The minimum time before the first fault: on an idle machine the collector has read each switch by then."""


@dataclass
class Demo:
    """Runs one demo; `phase` names its current step for the progress display."""

    plan: DemoPlan
    state: DemoState
    supervisor: Supervisor
    phase: str = "starting"
    problems: list[str] = field(default_factory=list)
    disturbances: Disturbances | None = None
    running_settings: Settings | None = None
    """The settings of the configuration, which is written when the servers run."""
    addresses: dict[str, str] = field(default_factory=dict)
    settle_s: float = SETTLE_S
    """The time before the first fault: as long as topics and tables took, because the collector starts as slowly."""

    async def run(self) -> Report:
        """Start all parts, run for the requested time, and return the report; the caller stops the supervisor."""
        async with asyncio.TaskGroup() as tasks:
            background = [tasks.create_task(self.supervisor.watch())]
            await self._start_servers()
            with registered(self._instance()):
                await self._start_pipeline()
                background.append(tasks.create_task(follow_pipeline(self.settings.kafka.of_part(READER), self.state)))
                background.append(tasks.create_task(self._count_rows()))
                if self.plan.disturb:
                    config = self.plan.folder / process_specs.CONFIG
                    self.disturbances = Disturbances(self.plan.folder, config, self.state)
                    background.append(tasks.create_task(self.disturbances.run()))
                truths = await (self._simulate() if self.plan.playback is None else self._play(self.plan.playback))
                self.phase = "waiting for the last rows"
                needed = TABLES if self.plan.playback is None else TABLES_OF_A_RECORDING
                await self._wait_until(lambda: not empty_tables(self.state.view.rows, needed), ROWS_S)
            for task in background:
                task.cancel()
        self.problems += [f"no rows in {table}" for table in empty_tables(self.state.view.rows, needed)]
        disturbed = self.disturbances
        self.problems += disturbed.problems() if disturbed is not None else ()
        return build_report(
            self.state, self._score(truths), self.supervisor.states(), self.problems, self._score_actions(),
            tuple(disturbed.lines()) if disturbed is not None else (),
        )  # fmt: skip

    @property
    def settings(self) -> Settings:
        """The settings of this run; available when its servers run."""
        assert self.running_settings is not None, "the servers are not started"
        return self.running_settings

    @property
    def truths(self) -> Sequence[Truth]:
        """The known faults of this run: the simulation's, after it has started."""
        if self.plan.playback is not None:
            return self.plan.playback.truths or ()
        path = self.plan.folder / process_specs.TRUTH
        return read_truth(path) if path.exists() else ()

    def _instance(self) -> Instance:
        return Instance("demo", self.addresses["config"], self.addresses["kafka"], self.addresses["run_dir"])

    def _score(self, truths: list[Truth] | None) -> Score | None:
        return None if truths is None else score(self.state.revisions, truths)

    def _score_actions(self) -> ActionScore | None:
        if not self.plan.act:
            return None
        truths = read_bad_links(self.plan.folder / acting.BAD_LINKS)
        policy = load_policy(self.settings.decide.policy)
        return score_actions(self.state.decisions, truths, policy, is_disturbed=self.plan.disturb)

    async def _start_servers(self) -> None:
        folder, supervisor = self.plan.folder, self.supervisor
        self.phase = "starting Kafka and ClickHouse"
        servers = await start_servers(supervisor, folder, without_sandbox=self.plan.without_sandbox)
        config = process_specs.write_config(folder, servers, self.plan)
        self.running_settings = load(config, None, os.environ)
        self.addresses = {
            "run_dir": str(folder), "kafka": servers.kafka, "kcat": servers.kcat, "clickhouse": servers.clickhouse,
            "clickhouse_password_file": servers.clickhouse_password_file, "config": str(config),
        }  # fmt: skip
        scratch = folder / "demo.new"
        scratch.write_bytes(orjson.dumps(self.addresses | {"database": self.settings.store.database}))
        scratch.replace(folder / "demo.json")

    async def _start_pipeline(self) -> None:
        config = self.plan.folder / process_specs.CONFIG
        self.phase = "making topics and tables"
        parts, began_s = process_specs.setup_parts(config), time.monotonic()
        await asyncio.gather(*(self.supervisor.run_once(part, SETUP_TIMEOUT_S) for part in parts))
        self.settle_s = max(SETTLE_S, time.monotonic() - began_s)
        if self.plan.playback is not None:
            effective = self.plan.playback.playback.first_ns - INVENTORY_BEFORE_NS
            await publish(
                self.settings.kafka.of_part(OPERATOR), inventory_records(self.plan.playback.inventory, effective)
            )
        for part in process_specs.pipeline_parts(config, self.plan):
            self.supervisor.start(part)
        if self.plan.grafana:
            await self._show_boards()

    async def _show_boards(self) -> None:
        """Provision a Grafana; `addresses` and the printed phases have its address."""
        password = reader_password_file(Path(self.addresses["clickhouse_password_file"])).read_text().strip()
        reader = BoardReader(self.addresses["clickhouse"], self.settings.store.database, BOARD_READER, password)
        if url := os.environ.get("GRAFANA_URL"):
            install, is_alone = Grafana(url, os.environ).install, self.plan.alertmanager is None
            self.addresses["grafana"] = await asyncio.to_thread(install, reader, alerts_of_findings=is_alone)
        elif (program := grafana.find_program(os.environ)) is not None:
            folder = self.plan.folder / "grafana"
            folder.mkdir(exist_ok=True)
            own = grafana.own_grafana(folder, program, reader, os.environ)
            self.supervisor.start(own.part)
            self.addresses |= {"grafana": own.address, "grafana_password_file": str(own.password_file)}

    async def _simulate(self) -> list[Truth]:
        """Run the simulated fabric for the requested time, then wait until its last findings are final."""
        config = self.plan.folder / process_specs.CONFIG
        self.supervisor.start(process_specs.simulator_part(config, self.settle_s))
        await self._wait_until((self.plan.folder / process_specs.TARGETS).exists, DRAIN_S)
        self.supervisor.start(process_specs.collector_part(config))
        if not self.plan.act:
            self.supervisor.start(process_specs.host_part(config))
        else:
            kafka, killed = self.settings.kafka.of_part(AUTOMATION), MARK if self.plan.disturb else ""
            self.supervisor.start(acting.automation_part(self.plan.folder, kafka, process_specs.TARGETS, killed))
        self.phase = "running"
        await asyncio.sleep(self.settle_s + self.plan.seconds)
        await self._publish_control_records()
        self.phase = "draining: the last windows become final"
        truths = read_truth(self.plan.folder / process_specs.TRUTH)
        end_ns = max([time.time_ns(), *(truth.end_ns for truth in truths)])
        await self._drain(end_ns + round(self.settings.detect.lateness_s * 1e9))
        return read_truth(self.plan.folder / process_specs.TRUTH)

    async def _play(self, plan: PlaybackPlan) -> list[Truth] | None:
        self.phase = f"playing {len(plan.playback.messages)} messages at {plan.speed:g} times their pace"
        collector = self.settings.kafka.of_part(COLLECTOR)
        await play(plan.playback, collector, plan.speed)
        end_ns = plan.playback.last_ns + round(self.settings.detect.lateness_s * 1e9)
        await publish_end_of_time(collector, end_ns)
        self.phase = "draining: the last windows become final"
        await self._drain(end_ns)
        # Published last: the control has the current time, which is later than the recording.
        await self._publish_control_records()
        return None if plan.truths is None else list(plan.truths)

    async def _drain(self, end_ns: int) -> None:
        decide = self.state.view.stages["decide"]
        if not await self._wait_until(lambda: decide.has_reached(end_ns), DRAIN_S):
            behind = ", ".join(f"{name} {_behind(view, end_ns)}" for name, view in self.state.view.stages.items())
            self.problems.append(f"the pipeline did not conclude within {DRAIN_S:g} s of the end ({behind})")

    async def _publish_control_records(self) -> None:
        now_ns = time.time_ns()
        records = {OPERATOR: control_record(now_ns), COLLECTOR: poison_record()}
        if not self.plan.act:  # otherwise the automation sends the results
            records[AUTOMATION] = result_record(self.state.view.remediations.values(), now_ns)
        for part, record in records.items():
            await publish(self.settings.kafka.of_part(part), [record])

    async def _count_rows(self) -> None:
        """Refresh the row counts of the state until cancelled."""
        database = ClickHouse(self.settings.store)
        try:
            while True:
                # ClickHouse is starting or restarting; the supervisor restarts it.
                with suppress(Retry):
                    self.state.view.rows = await asyncio.to_thread(count_rows, database)
                await asyncio.sleep(COUNT_EVERY_S)
        finally:
            database.close()

    async def _wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until the condition is true or the time is over; return True if it is true."""
        deadline_s = time.monotonic() + timeout_s
        while not condition() and time.monotonic() < deadline_s:  # noqa: ASYNC110 — nothing sets an event
            await asyncio.sleep(0.1)
        return condition()


def _behind(view: StageProgress, end_ns: int) -> str:
    return "idle" if view.watermark_ns is None else f"{(end_ns - view.watermark_ns) / 1e9:.1f} s behind"
