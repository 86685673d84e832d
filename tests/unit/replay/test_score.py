"""Tests each sentence of the definition of the score in DESIGN 6."""

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from streams.replay.score import Truth, as_dict, as_table, read_truth, score
from streams.wire.errors import Misconfigured
from streams.wire.models import Condition, Endpoint, Finding, Severity, Status, Subject

DOWN, FLAP = Condition.LINK_DOWN, Condition.LINK_FLAP
S = 1_000_000_000
LINK = Subject("link:h/e0--l/e1", Endpoint("h", "e0"), Endpoint("l", "e1"))


def _found(start: float, end: float | None = None, identity: str = "f", revision: int = 1, **fields: Any) -> Finding:
    values: dict[str, Any] = {
        "id": identity, "revision": revision, "final": True, "condition": DOWN,
        "status": Status.OPEN if end is None else Status.RESOLVED, "severity": Severity.WARNING, "subject": LINK,
        "started_at_ns": round(start * S), "observed_at_ns": round((end or start) * S),
        "resolved_at_ns": None if end is None else round(end * S), "detected_at_ns": round((start + 30) * S), **fields,
    }  # fmt: skip
    return Finding(**values)


def _truth(start: float, end: float, port: str = "h/e0", condition: Condition = DOWN, tolerance: float = 60) -> Truth:
    device, _, name = port.partition("/")
    return Truth(round(start * S), round(end * S), condition, device, name, tolerance)


def _counts(revisions: Sequence[Finding], truths: Sequence[Truth]) -> tuple[int, int, int]:
    result = score(revisions, truths)
    return len(result.found), len(result.missed), len(result.invented)


T = _truth(1000, 1100)
CASES: dict[str, tuple[list[Finding], list[Truth], tuple[int, int, int]]] = {
    "no fault and no finding": ([], [], (0, 0, 0)),
    "a finding without a truth is invented": ([_found(1000, 1100)], [], (0, 0, 1)),
    "a truth without a finding is missed": ([], [T], (0, 1, 0)),
    "the truth's port at either end": ([_found(1000, 1100)], [_truth(1000, 1100, "l/e1")], (1, 0, 0)),
    "another port": ([_found(1000, 1100)], [_truth(1000, 1100, "l/e2")], (0, 1, 1)),
    "another condition": ([_found(1000, 1100)], [_truth(1000, 1100, condition=FLAP)], (0, 1, 1)),
    "a fault of the device does not match a port": ([_found(1000, 1100)], [_truth(1000, 1100, "h")], (0, 1, 1)),
    "started at the edge before": ([_found(940, 1100)], [T], (1, 0, 0)),
    "started too early": ([_found(939, 1100)], [T], (0, 1, 1)),
    "started at the edge after": ([_found(1160, 1170)], [T], (1, 0, 0)),
    "started too late": ([_found(1161, 1170)], [T], (0, 1, 1)),
    "a tolerance of its result": ([_found(800, 1100)], [_truth(1000, 1100, tolerance=200)], (1, 0, 0)),
    "the last revision counts": ([_found(1, 2), _found(1000, 1100, revision=2)], [T], (1, 0, 0)),
    "the order of revisions does not matter": ([_found(1000, 1100, revision=2), _found(1, 2)], [T], (1, 0, 0)),
    "retracted are ignored": ([_found(1000), _found(1000, revision=2, status=Status.RETRACTED)], [T], (0, 1, 0)),
    "shadow findings are ignored": ([_found(1000, 1100, shadow=True)], [T], (0, 1, 0)),
    "INFO is never invented": ([_found(1, 2, severity=Severity.INFO)], [], (0, 0, 0)),
    "INFO may match": ([_found(1000, 1100, severity=Severity.INFO)], [T], (1, 0, 0)),
    "a child is never invented": ([_found(1, 2, parent_id="p")], [], (0, 0, 0)),
    "a child may match": ([_found(1000, 1100, parent_id="p")], [T], (1, 0, 0)),
    "findings apart by the tolerance are one": ([_found(1000, 1040, "a"), _found(1100, 1200, "b")], [T], (1, 0, 0)),
    "findings further apart are two": ([_found(1000, 1039, "a"), _found(1100, 1200, "b")], [T], (1, 0, 1)),
    "truths apart by the tolerance are one": ([_found(1000, 1300)], [T, _truth(1160, 1300)], (1, 0, 0)),
    "truths further apart are two": ([_found(1000, 1100)], [T, _truth(1161, 1300)], (1, 1, 0)),
    "one to one": ([_found(1000, 1010, "a"), _found(1080, 1090, "b")], [T, _truth(1000, 1100, "l/e1")], (2, 0, 0)),
    "the largest matching": (
        [_found(1000, 1010, "a"), _found(1150, 1160, "b")],
        [_truth(1100, 1200), _truth(1000, 1100, "l/e1", tolerance=10)],
        (2, 0, 0),
    ),
    "an open finding merges with any later one": ([_found(1000, None, "a"), _found(9000, 9100, "b")], [T], (1, 0, 0)),
}  # fmt: skip


@pytest.mark.parametrize(("revisions", "truths", "expected"), CASES.values(), ids=CASES)
def test_each_sentence_of_the_definition(
    revisions: Sequence[Finding], truths: Sequence[Truth], expected: tuple[int, int, int]
) -> None:
    """Each smallest case gives the expected (found, missed, invented)."""
    assert _counts(revisions, truths) == expected


