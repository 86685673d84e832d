"""Configuration and command lines of the benchmark's workers, sink and load generator."""

import sys
from collections.abc import Iterator
from pathlib import Path

from lab.bench.params import Params
from streams.runtime.process_specs import ServerAddresses, railsight_command
from streams.runtime.supervise import Part

CONFIG = "railsight.toml"
SINK = "persist"


def write_config(params: Params, servers: ServerAddresses) -> Path:
    """Write the configuration that all parts share, with everything else at its default."""
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
