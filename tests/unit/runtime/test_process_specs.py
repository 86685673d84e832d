"""A part is ready once its output has the expected line of JSON."""

from pathlib import Path

import pytest

from streams.runtime.local_pipeline import broker_part, wait_until_ready
from streams.runtime.supervise import GaveUp, Supervisor
from tests.fakes.processes import FakeSeconds, FakeStarts


def supervised(tmp_path: Path, output: str) -> tuple[Supervisor, FakeStarts]:
    starts = FakeStarts(output)
    supervisor = Supervisor(tmp_path, start=starts, now_s=FakeSeconds())
    supervisor.start(broker_part(tmp_path / "kafka", 1234))
    return supervisor, starts


async def test_a_part_is_ready_once_it_prints_its_address(tmp_path: Path) -> None:
    """Only the line of JSON with the key counts; other output is ignored."""
    log = '{"event": "starting", "bootstrap": "not this"}\nplain text\n{"bootstrap": "127.0.0.1:1"}\n{"boot'
    supervisor, _ = supervised(tmp_path, log)
    assert (await wait_until_ready(supervisor, "broker", "bootstrap"))["bootstrap"] == "127.0.0.1:1"


async def test_a_part_without_the_expected_output_times_out(tmp_path: Path) -> None:
    """The wait ends after a timeout with an error that names the part and its log."""
    supervisor, _ = supervised(tmp_path, "still starting\n")
    with pytest.raises(GaveUp, match=r"broker was not ready after .*broker\.log"):
        await wait_until_ready(supervisor, "broker", "bootstrap", timeout_s=0.2)


async def test_a_part_that_cannot_start_is_reported_at_once(tmp_path: Path) -> None:
    """The wait ends at once when the server has printed an error and ended."""
    supervisor, starts = supervised(tmp_path, "railsight broker: port 1234 on 127.0.0.1 is taken\n")
    starts.processes[0].exit_code = 2
    with pytest.raises(GaveUp, match="port 1234 on 127"):
        await wait_until_ready(supervisor, "broker", "bootstrap")
