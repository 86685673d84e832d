"""A report counts each message at the fault in whose time it was acknowledged."""

from pathlib import Path

from lab.chaos.load import Acknowledged, Identity
from lab.chaos.plan import Step
from lab.chaos.report import StepResult, assign, loss_breaches, reported_lost
from lab.chaos.verdict import Verdict
from streams.wire.topics import EVENTS, SAMPLES


def steps(*, may_lose: bool) -> list[StepResult]:
    first = StepResult(Step(0, "worker-killed", 0, 5, 1), "", began_s=100, healed_s=105)
    return [first, StepResult(Step(1, "records-deleted", 9, 12, 1), "", 109, 112, may_lose=may_lose)]


def identity(sequence: int) -> Identity:
    return Identity(SAMPLES.name, "leaf", sequence)


SENT = {identity(i): Acknowledged(1, at_s) for i, at_s in enumerate((90.0, 103.0, 108.0, 110.0, 113.0))}


def test_a_loss_belongs_to_the_fault_of_its_time() -> None:
    """A message before the first fault counts at the first."""
    results = steps(may_lose=False)
    assign(results, SENT, Verdict(lost=[identity(2), identity(4)], double=[identity(0)]))
    assert [(one.acknowledged, one.lost, one.double) for one in results] == [(3, 1, 1), (2, 1, 0)]
    assert len(loss_breaches(results, 0)) == 2


def test_deleted_records_are_no_breach_if_all_are_reported() -> None:
    """Also those that were acknowledged, and not yet stored, when the fault began; not those after its end."""
    results = steps(may_lose=True)
    assign(results, SENT, Verdict(lost=[identity(2), identity(3)]))
    assert [one.lost for one in results] == [0, 2]
    assert loss_breaches(results, 2) == []
    assert loss_breaches(results, 1) == ["2 messages were deleted unread, and the sink reported 1"]
    assert loss_breaches(steps(may_lose=True), 1) == ["the sink reported 1 lost records, and none is missing"]
    assign(results, SENT, Verdict(lost=[identity(4)]))
    assert loss_breaches(results, 3) == ["1 messages lost after records-deleted 9.0-12.0 s had healed"]


def test_the_reported_number_is_read_from_the_logs_of_the_sink(tmp_path: Path) -> None:
    """Samples and events count, other topics and other lines do not."""
    line = '{"event": "records were deleted before they were stored; give", "topic": "%s", "records": %d}\n'
    log = tmp_path / "log"
    log.write_text(line % (SAMPLES.name, 3) + line % (EVENTS.name, 4) + line % ("railsight.progress.v1", 9) + "other\n")
    assert reported_lost([log, log]) == 14
