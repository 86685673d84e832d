"""How the parts' own words are read."""

from pathlib import Path

import pytest

from streams.runtime.process_specs import broker_part, wait_until_ready
from streams.runtime.supervise import GaveUp, Supervisor
from tests.fakes.processes import FakeSeconds, FakeStarts


def supervised(tmp_path: Path, says: str) -> tuple[Supervisor, FakeStarts]:
    starts = FakeStarts(says)
    supervisor = Supervisor(tmp_path, start=starts, now_s=FakeSeconds())
    supervisor.start(broker_part(tmp_path / "kafka", 1234))
    return supervisor, starts


async def test_a_part_is_ready_when_it_says_where_it_is(tmp_path: Path) -> None:
    """The line of JSON with the key is its word, among whatever else it logs."""
    log = '{"event": "starting", "bootstrap": "not this"}\nplain text\n{"bootstrap": "127.0.0.1:1"}\n{"boot'
    supervisor, _ = supervised(tmp_path, log)
    assert (await wait_until_ready(supervisor, "broker", "bootstrap"))["bootstrap"] == "127.0.0.1:1"


async def test_a_part_that_says_nothing_is_given_up(tmp_path: Path) -> None:
    """The wait has a bound, and its end names the part and its log."""
    supervisor, _ = supervised(tmp_path, "still starting\n")
    with pytest.raises(GaveUp, match=r"broker was not ready after .*broker\.log"):
        await wait_until_ready(supervisor, "broker", "bootstrap", timeout_s=0.2)


async def test_a_part_that_cannot_start_is_told_at_once(tmp_path: Path) -> None:
    """Nobody waits for a server that has said why it ends."""
    supervisor, starts = supervised(tmp_path, "railsight broker: port 1234 on 127.0.0.1 is taken\n")
    starts.processes[0].exit_code = 2
    with pytest.raises(GaveUp, match="port 1234 on 127"):
        await wait_until_ready(supervisor, "broker", "bootstrap")
