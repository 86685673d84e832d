"""A benchmark of the pipeline that hangs ends within the limit of its options."""

import asyncio
from pathlib import Path
from typing import cast

import pytest

from lab.bench.params import Params
from lab.bench.run import PipelineBenchmark
from streams.runtime.supervise import Part, Supervisor
from streams.wire.errors import Misconfigured


class ShortParams(Params):
    """Options with a limit that a test can wait for."""

    @property
    def limit_s(self) -> float:
        """A moment."""
        return 0.2


class IdleSupervisor:
    """Starts nothing, so that no server is ever ready."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def start(self, part: Part) -> None:
        """Ignore it."""

    def tick(self) -> None:
        """Restart nothing."""

    def log_of(self, name: str) -> Path:
        """Return a log without a line."""
        return self.folder / f"{name}.log"

    async def watch(self) -> None:
        """Wait for ever."""
        await asyncio.Event().wait()


async def test_a_run_that_hangs_ends_with_the_step_that_it_was_at(tmp_path: Path) -> None:
    """In one line that names the limit, the step, the logs, and how long such a run takes."""
    params = ShortParams(tmp_path, seconds=30)
    benchmark = PipelineBenchmark(params, cast("Supervisor", IdleSupervisor(tmp_path)))
    with pytest.raises(Misconfigured) as ended:
        await asyncio.wait_for(benchmark.run(), 30)
    message = str(ended.value)
    assert "did not end within 0 s; it was at: starting Kafka and ClickHouse" in message
    assert str(tmp_path) in message and f"takes {params.expected_s:.0f} s" in message


@pytest.mark.parametrize(("seconds", "limit_s"), [(1, 672.0), (60, 908.0), (3600, 15_068.0)])
def test_the_limit_follows_from_the_options(seconds: float, limit_s: float) -> None:
    """Four times the expected duration of a run, and at least ten minutes."""
    assert Params(Path(), seconds=seconds).limit_s == pytest.approx(limit_s)
