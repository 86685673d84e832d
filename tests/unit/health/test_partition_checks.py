"""The checks of stages and of the sink: what is assigned, restored, read and written."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka import TopicPartition

from lab.constants import with_constants
from streams.config.kafka import KafkaSettings
from streams.health.health import Health, HealthParams
from streams.runtime.runner import Runner
from streams.runtime.serve import stage_checks
from streams.store.params import SinkParams
from streams.store.persist.serve import sink_checks


class Worker:
    """A process with one stage of two partitions, and the brokers' answers."""

    def __init__(self) -> None:
        self.now = 0.0
        self.owners = {
            p: SimpleNamespace(is_restored=True, positions={("in", p): 7}, sending_s=0.0, attempts=0) for p in (0, 1)
        }
        self.runner = SimpleNamespace(
            binding=SimpleNamespace(stage="measure"),
            owners=self.owners,
            owns_its_assignment=True,
            is_joining=False,
            generation=1,
        )
        self.health = Health(with_constants(HealthParams, stuck_s=10, undelivered_s=5)(), lambda: self.now)
        self.checks = stage_checks([cast(Runner, self.runner)], KafkaSettings(), self.health)
        self.health.started()
        self.answer(7)

    def answer(self, end: int) -> None:
        """Let the brokers answer with this end of every partition."""
        self.checks.ends.answered({("in", partition): end for partition in self.owners})

    def after(self, seconds: float, act: Callable[[], object] = lambda: None) -> tuple[str, str]:
        """Return liveness and readiness after so many seconds, with a beat in each; `act` runs before a beat."""
        for _ in range(round(seconds)):
            self.now += 1
            act()
            self.health.beat()
        return self.health.liveness_problem(), self.health.readiness_problem()


@pytest.fixture
def worker() -> Worker:
    return Worker()


def test_an_idle_worker_is_live_and_ready(worker: Worker) -> None:
    """Nothing waits: the position need not move."""
    assert worker.after(60, lambda: worker.answer(7)) == ("", "")


def test_a_consumer_that_stands_still_while_records_wait_is_not_live(worker: Worker) -> None:
    """The line names the partition; a position that moves again is live again."""
    liveness, readiness = worker.after(12, lambda: worker.answer(9))
    assert liveness == readiness == "input: measure/0 processed no record for 11 s though records wait"
    for partition in (0, 1):
        worker.owners[partition].positions["in", partition] = 8
    assert worker.after(1, lambda: worker.answer(9)) == ("", "")


def test_a_backlog_that_is_processed_is_live(worker: Worker) -> None:
    """However long it is."""

    def move() -> None:
        worker.answer(10**6)
        for partition in (0, 1):
            worker.owners[partition].positions["in", partition] += 1

    assert worker.after(60, move) == ("", "")


def test_without_brokers_a_worker_is_live_and_not_ready(worker: Worker) -> None:
    """Also with records that waited when they answered last."""
    worker.answer(9)
    assert worker.after(60) == ("", "brokers: no answer for 60 s")


def test_a_worker_that_cannot_write_is_live_and_not_ready(worker: Worker) -> None:
    """Its input stands still meanwhile."""

    def send() -> None:
        worker.answer(9)
        for owner in worker.owners.values():
            owner.sending_s += 1

    assert worker.after(30, send) == (
        "",
        "output: measure/0 waits for an acknowledgement of its records for 30 s",
    )


def test_a_worker_without_partitions_or_state_is_not_ready(worker: Worker) -> None:
    """Unknown is not ready: a rebalance and a takeover are under way."""
    worker.owners[1].is_restored = False
    worker.owners[1].positions = {}
    assert worker.after(60, lambda: worker.answer(7)) == ("", "state: measure/1 is not restored, and 0 others")
    worker.runner.owns_its_assignment = False
    assert worker.after(1, lambda: worker.answer(7))[1].startswith("partitions: measure has none assigned yet")


def test_a_rebalance_that_does_not_end_is_not_live(worker: Worker) -> None:
    """Its partitions are gone, so no input can stand still; a new generation is progress, and brokers may be away."""
    worker.owners.clear()
    worker.runner.is_joining, worker.runner.owns_its_assignment = True, False

    def join() -> None:
        worker.runner.generation += 1
        worker.answer(7)

    assert worker.after(30, join)[0] == ""
    assert worker.after(30)[0] == ""
    worker.answer(7)
    liveness, _ = worker.after(12, lambda: worker.answer(7))
    assert liveness == "group: measure is in a rebalance for 12 s"
    worker.runner.is_joining = False
    assert worker.after(1, lambda: worker.answer(7))[0] == ""


@pytest.mark.parametrize(("is_restored", "what"), [(False, "is taken over"), (True, "waits for an acknowledgement")])
def test_an_attempt_that_does_not_even_fail_is_not_live(worker: Worker, is_restored: bool, what: str) -> None:
    """Attempts that end and are repeated are live for as long as they take."""
    owner = worker.owners[0]
    owner.is_restored, owner.sending_s = is_restored, 5.0

    def repeat() -> None:
        owner.attempts += 1
        worker.answer(7)

    assert worker.after(300, repeat)[0] == ""
    assert worker.after(120, lambda: worker.answer(7))[0] == ""
    liveness, _ = worker.after(12, lambda: worker.answer(7))
    assert liveness.startswith(f"attempt: measure/0 {what} for 13")


@pytest.mark.parametrize(
    ("sink", "writer", "problem"),
    [
        ({}, {}, "input: in/0 processed no record for 12 s"),
        ({}, {"is_restored": False, "positions": {}}, "attempt: in/0: is not restored for 7"),
        ({}, {"sending_s": 3.0}, "attempt: in/0: a block is not stored for 7"),
        ({"writers": {}, "is_joining": True}, {}, "group: in a rebalance for 11 s"),
    ],
)
def test_a_sink_is_not_live_while_nothing_moves(sink: dict[str, Any], writer: dict[str, Any], problem: str) -> None:
    """An attempt may take three requests of 20 s; a record may wait 1 s for its block."""
    now = 0.0
    one = {"is_restored": True, "positions": {("in", 0): 7}, "sending_s": 0.0, "attempts": 0}
    owned = {TopicPartition("in", 0): SimpleNamespace(**(one | writer))}
    health = Health(with_constants(HealthParams, stuck_s=10, undelivered_s=5)(), lambda: now)
    params = with_constants(SinkParams, linger_max_s=1, linger_background_s=1, linger_s=1)()
    fake: Any = SimpleNamespace(**({"writers": owned, "is_joining": False} | sink))
    checks = sink_checks(fake, {}, params, health, request_s=20)
    health.started()
    for _ in range(80):
        now += 1
        checks.ends.answered({("in", 0): 9})
        health.beat()
        if health.liveness_problem():
            break
    assert health.liveness_problem().startswith(problem)
    assert (now > 70) == problem.startswith("attempt")
