"""When the supervisor starts a part again, and when it gives up."""

import json
from pathlib import Path

import pytest

from streams.runtime.supervise import BACKOFF_S, STEADY_S, GaveUp, Part, Supervisor
from tests.fakes.processes import FakeSeconds, FakeStarts

WORKER = Part("worker", ("run", "worker"))


def supervised(tmp_path: Path, says: str = "") -> tuple[Supervisor, FakeStarts, FakeSeconds]:
    starts, clock = FakeStarts(says), FakeSeconds()
    supervisor = Supervisor(tmp_path, start=starts, now_s=clock)
    supervisor.start(WORKER)
    return supervisor, starts, clock


def end_and_wait(supervisor: Supervisor, starts: FakeStarts, clock: FakeSeconds, after_s: float) -> None:
    """End the newest process and let time pass, with ticks before and after."""
    starts.processes[-1].exit_code = 137
    supervisor.tick()
    clock.now += after_s
    supervisor.tick()


def test_a_part_that_was_killed_is_back_within_a_second(tmp_path: Path) -> None:
    """The first restart waits for less than a second."""
    supervisor, starts, clock = supervised(tmp_path)
    end_and_wait(supervisor, starts, clock, 0.5)
    assert starts.started == [WORKER.command] * 2
    assert [(s.running, s.restarts) for s in supervisor.states()] == [(True, 1)]


def test_a_part_that_runs_is_left_alone(tmp_path: Path) -> None:
    """A tick starts nothing while all runs."""
    supervisor, starts, clock = supervised(tmp_path)
    for _ in range(100):
        clock.now += 1
        supervisor.tick()
    assert len(starts.started) == 1


def test_restarts_wait_longer_each_time(tmp_path: Path) -> None:
    """A part that ends again and again is tried less and less often."""
    supervisor, starts, clock = supervised(tmp_path)
    for i, wait_s in enumerate(BACKOFF_S):
        end_and_wait(supervisor, starts, clock, wait_s * 0.9)
        assert len(starts.started) == i + 1
        clock.now += wait_s * 0.2
        supervisor.tick()
        assert len(starts.started) == i + 2


def test_a_crash_loop_ends_in_one_line_with_the_part_and_its_log(tmp_path: Path) -> None:
    """After its last try the supervisor says which part, how often, what it said last and where its log is."""
    supervisor, starts, clock = supervised(tmp_path, says="loading\nno such topic\n")
    for wait_s in BACKOFF_S:
        end_and_wait(supervisor, starts, clock, wait_s + 0.1)
    starts.processes[-1].exit_code = 1
    with pytest.raises(GaveUp) as caught:
        supervisor.tick()
    assert str(caught.value) == f"worker ended 6 times in a row with 1: no such topic (log: {tmp_path / 'worker.log'})"


def test_a_misconfigured_part_is_not_tried_again(tmp_path: Path) -> None:
    """Exit code 2 means that trying again changes nothing."""
    supervisor, starts, _ = supervised(tmp_path, says="railsight: kafka.urll: unknown setting\n")
    starts.processes[-1].exit_code = 2
    with pytest.raises(GaveUp, match=r"kafka\.urll"):
        supervisor.tick()


def test_of_a_long_last_word_the_end_is_told(tmp_path: Path) -> None:
    """A log line that is JSON is told by its event, and of a traceback the end, where the reason stands."""
    event = "Traceback " + "x" * 2000 + " | FileNotFoundError: no such folder"
    supervisor, starts, _ = supervised(tmp_path, says=json.dumps({"event": event, "level": "critical"}) + "\n")
    starts.processes[-1].exit_code = 2
    with pytest.raises(GaveUp, match=r"xxx \| FileNotFoundError: no such folder \(log: ") as caught:
        supervisor.tick()
    assert len(str(caught.value)) < 500


def test_a_part_that_ran_well_for_long_counts_as_well_again(tmp_path: Path) -> None:
    """Ends that are far apart never add up to a crash loop."""
    supervisor, starts, clock = supervised(tmp_path)
    for _ in range(3 * len(BACKOFF_S)):
        clock.now += STEADY_S
        end_and_wait(supervisor, starts, clock, 0.2)
    assert supervisor.states()[0].restarts == 3 * len(BACKOFF_S)


def test_users_of_a_part_stop_before_it(tmp_path: Path) -> None:
    """Servers are asked to stop only when what uses them is gone."""
    supervisor, starts, _ = supervised(tmp_path)
    supervisor.start(Part("broker", ("run", "broker"), tier=0))
    worker, broker = starts.processes
    supervisor.stop()
    assert starts.stops == [worker.pid, broker.pid]
    assert supervisor.states() == ()


def test_each_run_keeps_its_log(tmp_path: Path) -> None:
    """What a part said before it ended can be read after it is back."""
    supervisor, starts, clock = supervised(tmp_path, says="first")
    starts.output = "second"
    end_and_wait(supervisor, starts, clock, 0.5)
    assert (tmp_path / "worker.log").read_text() == "second"
    assert (tmp_path / "worker.1.log").read_text() == "first"


def test_the_run_folder_says_what_runs(tmp_path: Path) -> None:
    """parts.json has the process number and the restarts of each part."""
    supervisor, starts, clock = supervised(tmp_path)
    end_and_wait(supervisor, starts, clock, 0.5)
    (row,) = json.loads((tmp_path / "parts.json").read_text())
    assert (row["name"], row["pid"], row["restarts"], row["running"]) == ("worker", 101, 1, True)


async def test_a_job_that_fails_is_told_with_its_last_words(tmp_path: Path) -> None:
    """What runs once and does not end with 0 stops the start, in one line."""
    starts, clock = FakeStarts("no such table\n", exit_code=3), FakeSeconds()
    supervisor = Supervisor(tmp_path, start=starts, now_s=clock)
    with pytest.raises(GaveUp, match=r"^migrate ended with 3: no such table \(log: "):
        await supervisor.run_once(Part("migrate", ("run", "migrate")), within_s=5)


async def test_a_job_that_ends_well_leaves_nothing(tmp_path: Path) -> None:
    """What runs once is no part afterwards."""
    starts, clock = FakeStarts(exit_code=0), FakeSeconds()
    supervisor = Supervisor(tmp_path, start=starts, now_s=clock)
    await supervisor.run_once(Part("migrate", ("run", "migrate")), within_s=5)
    assert supervisor.states() == ()
