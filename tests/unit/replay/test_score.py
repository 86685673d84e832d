"""The score, sentence by sentence of DESIGN 6."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from streams.replay.score import Truth, read_truth, score
from streams.replay.score_report import as_dict, as_table
from streams.wire.errors import Misconfigured
from streams.wire.models import Condition, Endpoint, Finding, Severity, Status, Subject

DOWN, FLAP = Condition.LINK_DOWN, Condition.LINK_FLAP
S = 1_000_000_000
LINK = Subject("link:h/e0--l/e1", Endpoint("h", "e0"), Endpoint("l", "e1"))


def _found(start: float, end: float | None = None, identity: str = "f", revision: int = 1, **more: Any) -> Finding:
    own: dict[str, Any] = {
        "id": identity, "revision": revision, "final": True, "condition": DOWN,
        "status": Status.OPEN if end is None else Status.RESOLVED, "severity": Severity.WARNING, "subject": LINK,
        "started_at_ns": round(start * S), "observed_at_ns": round((end or start) * S),
        "resolved_at_ns": None if end is None else round(end * S), "detected_at_ns": round((start + 30) * S), **more,
    }  # fmt: skip
    return Finding(**own)


def _truth(start: float, end: float, port: str = "h/e0", condition: Condition = DOWN, tolerance: float = 60) -> Truth:
    device, _, name = port.partition("/")
    return Truth(round(start * S), round(end * S), condition, device, name, tolerance)


def _counts(revisions: Sequence[Finding], truths: Sequence[Truth]) -> tuple[int, int, int]:
    own = score(revisions, truths)
    return len(own.found), len(own.missed), len(own.invented)


T = _truth(1000, 1100)
CASES: dict[str, tuple[list[Finding], list[Truth], tuple[int, int, int]]] = {
    "nothing was, nothing is said": ([], [], (0, 0, 0)),
    "a finding without a truth is invented": ([_found(1000, 1100)], [], (0, 0, 1)),
    "a truth without a finding is missed": ([], [T], (0, 1, 0)),
    "the truth's port at either end": ([_found(1000, 1100)], [_truth(1000, 1100, "l/e1")], (1, 0, 0)),
    "another port": ([_found(1000, 1100)], [_truth(1000, 1100, "l/e2")], (0, 1, 1)),
    "another condition": ([_found(1000, 1100)], [_truth(1000, 1100, condition=FLAP)], (0, 1, 1)),
    "a device's finding is no port's": ([_found(1000, 1100)], [_truth(1000, 1100, "h")], (0, 1, 1)),
    "started at the edge before": ([_found(940, 1100)], [T], (1, 0, 0)),
    "started too early": ([_found(939, 1100)], [T], (0, 1, 1)),
    "started at the edge after": ([_found(1160, 1170)], [T], (1, 0, 0)),
    "started too late": ([_found(1161, 1170)], [T], (0, 1, 1)),
    "a tolerance of its own": ([_found(800, 1100)], [_truth(1000, 1100, tolerance=200)], (1, 0, 0)),
    "the last revision counts": ([_found(1, 2), _found(1000, 1100, revision=2)], [T], (1, 0, 0)),
    "whatever order they come in": ([_found(1000, 1100, revision=2), _found(1, 2)], [T], (1, 0, 0)),
    "retracted ones are left out": ([_found(1000), _found(1000, revision=2, status=Status.RETRACTED)], [T], (0, 1, 0)),
    "shadowed ones are left out": ([_found(1000, 1100, shadow=True)], [T], (0, 1, 0)),
    "INFO is never invented": ([_found(1, 2, severity=Severity.INFO)], [], (0, 0, 0)),
    "INFO may match": ([_found(1000, 1100, severity=Severity.INFO)], [T], (1, 0, 0)),
    "a child is never invented": ([_found(1, 2, parent_id="p")], [], (0, 0, 0)),
    "a child may match": ([_found(1000, 1100, parent_id="p")], [T], (1, 0, 0)),
    "findings apart by the tolerance are one": ([_found(1000, 1040, "a"), _found(1100, 1200, "b")], [T], (1, 0, 0)),
    "findings further apart are two": ([_found(1000, 1039, "a"), _found(1100, 1200, "b")], [T], (1, 0, 1)),
    "truths apart by the tolerance are one": ([_found(1000, 1300)], [T, _truth(1160, 1300)], (1, 0, 0)),
    "truths further apart are two": ([_found(1000, 1100)], [T, _truth(1161, 1300)], (1, 1, 0)),
    "one to one": ([_found(1000, 1010, "a"), _found(1080, 1090, "b")], [T, _truth(1000, 1100, "l/e1")], (2, 0, 0)),
    "as many as can be": (
        [_found(1000, 1010, "a"), _found(1150, 1160, "b")],
        [_truth(1100, 1200), _truth(1000, 1100, "l/e1", tolerance=10)],
        (2, 0, 0),
    ),
    "an open finding has no end to be apart from": ([_found(1000, None, "a"), _found(9000, 9100, "b")], [T], (1, 0, 0)),
}  # fmt: skip


@pytest.mark.parametrize(("revisions", "truths", "expected"), CASES.values(), ids=CASES)
def test_each_sentence_of_the_definition(
    revisions: Sequence[Finding], truths: Sequence[Truth], expected: tuple[int, int, int]
) -> None:
    """(found, missed, invented) of the smallest case in which the sentence matters."""
    assert _counts(revisions, truths) == expected


def test_zero_over_zero_is_one() -> None:
    """Nothing to find and nothing said is perfect; one miss or one invention is not."""
    assert score([], []).perfect
    missed, invented = score([], [T]), score([_found(1, 2)], [])
    assert (missed.precision, missed.recall, missed.perfect) == (1.0, 0.0, False)
    assert (invented.precision, invented.recall, invented.perfect) == (0.0, 1.0, False)


def test_time_to_detect_is_from_the_faults_start() -> None:
    """`detected_at` minus `start`, whenever the finding says that it began."""
    (match,) = score([_found(1005, 1100)], [T]).found
    assert match.delay_s == 35


def test_a_page_for_what_was_retracted_is_invented() -> None:
    """It stood as a page for longer than the hold; a warning, a child and a short one paged nobody."""

    def in_vain(seconds: float, **more: Any) -> tuple[str, ...]:
        page = _found(1000, **{"severity": Severity.CRITICAL, **more})
        gone = _found(1000, revision=2, severity=Severity.CRITICAL, status=Status.RETRACTED)
        back = Finding(**{**_fields(gone), "observed_at_ns": round((1030 + seconds) * S)})
        return score([page, back], []).false_pages

    assert in_vain(15) == ("f",)
    assert in_vain(14.9) == in_vain(60, parent_id="p") == in_vain(60, shadow=True) == ()
    assert in_vain(60, severity=Severity.WARNING) == ()
    own = score([_found(1000, severity=Severity.CRITICAL),
                 _found(1100, revision=2, status=Status.RETRACTED)], [])  # fmt: skip
    assert (own.precision, own.perfect) == (0.0, False)


def _fields(finding: Finding) -> dict[str, Any]:
    return {name: getattr(finding, name) for name in Finding.__dataclass_fields__}


def test_the_truth_file_is_read_with_its_optional_tolerance(tmp_path: Path) -> None:
    """Integers or RFC 3339, a device's row without a port, the default tolerance."""
    file = tmp_path / "truth.csv"
    file.write_text(
        "start,end,condition,device,port,tolerance_s\n"
        "1970-01-01T00:00:01Z,2000000000,link_down,h,e0,5\n1000000000,,device_down,h,,\n"
    )
    first, second = read_truth(file)
    assert (first.start_ns, first.end_ns, first.tolerance_s) == (S, 2 * S, 5)
    assert (second.condition, second.port, second.end_ns, second.tolerance_s) == (Condition.DEVICE_DOWN, "", S, 60)


