"""The score: findings against the truth, one to one, as DESIGN 6 defines it.

Says which faults were found, missed and invented, and how long detection took; decides nothing about what is good
enough.
"""

import csv
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from streams.fabric.ids import Port
from streams.wire.errors import Misconfigured
from streams.wire.models import Condition, Finding, Severity, Status

_CONDITIONS = {condition.name.lower(): condition for condition in Condition if condition}
_TOLERANCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Truth:
    """One fault that there really was; `port` is empty where it is the device."""

    start_ns: int
    end_ns: int
    condition: Condition
    device: str
    port: str
    tolerance_s: float = _TOLERANCE_S

    @property
    def tolerance_ns(self) -> int:
        """How far a finding may begin outside of it, and which gaps do not divide it."""
        return round(self.tolerance_s * 1e9)


@dataclass(frozen=True, slots=True)
class ScoredFinding:
    """Findings of one condition and subject, merged. `excused` ones may match a truth but are never invented."""

    condition: Condition
    subject_id: str
    ends: frozenset[Port]
    start_ns: int
    end_ns: int | None
    detected_ns: int
    excused: bool


@dataclass(frozen=True, slots=True)
class Match:
    """A truth and what found it."""

    truth: Truth
    finding: ScoredFinding

    @property
    def delay_s(self) -> float:
        """Time to detect: `detected_at` minus the fault's start."""
        return (self.finding.detected_ns - self.truth.start_ns) / 1e9


@dataclass(frozen=True, slots=True)
class Score:
    """The outcome; empty truth and no findings are perfect (0/0 is 1)."""

    found: tuple[Match, ...]
    missed: tuple[Truth, ...]
    invented: tuple[ScoredFinding, ...]
    false_pages: tuple[str, ...] = ()
    """Ids of findings that were retracted after they could have paged."""

    @property
    def precision(self) -> float:
        """Found over found and invented; a page for something later retracted is invented as well."""
        wrong = len(self.invented) + len(self.false_pages)
        return len(self.found) / (len(self.found) + wrong) if self.found or wrong else 1.0

    @property
    def recall(self) -> float:
        """Found over all there was."""
        return len(self.found) / (len(self.found) + len(self.missed)) if self.found or self.missed else 1.0

    @property
    def perfect(self) -> bool:
        """Nothing missed, nothing invented."""
        return self.precision == 1.0 and self.recall == 1.0

    def for_condition(self, condition: Condition) -> "Score":
        """The same for one condition."""
        return Score(
            tuple(match for match in self.found if match.truth.condition is condition),
            tuple(truth for truth in self.missed if truth.condition is condition),
            tuple(seen for seen in self.invented if seen.condition is condition),
        )

    def conditions(self) -> list[Condition]:
        """Those that occur at all."""
        occur = [m.truth.condition for m in self.found] + [t.condition for t in self.missed]
        return sorted({*occur, *(seen.condition for seen in self.invented)})


def read_truth(path: Path) -> list[Truth]:
    """The truth file of DESIGN 6; raises Misconfigured, naming the line, where it is not one."""
    truths = []
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                try:
                    truths.append(_truth(row))
                except (KeyError, ValueError) as error:
                    raise Misconfigured(f"{path} row {len(truths) + 1}: {error!r}") from error
    except OSError as error:
        raise Misconfigured(f"{path}: {error}") from error
    return truths


def _truth(row: dict[str, str]) -> Truth:
    if not row["device"]:
        raise ValueError("no device")
    start_ns = _time_ns(row["start"])
    end_ns = _time_ns(row["end"]) if row["end"] else start_ns
    tolerance = float(row.get("tolerance_s") or _TOLERANCE_S)
    return Truth(start_ns, end_ns, _CONDITIONS[row["condition"].lower()], row["device"], row["port"] or "", tolerance)


def _time_ns(text: str) -> int:
    """Unix ns, or a time as people write it: without a zone it is UTC, as on the command line."""
    if text.isdigit():
        return int(text)
    moment = datetime.fromisoformat(text)
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1e6) * 1000


