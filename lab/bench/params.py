"""Defines the options of one run of the pipeline benchmark, the configuration of its parts, and their command lines."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lab.bench.processes import Profile
from streams.runtime.local_pipeline import ServerAddresses, railsight_command
from streams.runtime.supervise import Part

START_S = 25.0
"""The start of servers, topics, tables, stages and the load generator, on two idle cores."""
LONGEST_FAULT_S = 60.0
"""An unreachable host of the load."""
LATENESS_S, SETTLE_S = 30.0, 10.0
"""The defaults of detect.lateness_s and decide.settle_s, which the benchmark uses."""

Compression = Literal["none", "lz4", "zstd", "snappy", "gzip"]


@dataclass(frozen=True, slots=True)
class Params:
    """The options; `folder` has all files of the run; no worker is killed if `kill_every_s` is None."""

    folder: Path
    gpus: int = 1024
    cadence_s: float = 10.0
    seconds: float = 60.0
    partitions: int = 8
    workers: int = 1
    compression: Compression = "snappy"
    seed: int = 1
    slot_s: float = 0.05
    kill_every_s: float | None = None
    senders: int = 1
    profile: Profile | None = None
    security: str = "none"
    """The broker's security: `none`, or `tls` with users and ACLs."""
    planes: int = 1
    quick: bool = False
    """Only the costs of a healthy fabric: no faults, and no wait for their findings."""

    @property
    def warm_s(self) -> float:
        """The time from the start of the load to the start of the window, in which every device is read twice.

        In a quick run it is read once.
        """
        if self.quick:
            return self.cadence_s + 2.0
        return max(2 * self.cadence_s, 12.0) + 2.0

    @property
    def drain_s(self) -> float:
        """The time from the window's end until its last finding is final: its faults, two readings, the lateness."""
        return 0.0 if self.quick else LONGEST_FAULT_S + 2 * self.cadence_s + LATENESS_S + SETTLE_S

    @property
    def expected_s(self) -> float:
        """The duration of the run on an idle machine."""
        return START_S + self.warm_s + self.seconds + self.drain_s

    @property
    def limit_s(self) -> float:
        """The duration at which a run ends with an error: a machine on which everything takes four times as long.

        The sum of the waits of all steps is longer; at least ten minutes for the servers of a busy machine.
        """
        return max(600.0, 4 * self.expected_s)


CONFIG = "railsight.toml"
SINK = "persist"


def write_config(params: Params, servers: ServerAddresses) -> Path:
    """Write the configuration that all parts share; other settings have their defaults."""
    lines = [
        *servers.kafka_lines(),
        f"telemetry_partitions = {params.partitions}",
        "[store]",
        f'url = "{servers.clickhouse}"',
        f'password_file = "{servers.clickhouse_password_file}"',
        "[runtime]",
        f'data = "{params.folder / "faust"}"',
    ]
    path = params.folder / CONFIG
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return path


def worker_names(params: Params) -> list[str]:
    """Return the names of the workers' parts."""
    return ["process"] if params.workers == 1 else [f"process-{i + 1}" for i in range(params.workers)]


def pipeline_parts(params: Params, config: Path) -> Iterator[Part]:
    """Yield workers and sink; a named worker gets its partitions back at once after a kill."""
    for name in worker_names(params):
        yield Part(name, railsight_command("process", "--config", str(config), "--instance", name))
    yield Part(SINK, railsight_command("persist", "--config", str(config)))


def load_command(spec: Path) -> tuple[str, ...]:
    """Return the command of the load generator."""
    return (sys.executable, "-m", "lab.bench.load", str(spec))