def test_a_time_without_a_zone_is_utc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the machine is that reads it."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    file = tmp_path / "truth.csv"
    file.write_text("start,end,condition,device,port\n1970-01-02,1970-01-02T00:00:01Z,link_flap,leaf1,Ethernet1\n")
    try:
        (own,) = read_truth(file)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert (own.start_ns, own.end_ns) == (86_400 * 10**9, 86_401 * 10**9)


@pytest.mark.parametrize("row", ["1,2,link_gone,h,e0", "x,2,link_down,h,e0", "1,2,link_down"])
def test_a_truth_that_cannot_be_read_is_refused_by_its_row(tmp_path: Path, row: str) -> None:
    """The file and the row are named."""
    file = tmp_path / "truth.csv"
    file.write_text(f"start,end,condition,device,port\n1,2,link_down,h,e0\n{row}\n")
    with pytest.raises(Misconfigured, match=r"truth\.csv row 2"):
        read_truth(file)
    with pytest.raises(Misconfigured, match="none"):
        read_truth(tmp_path / "none.csv")


def test_the_report_names_what_was_missed_and_invented() -> None:
    """As JSON and as a table, with the counts of each condition."""
    own = score([_found(1000, 1100), _found(5000, 5100, "x")], [T, _truth(9000, 9100, "l/e9", FLAP)])
    said = as_dict(own)
    assert (said["precision"], said["recall"]) == (0.5, 0.5)
    assert said["missed"] == ["link/flap l/e9 from 1970-01-01T02:30:00Z"]
    assert said["invented"] == ["link/down link:h/e0--l/e1 from 1970-01-01T01:23:20Z"]
    assert said["conditions"]["link/down"]["time_to_detect_s"] == {"median": 30.0, "worst": 30.0}
    assert "missed: link/flap l/e9" in as_table(own) and "precision 0.5, recall 0.5" in as_table(own)
