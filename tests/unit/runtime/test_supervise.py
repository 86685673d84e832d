"""The supervisor restarts parts with backoff, and gives up on crash loops and wrong configuration."""

import json
from pathlib import Path

import pytest

from streams.runtime.supervise import BACKOFF_S, STEADY_S, GaveUp, Part, Supervisor
from tests.fakes.processes import FakeSeconds, FakeStarts

WORKER = Part("worker", ("run", "worker"))


def supervised(tmp_path: Path, output: str = "") -> tuple[Supervisor, FakeStarts, FakeSeconds]:
    starts, clock = FakeStarts(output), FakeSeconds()
    supervisor = Supervisor(tmp_path, start=starts, now_s=clock)
    supervisor.start(WORKER)
    return supervisor, starts, clock


def end_and_wait(supervisor: Supervisor, starts: FakeStarts, clock: FakeSeconds, after_s: float) -> None:
    """End the newest process and let time pass, with ticks before and after."""
    starts.processes[-1].exit_code = 137
    supervisor.tick()
    clock.now += after_s
    supervisor.tick()


def test_a_killed_part_is_restarted_within_a_second_and_a_running_one_never(tmp_path: Path) -> None:
    """The first backoff is less than a second."""
    supervisor, starts, clock = supervised(tmp_path)
    for _ in range(100):
        clock.now += 1
        supervisor.tick()
    assert len(starts.started) == 1
    end_and_wait(supervisor, starts, clock, 0.5)
    assert starts.started == [WORKER.command] * 2
    assert [(s.running, s.restarts) for s in supervisor.states()] == [(True, 1)]


def test_the_backoff_grows_with_each_restart(tmp_path: Path) -> None:
    """A part that ends repeatedly is restarted at growing intervals."""
    supervisor, starts, clock = supervised(tmp_path)
    for i, wait_s in enumerate(BACKOFF_S):
        end_and_wait(supervisor, starts, clock, wait_s * 0.9)
        assert len(starts.started) == i + 1
        clock.now += wait_s * 0.2
        supervisor.tick()
        assert len(starts.started) == i + 2


def test_a_crash_loop_ends_with_one_line_that_names_the_part_and_its_log(tmp_path: Path) -> None:
    """After the last restart the error has the part, the number of ends, its last output and the path of its log."""
    supervisor, starts, clock = supervised(tmp_path, output="loading\nno such topic\n")
    for wait_s in BACKOFF_S:
        end_and_wait(supervisor, starts, clock, wait_s + 0.1)
    starts.processes[-1].exit_code = 1
    with pytest.raises(GaveUp) as caught:
        supervisor.tick()
    assert str(caught.value) == f"worker ended 6 times in a row with 1: no such topic (log: {tmp_path / 'worker.log'})"


def test_a_misconfigured_part_is_not_restarted(tmp_path: Path) -> None:
    """Exit code 2 means that a restart would fail in the same way."""
    supervisor, starts, _ = supervised(tmp_path, output="railsight: kafka.urll: unknown setting\n")
    starts.processes[-1].exit_code = 2
    with pytest.raises(GaveUp, match=r"kafka\.urll"):
        supervisor.tick()


def test_the_end_of_a_long_last_line_is_reported(tmp_path: Path) -> None:
    """Of a JSON line the error has the event, and of a traceback the end, which contains the reason."""
    event = "Traceback " + "x" * 2000 + " | FileNotFoundError: no such folder"
    supervisor, starts, _ = supervised(tmp_path, output=json.dumps({"event": event, "level": "critical"}) + "\n")
    starts.processes[-1].exit_code = 2
    with pytest.raises(GaveUp, match=r"xxx \| FileNotFoundError: no such folder \(log: ") as caught:
        supervisor.tick()
    assert len(str(caught.value)) < 500


def test_a_part_that_ran_for_a_long_time_begins_a_new_count(tmp_path: Path) -> None:
    """Ends of a part with long runs between them are no crash loop."""
    supervisor, starts, clock = supervised(tmp_path)
    for _ in range(3 * len(BACKOFF_S)):
        clock.now += STEADY_S
        end_and_wait(supervisor, starts, clock, 0.2)
    assert supervisor.states()[0].restarts == 3 * len(BACKOFF_S)


def test_the_users_of_a_part_stop_before_it(tmp_path: Path) -> None:
    """A server is stopped only after its clients have ended."""
    supervisor, starts, _ = supervised(tmp_path)
    supervisor.start(Part("broker", ("run", "broker"), tier=0))
    worker, broker = starts.processes
    supervisor.stop()
    assert starts.stops == [worker.pid, broker.pid]
    assert supervisor.states() == ()


def test_each_run_has_its_own_log(tmp_path: Path) -> None:
    """The output before an end can be read after the restart."""
    supervisor, starts, clock = supervised(tmp_path, output="first")
    starts.output = "second"
    end_and_wait(supervisor, starts, clock, 0.5)
    assert (tmp_path / "worker.log").read_text() == "second"
    assert (tmp_path / "worker.1.log").read_text() == "first"


def test_the_run_folder_lists_the_running_parts(tmp_path: Path) -> None:
    """parts.json has the process number and the restarts of each part."""
    supervisor, starts, clock = supervised(tmp_path)
    end_and_wait(supervisor, starts, clock, 0.5)
    (row,) = json.loads((tmp_path / "parts.json").read_text())
    assert (row["name"], row["pid"], row["restarts"], row["running"]) == ("worker", 101, 1, True)


async def test_a_failed_job_is_reported_with_its_last_output(tmp_path: Path) -> None:
    """A part that runs once and does not end with 0 stops the start with one line."""
    starts, clock = FakeStarts("no such table\n", exit_code=3), FakeSeconds()
    supervisor = Supervisor(tmp_path, start=starts, now_s=clock)
    with pytest.raises(GaveUp, match=r"^migrate ended with 3: no such table \(log: "):
        await supervisor.run_once(Part("migrate", ("run", "migrate")), within_s=5)


async def test_a_successful_job_leaves_no_part(tmp_path: Path) -> None:
    """A part that runs once is not among the states after its end."""
    starts, clock = FakeStarts(exit_code=0), FakeSeconds()
    supervisor = Supervisor(tmp_path, start=starts, now_s=clock)
    await supervisor.run_once(Part("migrate", ("run", "migrate")), within_s=5)
    assert supervisor.states() == ()
