"""Scores findings against the ground truth, matched one to one as DESIGN 6 defines.

Reports found and missed faults, invented findings and the time to detect, without targets.
"""

import csv
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, TextIO

import orjson

from streams.detect.evidence.subjects import subject_ends
from streams.fabric.ids import Port
from streams.replay.publications import Publication, publications
from streams.wire import codec
from streams.wire.errors import Misconfigured, Reject
from streams.wire.models import Condition, Finding, Remediation, Severity, Status

_CONDITIONS = {condition.name.lower(): condition for condition in Condition if condition}
_REQUIRED = ("start", "end", "condition", "device", "port")
_TOLERANCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Truth:
    """One fault of the ground truth; `port` is empty for a fault of the device."""

    start_ns: int
    end_ns: int
    condition: Condition
    device: str
    port: str
    tolerance_s: float = _TOLERANCE_S

    @property
    def tolerance_ns(self) -> int:
        """The time before and after the fault in which a finding may begin; also the longest gap within one fault."""
        return round(self.tolerance_s * 1e9)

    def is_during(self, begin_ns: int, end_ns: int | None = None) -> bool:
        """Return whether a time or a stretch of time is during the fault, with its tolerance."""
        until_ns = begin_ns if end_ns is None else end_ns
        return self.start_ns - self.tolerance_ns <= until_ns and begin_ns <= self.end_ns + self.tolerance_ns


@dataclass(frozen=True, slots=True)
class ScoredFinding:
    """Merged findings of one condition and subject; an `excused` one may match a fault but never counts as invented."""

    condition: Condition
    subject_id: str
    endpoints: frozenset[Port]
    start_ns: int
    end_ns: int | None
    detected_ns: int
    excused: bool
    findings: int = 1
    """The number of merged findings."""


@dataclass(frozen=True, slots=True)
class Match:
    """A fault and the finding that matches it."""

    truth: Truth
    finding: ScoredFinding

    @property
    def delay_s(self) -> float:
        """The time to detect: `detected_at` minus the fault's start."""
        return (self.finding.detected_ns - self.truth.start_ns) / 1e9


@dataclass(frozen=True, slots=True)
class Score:
    """The score; without faults and findings, precision and recall are 1 (0/0 is 1)."""

    found: tuple[Match, ...]
    missed: tuple[Truth, ...]
    invented: tuple[ScoredFinding, ...]
    false_pages: tuple[str, ...] = ()
    """Ids of findings that paged and were retracted later."""
    published: tuple[Publication, ...] = ()
    """All findings that were not retracted, with their revisions."""

    @property
    def precision(self) -> float:
        """Found, divided by found and invented findings; a page for a later retracted finding counts as invented."""
        wrong = len(self.invented) + len(self.false_pages)
        return len(self.found) / (len(self.found) + wrong) if self.found or wrong else 1.0

    @property
    def recall(self) -> float:
        """Found faults, divided by all faults."""
        return len(self.found) / (len(self.found) + len(self.missed)) if self.found or self.missed else 1.0

    @property
    def repeated(self) -> tuple[Publication, ...]:
        """The findings that repeat another, or have more revisions than a reader needs."""
        return tuple(one for one in self.published if one.is_twin or one.is_flood)

    @property
    def perfect(self) -> bool:
        """True if no fault was missed, no finding was invented, and none was published repeatedly."""
        return self.precision == 1.0 and self.recall == 1.0 and not self.repeated

    def for_condition(self, condition: Condition) -> "Score":
        """Return the score of one condition."""
        return Score(
            tuple(match for match in self.found if match.truth.condition is condition),
            tuple(truth for truth in self.missed if truth.condition is condition),
            tuple(finding for finding in self.invented if finding.condition is condition),
            published=tuple(one for one in self.published if one.condition is condition),
        )

    def conditions(self) -> list[Condition]:
        """Return the conditions that occur."""
        occur = [m.truth.condition for m in self.found] + [t.condition for t in self.missed]
        return sorted({*occur, *(finding.condition for finding in self.invented)})


def read_truth(path: Path) -> list[Truth]:
    """Return the faults of a truth file (DESIGN 6); raises Misconfigured with the invalid row."""
    truths = []
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                try:
                    truths.append(_truth(row))
                except ValueError as error:
                    raise Misconfigured(f"{path} row {len(truths) + 1}: {error}") from error
    except OSError as error:
        raise Misconfigured(f"{path}: {error.strerror or error}") from error
    return truths


def _truth(row: dict[str, str]) -> Truth:
    if missing := [name for name in _REQUIRED if row.get(name) is None]:
        raise ValueError(f"no column {', '.join(missing)}; a truth file has {', '.join(_REQUIRED)} and tolerance_s")
    if not row["device"]:
        raise ValueError("the device is empty; every fault has one")
    if (condition := _CONDITIONS.get(row["condition"].lower())) is None:
        raise ValueError(f"unknown condition {row['condition']!r}; one of {', '.join(_CONDITIONS)}")
    start_ns = _time_ns(row["start"])
    end_ns = _time_ns(row["end"]) if row["end"] else start_ns
    tolerance = float(row.get("tolerance_s") or _TOLERANCE_S)
    return Truth(start_ns, end_ns, condition, row["device"], row["port"] or "", tolerance)


