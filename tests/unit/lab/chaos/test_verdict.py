"""Each breach of a promise has a line; a run that kept every promise has none."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from lab.chaos.load import Acknowledged, Identity
from lab.chaos.reader import Revision
from lab.chaos.verdict import (
    FindingTruth,
    Observation,
    check_findings,
    check_open,
    check_rejected,
    count_messages,
)
from streams.wire.topics import EVENTS, SAMPLES

SENT = {
    Identity(SAMPLES.name, "leaf", 1): Acknowledged(8, 1.0),
    Identity(SAMPLES.name, "leaf", 2): Acknowledged(8, 2.0),
    Identity(EVENTS.name, "leaf", 1): Acknowledged(1, 2.0),
}
TRUTH = FindingTruth(open=frozenset({"link:a"}), ever=frozenset({"link:a", "link:b"}))


def finding(number: str, revision: int, subject: str, status: str, condition: str = "LINK_DOWN") -> Revision:
    fields = {
        "id": number, "revision": str(revision), "condition": condition, "status": status, "detector": "link/down",
        "subject": {"id": subject}, "startedAt": "2026-03-01T00:00:00Z",
    }  # fmt: skip
    return Revision(number, revision, json.dumps(fields).encode(), revision)


FINDINGS = (
    finding("1", 1, "link:a", "OPEN"),
    finding("2", 1, "link:b", "OPEN"),
    finding("2", 2, "link:b", "RESOLVED"),
)


def observed() -> Observation:
    """Return what a run leaves that broke no promise."""
    return Observation(
        messages={"samples": Counter({("leaf", 1): 1, ("leaf", 2): 1}), "events": Counter({("leaf", 1): 1})},
        sample_rows={("leaf", 1): 8, ("leaf", 2): 8},
        findings=FINDINGS,
        finding_rows=Counter((one.id, one.revision) for one in FINDINGS),
        open_topic={"1": FINDINGS[0].value, "2": None},
        rejected=Counter({("railsight.samples.v1", 0, 7): 1}),
    )


def with_findings(*findings: Revision) -> Observation:
    open_ids = {one.id: one.value for one in findings if json.loads(one.value)["status"] == "OPEN"}
    rows = Counter((one.id, one.revision) for one in set(findings))
    return replace(observed(), findings=findings, finding_rows=rows, open_topic=open_ids)


def test_a_run_that_broke_no_promise_has_no_breach() -> None:
    """Nothing is lost, nothing is double, every finding is right."""
    verdict = count_messages(SENT, observed())
    assert (verdict.lost, verdict.double, verdict.breaches) == ([], [], [])
    assert check_findings(observed(), TRUTH) == []


def test_a_missing_and_a_double_message_are_found() -> None:
    """Also a double message that Kafka never acknowledged."""
    seen = replace(
        observed(), messages={"samples": Counter({("leaf", 1): 2}), "events": Counter({("leaf", 1): 1, ("leaf", 9): 2})}
    )
    verdict = count_messages(SENT, seen)
    assert verdict.lost == [Identity(SAMPLES.name, "leaf", 2)]
    assert verdict.double == [Identity(SAMPLES.name, "leaf", 1), Identity(EVENTS.name, "leaf", 9)]


def test_a_message_with_a_part_of_its_rows_is_found() -> None:
    """A message whose rows were stored twice or in part is a breach, though it is there once."""
    seen = replace(observed(), sample_rows={("leaf", 1): 16, ("leaf", 2): 8})
    assert count_messages(SENT, seen).breaches == ["1 messages with a wrong number of rows: leaf/1: 16 rows of 8"]


@pytest.mark.parametrize(
    ("spoil", "breach"),
    [
        (
            lambda: with_findings(*FINDINGS, replace(FINDINGS[0], value=FINDINGS[0].value + b" ")),
            "1 revisions with two contents: 1/1",
        ),
        (lambda: replace(observed(), finding_rows=Counter({("1", 1): 1, ("2", 1): 1})), "1 revisions without a row"),
        (
            lambda: replace(observed(), finding_rows=observed().finding_rows + Counter({("1", 1): 1})),
            "1 revisions with two rows: 1/1",
        ),
        (
            lambda: replace(observed(), finding_rows=observed().finding_rows + Counter({("3", 1): 1})),
            "1 rows without a record: 3/1",
        ),
        (lambda: with_findings(*FINDINGS, finding("9", 1, "link:a", "OPEN")), "1 episodes with two ids"),
        (lambda: replace(observed(), open_topic={}), "1 findings-open differs from findings: 1"),
        (
            lambda: replace(observed(), open_topic={"1": b"{}", "2": b"{}"}),
            "1 findings-open differs from findings: 2",
        ),
        (
            lambda: with_findings(*FINDINGS, finding("3", 1, "device:x", "OPEN", "TELEMETRY_STALE")),
            "1 open findings that are not true: TELEMETRY_STALE device:x",
        ),
        (lambda: with_findings(*FINDINGS[1:]), "1 open findings that are missing: LINK_DOWN link:a"),
        (lambda: with_findings(*FINDINGS, finding("3", 1, "link:c", "RESOLVED")), "1 invented link/down: link:c"),
        (lambda: with_findings(FINDINGS[0]), "1 missed link/down: link:b"),
        (lambda: with_findings(*FINDINGS[:2]), "1 open findings that are not true: LINK_DOWN link:b"),
    ],
)
def test_each_breach_of_the_findings_has_a_line(spoil: Callable[[], Observation], breach: str) -> None:
    """The line states what is wrong and names the first findings."""
    assert any(line.startswith(breach) for line in check_findings(spoil(), TRUTH)), check_findings(spoil(), TRUTH)


def test_an_older_revision_behind_a_newer_one_changes_nothing() -> None:
    """Consumers keep the highest revision, whatever the order of the records."""
    seen = replace(observed(), findings=tuple(reversed(FINDINGS)))
    assert check_findings(seen, TRUTH) == []


def test_poisoned_records_are_rejected_once() -> None:
    """Those of topics that are not persisted do not count."""
    sent = [("railsight.samples.v1", 0, 7), ("railsight.snapshots.measure.v1", 0, 3)]
    persisted = frozenset({"railsight.samples.v1"})
    assert check_rejected(sent, persisted, observed().rejected) == []
    assert check_rejected(sent, persisted, Counter()) == [
        "1 poisoned records not rejected once: railsight.samples.v1/0/7 0 times"
    ]


def test_a_loss_of_input_is_a_finding_only_where_a_fault_deletes_records() -> None:
    """It must be there then, and anywhere else it is wrong, unless it is of an earlier sequence."""
    fields = json.loads(finding("3", 1, "input:measure/events", "OPEN", "TELEMETRY_STALE").value) | {
        "cause": "RETENTION"
    }
    lost = Revision("3", 1, json.dumps(fields).encode(), 1)
    links = FINDINGS[::2]
    assert check_open([*links, lost], replace(TRUTH, may_lose=True)) == []
    assert check_open(links, replace(TRUTH, may_lose=True)) == ["no finding states that records were deleted unread"]
    assert check_open([*links, lost], TRUTH) == [
        "1 open findings that are not true: TELEMETRY_STALE input:measure/events"
    ]
    assert check_open([lost], FindingTruth(frozenset(), frozenset(), "2026-03-01T00:00:01")) == []
