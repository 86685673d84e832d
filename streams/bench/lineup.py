"""What the benchmark runs: the configuration, and the command lines of workers, sink and load generator."""

import sys
from collections.abc import Iterator
from pathlib import Path

from streams.bench.params import Params
from streams.cli.parts import railsight
from streams.runtime.supervise import Part

CONFIG = "railsight.toml"
SINK = "persist"


def written_config(params: Params, bootstrap: str, url: str) -> Path:
    """Write the configuration that all parts share: what a user would write, everything else by default."""
    lines = [
        "[kafka]",
        f'bootstrap = "{bootstrap}"',
        f"telemetry_partitions = {params.partitions}",
        "[store]",
        f'url = "{url}"',
        "[runtime]",
        f'data = "{params.folder / "faust"}"',
    ]
    path = params.folder / CONFIG
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return path


def workers(params: Params) -> list[str]:
    """The names of the workers' parts."""
    return ["process"] if params.workers == 1 else [f"process-{i + 1}" for i in range(params.workers)]


def pipeline(params: Params, config: Path) -> Iterator[Part]:
    """Workers and sink; a named worker has its partitions back at once after a kill."""
    for name in workers(params):
        yield Part(name, railsight("process", "--config", str(config), "--instance", name))
    yield Part(SINK, railsight("persist", "--config", str(config)))


def load(spec: Path) -> tuple[str, ...]:
    """The load generator."""
    return (sys.executable, "-m", "streams.bench.load", str(spec))