def _time_ns(text: str) -> int:
    """Return Unix nanoseconds from an integer or RFC 3339; without a zone it is UTC, as on the command line."""
    if text.isdigit():
        return int(text)
    moment = datetime.fromisoformat(text)
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1e6) * 1000


def score(revisions: Iterable[Finding], truths: Sequence[Truth], hold_s: float = 15.0) -> Score:
    """Match findings with faults; a finding pages after `hold_s`."""
    revisions = list(revisions)
    last = {}
    for finding in sorted(revisions, key=lambda f: f.revision):
        last[finding.id] = finding
    valid = [f for f in last.values() if f.status is not Status.RETRACTED and not f.shadow]
    tolerances = {(truth.condition, Port(truth.device, truth.port)): truth.tolerance_ns for truth in truths}
    merged_findings = _merge_findings(valid, tolerances)
    merged_truths = _merge_truths(truths)
    matches = _match(merged_findings, merged_truths)
    used_findings, used_truths = {m.finding for m in matches}, {m.truth for m in matches}
    return Score(
        tuple(matches),
        tuple(truth for truth in merged_truths if truth not in used_truths),
        tuple(one for one in merged_findings if one not in used_findings and not one.excused),
        tuple(sorted(f.id for f in last.values() if f.status is Status.RETRACTED and _paged(f, revisions, hold_s))),
        publications(revisions),
    )


def _paged(retracted: Finding, revisions: Iterable[Finding], hold_s: float) -> bool:
    """Return whether earlier revisions qualified as a page (DETECTION 3a) for `hold_s` of event time."""
    earlier = [f for f in revisions if f.id == retracted.id and f.status is not Status.RETRACTED]
    pages = [
        f for f in earlier if f.severity is Severity.CRITICAL and not f.parent_id and not f.shadow and not f.is_closed
    ]
    paged_ns = min((f.detected_at_ns or f.started_at_ns for f in pages), default=None)
    return paged_ns is not None and retracted.observed_at_ns - paged_ns >= hold_s * 1e9


def _endpoints(finding: Finding) -> frozenset[Port]:
    if finding.subject.is_pod:
        return frozenset({Port(finding.subject.pod, "")})
    return frozenset(Port(end.device, end.port) for end in subject_ends(finding.subject))


def _merge_findings(findings: Iterable[Finding], tolerances: dict[tuple[Condition, Port], int]) -> list[ScoredFinding]:
    groups: dict[tuple[Condition, str], list[ScoredFinding]] = defaultdict(list)
    for finding in sorted(findings, key=lambda f: (f.started_at_ns, f.id)):
        excused = finding.severity is Severity.INFO or bool(finding.parent_id)
        detected_ns = finding.detected_at_ns or finding.started_at_ns
        one = ScoredFinding(
            finding.condition, finding.subject.id, _endpoints(finding), finding.started_at_ns, finding.resolved_at_ns,
            detected_ns, excused,
        )  # fmt: skip
        group = groups[finding.condition, finding.subject.id]
        gap_ns = max((tolerances.get((one.condition, end), 0) for end in one.endpoints), default=0) or round(
            _TOLERANCE_S * 1e9
        )
        if group and (group[-1].end_ns is None or one.start_ns - group[-1].end_ns <= gap_ns):
            end_ns = None if group[-1].end_ns is None or one.end_ns is None else max(group[-1].end_ns, one.end_ns)
            known = group[-1]
            group[-1] = replace(known, end_ns=end_ns, excused=known.excused and excused, findings=known.findings + 1)
        else:
            group.append(one)
    return [one for group in groups.values() for one in group]


def _merge_truths(truths: Iterable[Truth]) -> list[Truth]:
    groups: dict[tuple[Condition, str, str], list[Truth]] = defaultdict(list)
    for truth in sorted(truths, key=lambda t: t.start_ns):
        group = groups[truth.condition, truth.device, truth.port]
        if group and truth.start_ns - group[-1].end_ns <= max(truth.tolerance_ns, group[-1].tolerance_ns):
            group[-1] = replace(group[-1], end_ns=max(group[-1].end_ns, truth.end_ns))
        else:
            group.append(truth)
    return [truth for group in groups.values() for truth in group]


def _fits(finding: ScoredFinding, truth: Truth) -> bool:
    return (
        finding.condition is truth.condition
        and Port(truth.device, truth.port) in finding.endpoints
        and truth.is_during(finding.start_ns)
    )


