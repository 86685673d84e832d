"""The health of the automation: what is not ready, and what only a restart helps."""

import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from railsight_automation.errors import Misconfigured
from railsight_automation.status import Status, StatusParams, serve

from tests.fakes.processes import FakeSeconds
from tests.fixtures.ports import free_port


@pytest.fixture
def clock() -> FakeSeconds:
    return FakeSeconds()


@pytest.fixture
def status(clock: FakeSeconds) -> Status:
    return Status(clock, stuck_s=60)


def test_it_is_ready_when_it_has_read_all_and_the_brokers_answer(status: Status, clock: FakeSeconds) -> None:
    """While it starts, and while the brokers are away, it is live."""
    clock.now = 500
    assert (status.liveness_problem(), status.readiness_problem()) == (
        "",
        "start: the remediations are not read to their end",
    )
    status.caught_up()
    status.read([7])
    assert status.readiness_problem() == "brokers: no answer yet"
    status.answered(7)
    assert status.readiness_problem() == ""
    clock.now += 40
    status.read([7])
    assert status.readiness_problem() == "brokers: no answer for 40 s"
    assert status.liveness_problem() == ""


def test_a_loop_that_does_not_turn_is_not_live(status: Status, clock: FakeSeconds) -> None:
    """Its thread still answers."""
    status.caught_up()
    clock.now += 61
    assert status.liveness_problem() == status.readiness_problem() == "loop: has not turned for 61 s"


def test_a_consumer_that_reads_nothing_while_records_wait_is_not_live(status: Status, clock: FakeSeconds) -> None:
    """An idle topic is live, and so is a backlog that becomes smaller."""
    status.caught_up()

    def after(seconds: int, position: int, end: int) -> str:
        clock.now += seconds
        status.read([position])
        status.answered(end)
        return status.liveness_problem()

    assert [after(30, 7, 7) for _ in range(5)] == [""] * 5
    assert [after(30, 8 + n, 99) for n in range(5)] == [""] * 5
    assert [after(30, 12, 99) for _ in range(3)] == ["", "", "input: processed no record for 90 s though records wait"]


@pytest.fixture
def served(status: Status) -> Iterator[int]:
    port = free_port()
    stop = serve(status, StatusParams(port=port))
    yield port
    stop()


def test_the_endpoints_answer_and_a_port_in_use_is_one_line(status: Status, served: int) -> None:
    """503 with the line of the check, 200 with ok; any other path is the metrics."""
    status.answers.labels("DONE").inc()
    status.retries.inc(3)

    def ask(path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{served}{path}", timeout=5) as answer:
                return int(answer.status), answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    assert ask("/livez") == (200, "ok\n")
    assert ask("/readyz") == (503, "start: the remediations are not read to their end\n")
    code, metrics = ask("/metrics")
    assert code == 200 and 'railsight_automation_answers_total{outcome="DONE"} 1.0' in metrics
    assert "railsight_automation_send_retries_total 3.0" in metrics
    with pytest.raises(Misconfigured, match=f"cannot listen on 127.0.0.1:{served}"):
        serve(status, StatusParams(port=served))
