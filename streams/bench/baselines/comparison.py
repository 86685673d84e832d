"""Runs every baseline on one Kafka, one after the other, and checks its answers.

Decides the CPU to count: that of a baseline's process from its start to its end, and for those that store, that of
ClickHouse until its merges have finished.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from streams.bench.baselines import environment
from streams.bench.baselines.clickhouse_server import clickhouse_server
from streams.bench.baselines.crossing_check import difference, read_crossings
from streams.bench.baselines.load import Filled, Load, fill
from streams.bench.baselines.registry import Baseline
from streams.bench.baselines.task import Task
from streams.bench.baselines.usage import wait_for_usage
from streams.config.kafka import KafkaSettings
from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams
from streams.runtime.admin import ensure_topics
from streams.wire import topics

TIMEOUT_S = 600.0
_MISSING = "ModuleNotFoundError: "


@dataclass(frozen=True, slots=True)
class BaselineRun:
    """Usage of one baseline; `wrong` describes in one line how its answers differ from the expected ones."""

    messages: int
    port_samples: int = 0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    peak_bytes: int = 0
    server_cpu_s: float = 0.0
    disk_bytes: int = 0
    wrong: str = ""
    missing: str = ""
    """Reason that it could not run here; then nothing is wrong with it."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The environment of the baselines; `python` is that of the isolated ones, or why it is absent."""

    kafka: KafkaSettings
    filled: Filled
    folder: Path
    python: Path | environment.NotInstalled

    def run(self, baseline: Baseline) -> BaselineRun:
        """Run one baseline and check its answers."""
        if baseline.is_isolated and isinstance(self.python, environment.NotInstalled):
            return BaselineRun(0, missing=str(self.python))
        folder = self.folder / baseline.program
        folder.mkdir()
        messages = max(1, round(self.filled.messages * baseline.share))
        task = Task(
            self.kafka.bootstrap, topics.SAMPLES.name, messages, self.filled.port_samples, baseline.answers.name,
            str(folder),
        )  # fmt: skip
        run = self._run_storage(baseline, task) if baseline.stores else self._run_detection(baseline, task)
        if baseline.share == 1 and not run.wrong and run.port_samples not in (0, self.filled.port_samples):
            wrong = f"{run.port_samples:,} port-samples read of {self.filled.port_samples:,}"
            return replace(run, wrong=wrong)
        return run

    def _run_detection(self, baseline: Baseline, task: Task) -> BaselineRun:
        run = self._run_process(baseline, task)
        if run.wrong or run.missing:
            return run
        return replace(
            run, wrong=difference(asyncio.run(read_crossings(self.kafka, baseline.answers)), self.filled.crossed)
        )

    def _run_storage(self, baseline: Baseline, task: Task) -> BaselineRun:
        with clickhouse_server(self.folder / f"{baseline.program}.clickhouse") as clickhouse:
            password_file = str(clickhouse.password_file)
            run = self._run_process(
                baseline,
                replace(task, clickhouse=clickhouse.url, clickhouse_password_file=password_file),
            )
            if run.wrong or run.missing:
                return run
            rows, disk_bytes = clickhouse.at_rest()
            run = replace(run, server_cpu_s=clickhouse.cpu_s(), disk_bytes=disk_bytes)
        stored, wanted = rows.get(baseline.table, 0), run.port_samples * baseline.rows_per_sample
        return replace(run, wrong="" if stored == wanted else f"{stored:,} rows stored of {wanted:,}")

    def _run_process(self, baseline: Baseline, task: Task) -> BaselineRun:
        interpreter, environ = Path(sys.executable), dict(os.environ)
        if baseline.is_isolated and isinstance(self.python, Path):
            interpreter, environ = self.python, environment.variables(Path(task.folder).with_suffix(".ours"))
        log = Path(task.folder).with_suffix(".log")
        with log.open("w") as out:
            process = subprocess.Popen(
                [interpreter, "-m", baseline.module, task.to_text()], stdout=out, stderr=subprocess.STDOUT, text=True,
                env=environ, cwd=task.folder, stdin=subprocess.DEVNULL,
            )  # fmt: skip
            try:
                usage = wait_for_usage(process, TIMEOUT_S)
            finally:
                process.kill()
        run = BaselineRun(task.messages, cpu_s=usage.cpu_s, wall_s=usage.wall_s, peak_bytes=usage.peak_bytes)
        last = (log.read_text(errors="replace").strip().splitlines() or ["no output"])[-1]
        if last.startswith(_MISSING):
            return replace(run, missing=last.removeprefix(_MISSING))
        if usage.code or not last.startswith("{"):
            return replace(run, wrong=f"ended with {usage.code}: {last[:300]}")
        return replace(run, port_samples=int(json.loads(last)["port_samples"]))


def run_comparison(
    load: Load,
    baselines: Sequence[Baseline],
    python: Path | environment.NotInstalled,
    report_progress: Callable[[str], None],
) -> tuple[Filled, list[BaselineRun]]:
    """Start Kafka, fill it, and run the baselines one after the other."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="railsight-bench-")))
        broker = stack.enter_context(EmbeddedKafka(KafkaParams(data=folder / "kafka")))
        kafka = KafkaSettings(bootstrap=broker.bootstrap)
        answers = [one.answers for one in baselines if one.answers not in topics.TOPICS]
        asyncio.run(ensure_topics(kafka, (*topics.TOPICS, *answers)))
        filled = asyncio.run(fill(kafka, load))
        report_progress(f"in Kafka: {filled.messages:,} messages, {filled.port_samples:,} port-samples")
        contest, runs = Comparison(kafka, filled, folder, python), []
        for baseline in baselines:
            report_progress(f"running: {baseline.name}")
            runs.append(contest.run(baseline))
        return filled, runs