def _match(findings: Sequence[ScoredFinding], truths: Sequence[Truth]) -> list[Match]:
    """Return the largest one-to-one matching, by augmenting paths that try nearer starts first."""
    choices = [
        sorted(
            (i for i, one in enumerate(findings) if _fits(one, truth)),
            key=lambda i: abs(findings[i].start_ns - truth.start_ns),
        )
        for truth in truths
    ]
    truth_of: dict[int, int] = {}

    def augment(truth: int, tried: set[int]) -> bool:
        for i in choices[truth]:
            if i not in tried:
                tried.add(i)
                if i not in truth_of or augment(truth_of[i], tried):
                    truth_of[i] = truth
                    return True
        return False

    for truth in range(len(truths)):
        augment(truth, set())
    return [Match(truths[truth], findings[i]) for i, truth in sorted(truth_of.items(), key=lambda pair: pair[1])]


def as_dict(score: Score) -> dict[str, Any]:
    """Return the score as JSON values; times to detect are in seconds."""
    return {
        "precision": score.precision,
        "recall": score.recall,
        "conditions": {condition.slug: _counts(score.for_condition(condition)) for condition in score.conditions()},
        "missed": [
            f"{t.condition.slug} {'/'.join(filter(None, (t.device, t.port)))} from {_time(t.start_ns)}"
            for t in score.missed
        ],
        "invented": [
            f"{finding.condition.slug} {finding.subject_id} from {_time(finding.start_ns)}"
            for finding in score.invented
        ],
        "false_pages": list(score.false_pages),
        "repeated": [
            f"{one.condition.slug} {one.subject_id} from {_time(one.start_ns)}: {one.revisions} revisions"
            + (", beside another finding" if one.is_twin else "")
            for one in score.repeated
        ],
    }


def _time(at_ns: int) -> str:
    return f"{datetime.fromtimestamp(at_ns // 10**9, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _counts(score: Score) -> dict[str, Any]:
    delays = sorted(match.delay_s for match in score.found)
    return {
        "injected": len(score.found) + len(score.missed),
        "found": len(score.found),
        "missed": len(score.missed),
        "invented": len(score.invented),
        "precision": score.precision,
        "recall": score.recall,
        "findings_per_fault": max((match.finding.findings for match in score.found), default=0),
        "revisions_per_finding": max((one.revisions for one in score.published), default=0),
        "time_to_detect_s": {"median": median(delays), "worst": delays[-1]} if delays else None,
    }


def as_table(score: Score) -> str:
    """Return the score as a plain text table, followed by the missed and invented findings."""
    head = (
        f"{'condition':<24}{'injected':>9}{'found':>7}{'missed':>8}{'invented':>10}{'median':>9}{'worst':>9}"
        f"{'findings':>10}{'revisions':>10}"
    )
    lines = [head]
    lines += [_line(condition, score.for_condition(condition)) for condition in score.conditions()]
    lines.append(f"precision {score.precision:.3g}, recall {score.recall:.3g}")
    lines += [f"missed: {name}" for name in as_dict(score)["missed"]]
    lines += [f"invented: {name}" for name in as_dict(score)["invented"]]
    lines += [f"false page: {identity}" for identity in score.false_pages]
    lines += [f"repeated: {name}" for name in as_dict(score)["repeated"]]
    return "\n".join(lines)


def _line(condition: Condition, score: Score) -> str:
    counts = _counts(score)
    times = counts["time_to_detect_s"]
    delays = f"{times['median']:>8.1f}s{times['worst']:>8.1f}s" if times else f"{'-':>9}{'-':>9}"
    return (
        f"{condition.slug:<24}{counts['injected']:>9}{counts['found']:>7}{counts['missed']:>8}"
        f"{counts['invented']:>10}{delays}{counts['findings_per_fault']:>10}{counts['revisions_per_finding']:>10}"
    )


def write_revisions(revisions: Iterable[Finding | Remediation], out: TextIO) -> int:
    """Write each revision as a line; return the number of lines."""
    count = 0
    for count, message in enumerate(revisions, 1):  # noqa: B007 — the count is the result
        out.write(f'{{"type": "{type(message).__name__.lower()}", "data": {codec.to_json(message).decode()}}}\n')
    return count


def read_findings(path: Path) -> Iterator[Finding]:
    """Yield the findings of a file of revisions; raises Misconfigured with the number of an invalid line."""
    number = 0
    try:
        with path.open(encoding="utf-8") as file:
            for line in file:
                number += 1
                record = orjson.loads(line)
                if record["type"] == "finding":
                    yield codec.from_json(Finding, orjson.dumps(record["data"]))
    except OSError as error:
        raise Misconfigured(f"{path}: {error.strerror or error}") from error
    except (orjson.JSONDecodeError, KeyError, TypeError, Reject) as error:
        reason = "no line of a backtest's output" if isinstance(error, KeyError | TypeError) else str(error)
        raise Misconfigured(f'{path} line {number}: {reason}; expected {{"type": "finding", "data": …}}') from error