def score(revisions: Iterable[Finding], truths: Sequence[Truth], hold_s: float = 15.0) -> Score:
    """Match what was said with what was; `hold_s` is for how long a finding must stand before it pages."""
    revisions = list(revisions)
    last = {}
    for finding in sorted(revisions, key=lambda f: f.revision):
        last[finding.id] = finding
    standing = [f for f in last.values() if f.status is not Status.RETRACTED and not f.shadow]
    tolerances = {(truth.condition, Port(truth.device, truth.port)): truth.tolerance_ns for truth in truths}
    seen = _merge_findings(standing, tolerances)
    merged = _merge_truths(truths)
    matches = _match(seen, merged)
    used_seen, used_truth = {m.finding for m in matches}, {m.truth for m in matches}
    return Score(
        tuple(matches),
        tuple(truth for truth in merged if truth not in used_truth),
        tuple(one for one in seen if one not in used_seen and not one.excused),
        tuple(sorted(f.id for f in last.values() if f.status is Status.RETRACTED and _paged(f, revisions, hold_s))),
    )


def _paged(retracted: Finding, revisions: Iterable[Finding], hold_s: float) -> bool:
    """Whether an earlier revision was a page (DETECTION 3a) that stood for `hold_s` of event time."""
    own = [f for f in revisions if f.id == retracted.id and f.status is not Status.RETRACTED]
    pages = [f for f in own if f.severity is Severity.CRITICAL and not f.parent_id and not f.shadow and not f.is_closed]
    said_ns = min((f.detected_at_ns or f.started_at_ns for f in pages), default=None)
    return said_ns is not None and retracted.observed_at_ns - said_ns >= hold_s * 1e9


def _ends(finding: Finding) -> frozenset[Port]:
    if finding.subject.id.startswith("pod:"):
        return frozenset({Port(finding.subject.pod, "")})
    return frozenset(Port(end.device, end.port) for end in (finding.subject.a, finding.subject.z) if end is not None)


def _merge_findings(findings: Iterable[Finding], tolerances: dict[tuple[Condition, Port], int]) -> list[ScoredFinding]:
    groups: dict[tuple[Condition, str], list[ScoredFinding]] = defaultdict(list)
    for finding in sorted(findings, key=lambda f: (f.started_at_ns, f.id)):
        excused = finding.severity is Severity.INFO or bool(finding.parent_id)
        detected_ns = finding.detected_at_ns or finding.started_at_ns
        one = ScoredFinding(
            finding.condition, finding.subject.id, _ends(finding), finding.started_at_ns, finding.resolved_at_ns,
            detected_ns, excused,
        )  # fmt: skip
        own = groups[finding.condition, finding.subject.id]
        gap_ns = max((tolerances.get((one.condition, end), 0) for end in one.ends), default=0) or round(
            _TOLERANCE_S * 1e9
        )
        if own and (own[-1].end_ns is None or one.start_ns - own[-1].end_ns <= gap_ns):
            end_ns = None if own[-1].end_ns is None or one.end_ns is None else max(own[-1].end_ns, one.end_ns)
            own[-1] = replace(own[-1], end_ns=end_ns, excused=own[-1].excused and excused)
        else:
            own.append(one)
    return [one for own in groups.values() for one in own]


def _merge_truths(truths: Iterable[Truth]) -> list[Truth]:
    groups: dict[tuple[Condition, str, str], list[Truth]] = defaultdict(list)
    for truth in sorted(truths, key=lambda t: t.start_ns):
        own = groups[truth.condition, truth.device, truth.port]
        if own and truth.start_ns - own[-1].end_ns <= max(truth.tolerance_ns, own[-1].tolerance_ns):
            own[-1] = replace(own[-1], end_ns=max(own[-1].end_ns, truth.end_ns))
        else:
            own.append(truth)
    return [truth for own in groups.values() for truth in own]


def _fits(seen: ScoredFinding, truth: Truth) -> bool:
    return (
        seen.condition is truth.condition
        and Port(truth.device, truth.port) in seen.ends
        and truth.start_ns - truth.tolerance_ns <= seen.start_ns <= truth.end_ns + truth.tolerance_ns
    )


def _match(seen: Sequence[ScoredFinding], truths: Sequence[Truth]) -> list[Match]:
    """The largest one-to-one matching, by augmenting paths; nearer starts are tried first."""
    choices = [
        sorted(
            (i for i, one in enumerate(seen) if _fits(one, truth)), key=lambda i: abs(seen[i].start_ns - truth.start_ns)
        )
        for truth in truths
    ]
    taken: dict[int, int] = {}

    def augment(truth: int, tried: set[int]) -> bool:
        for i in choices[truth]:
            if i not in tried:
                tried.add(i)
                if i not in taken or augment(taken[i], tried):
                    taken[i] = truth
                    return True
        return False

    for truth in range(len(truths)):
        augment(truth, set())
    return [Match(truths[truth], seen[i]) for i, truth in sorted(taken.items(), key=lambda pair: pair[1])]