def test_zero_over_zero_is_one() -> None:
    """No fault and no finding is perfect; one missed fault or one invented finding is not."""
    assert score([], []).perfect
    missed, invented = score([], [T]), score([_found(1, 2)], [])
    assert (missed.precision, missed.recall, missed.perfect) == (1.0, 0.0, False)
    assert (invented.precision, invented.recall, invented.perfect) == (0.0, 1.0, False)


@pytest.mark.parametrize(
    ("found", "repeated"),
    [
        ([_found(1000, 1050), _found(1050, 1100, "g")], 0),
        ([_found(1000, 1060), _found(1050, 1100, "g")], 1),
        ([_found(1000), _found(1050, 1100, "g")], 1),
        ([_found(1000, 1100), _found(1000, 1100, "g", status=Status.RETRACTED)], 0),
        ([_found(1000, 1100, revision=n) for n in range(20)], 0),
        ([_found(1000, 1100, revision=n) for n in range(21)], 1),
    ],
    ids=["one after the other", "a twin", "a twin of an open one", "a retracted one", "20 revisions", "21 revisions"],
)
def test_a_twin_and_a_flood_of_revisions_are_no_perfect_score(found: list[Finding], repeated: int) -> None:
    """Precision and recall stay 1; the report names the finding and has both numbers."""
    result = score(found, [T])
    assert (result.precision, result.recall, len(result.repeated), result.perfect) == (1.0, 1.0, repeated, not repeated)
    row = as_dict(result)["conditions"]["link/down"]
    counts = Counter(one.id for one in found if one.status is not Status.RETRACTED)
    assert (row["findings_per_fault"], row["revisions_per_finding"]) == (len(counts), max(counts.values()))
    assert ("repeated: link/down" in as_table(result)) is bool(repeated)


def test_time_to_detect_is_from_the_faults_start() -> None:
    """It is `detected_at` minus the fault's start, whatever the start of the finding."""
    (match,) = score([_found(1005, 1100)], [T]).found
    assert match.delay_s == 35


def test_a_page_for_a_retracted_finding_is_a_false_page() -> None:
    """It was a page for longer than the hold; a warning, a child and a short one paged no one."""

    def false_pages(seconds: float, **fields: Any) -> tuple[str, ...]:
        page = _found(1000, **{"severity": Severity.CRITICAL, **fields})
        retracted = _found(1000, revision=2, severity=Severity.CRITICAL, status=Status.RETRACTED)
        later = Finding(**{**_fields(retracted), "observed_at_ns": round((1030 + seconds) * S)})
        return score([page, later], []).false_pages

    assert false_pages(15) == ("f",)
    assert false_pages(14.9) == false_pages(60, parent_id="p") == false_pages(60, shadow=True) == ()
    assert false_pages(60, severity=Severity.WARNING) == ()
    result = score([_found(1000, severity=Severity.CRITICAL),
                 _found(1100, revision=2, status=Status.RETRACTED)], [])  # fmt: skip
    assert (result.precision, result.perfect) == (0.0, False)


def _fields(finding: Finding) -> dict[str, Any]:
    return {name: getattr(finding, name) for name in Finding.__dataclass_fields__}


def test_the_truth_file_is_read_with_its_optional_tolerance(tmp_path: Path) -> None:
    """It may have integers or RFC 3339, a device without a port, and the default tolerance."""
    file = tmp_path / "truth.csv"
    file.write_text(
        "start,end,condition,device,port,tolerance_s\n"
        "1970-01-01T00:00:01Z,2000000000,link_down,h,e0,5\n1000000000,,device_down,h,,\n"
    )
    first, second = read_truth(file)
    assert (first.start_ns, first.end_ns, first.tolerance_s) == (S, 2 * S, 5)
    assert (second.condition, second.port, second.end_ns, second.tolerance_s) == (Condition.DEVICE_DOWN, "", S, 60)


def test_a_time_without_a_zone_is_utc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time zone of the machine does not matter."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    file = tmp_path / "truth.csv"
    file.write_text("start,end,condition,device,port\n1970-01-02,1970-01-02T00:00:01Z,link_flap,leaf1,Ethernet1\n")
    try:
        (result,) = read_truth(file)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert (result.start_ns, result.end_ns) == (86_400 * 10**9, 86_401 * 10**9)


@pytest.mark.parametrize("row", ["1,2,link_gone,h,e0", "x,2,link_down,h,e0", "1,2,link_down"])
def test_an_invalid_truth_file_is_refused_with_its_row(tmp_path: Path, row: str) -> None:
    """The error names the file and the row."""
    file = tmp_path / "truth.csv"
    file.write_text(f"start,end,condition,device,port\n1,2,link_down,h,e0\n{row}\n")
    with pytest.raises(Misconfigured, match=r"truth\.csv row 2"):
        read_truth(file)
    with pytest.raises(Misconfigured, match="none"):
        read_truth(tmp_path / "none.csv")


def test_the_report_names_missed_and_invented_findings() -> None:
    """The JSON and the table have the counts of each condition."""
    result = score([_found(1000, 1100), _found(5000, 5100, "x")], [T, _truth(9000, 9100, "l/e9", FLAP)])
    report = as_dict(result)
    assert (report["precision"], report["recall"]) == (0.5, 0.5)
    assert report["missed"] == ["link/flap l/e9 from 1970-01-01T02:30:00Z"]
    assert report["invented"] == ["link/down link:h/e0--l/e1 from 1970-01-01T01:23:20Z"]
    assert report["conditions"]["link/down"]["time_to_detect_s"] == {"median": 30.0, "worst": 30.0}
    assert "missed: link/flap l/e9" in as_table(result) and "precision 0.5, recall 0.5" in as_table(result)
