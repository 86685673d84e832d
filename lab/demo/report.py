"""Reports a demo: the score of findings and of drains, the stored rows, the time to the first finding, all problems.

A drain is right if its link had a bad part at that time, and wrong if it had none. A bad link is missing if the policy
drains it, but at the end no remediation drains it, denies it with a reason, or waits for an approval. An approval that
no automation carries out drains nothing.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from lab.demo.state import DemoState, duplicate_episodes
from streams.decide.policy import Policy
from streams.detect.evidence.subjects import subject_ends
from streams.fabric.ids import Port
from streams.replay.score import Score, as_dict, as_table
from streams.runtime.supervise import PartState
from streams.wire.errors import Misconfigured
from streams.wire.models import Action, Condition, Endpoint, Finding, Remediation, Severity, Status, Subject
from streams.wire.models import RemediationState as State

DECIDED_WITHIN_NS = 20_000_000_000
"""An episode that starts this shortly before the end may be undecided: detection, settling, a slow machine."""


_HANDLED = frozenset(
    {
        State.WAITING, State.DENIED, State.ESCALATED, State.DRAINED, State.VERIFYING, State.RESTORING, State.PROBATION,
    }
)  # fmt: skip
_IN_PROGRESS = frozenset({State.PROPOSED, State.APPROVED, State.ACCEPTED, State.NO_ANSWER, State.FAILED})
"""At the end these count for `DECIDED_WITHIN_NS`: automation may not have answered yet."""


@dataclass(frozen=True, slots=True)
class BadLinkTruth:
    """A link with a bad part from `since_ns` until `cured_ns`; the simulation of it ends at `until_ns`."""

    a: Port
    z: Port
    since_ns: int
    cured_ns: int | None
    until_ns: int
    episodes: tuple[int, ...]
    """The times at which the link starts to flap."""

    def is_bad(self, at_ns: int) -> bool:
        """Return True if its part is bad at a time."""
        return self.since_ns <= at_ns and (self.cured_ns is None or at_ns < self.cured_ns)


@dataclass(frozen=True, slots=True)
class ActionScore:
    """The numbers of right and wrong drains, and the bad links without one."""

    right: tuple[Remediation, ...]
    wrong: tuple[Remediation, ...]
    missing: tuple[BadLinkTruth, ...]

    @property
    def is_perfect(self) -> bool:
        """True if no drain was wrong and none is missing."""
        return not self.wrong and not self.missing

    def as_dict(self) -> dict[str, Any]:
        """Return the score as JSON values."""
        return {
            "right": len(self.right), "wrong": len(self.wrong), "missing": len(self.missing),
            "wrong_ids": [remediation.id for remediation in self.wrong],
            "missing_links": [_name(truth) for truth in self.missing],
        }  # fmt: skip

    def lines(self) -> Iterator[str]:
        """Yield the score as text."""
        yield f"actions: {len(self.right)} right, {len(self.wrong)} wrong, {len(self.missing)} missing"
        yield from (f"wrong: {one.id[:12]} drained {one.target.id}, which has no bad part" for one in self.wrong)
        yield from (f"missing: {_name(truth)} is bad, and no remediation is open for it" for truth in self.missing)


def read_bad_links(path: Path) -> list[BadLinkTruth]:
    """Return the bad links of the simulator's file; raise Misconfigured."""
    try:
        return [
            BadLinkTruth(
                Port(*row["a"]), Port(*row["z"]), row["since"], row["cured"], row["until"], tuple(row["episodes"])
            )
            for row in orjson.loads(path.read_bytes())
        ]
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise Misconfigured(f"{path}: {error}") from error


def score_actions(
    revisions: Iterable[Remediation], truths: Sequence[BadLinkTruth], policy: Policy, *, is_disturbed: bool = False
) -> ActionScore:
    """Return the score of the drains that automation carried out.

    In a disturbed demo a FAILED drain is not missing: the kill of the automation may interrupt one that began just
    then, and the cool-down outlasts the demo.
    """
    handled = _HANDLED | {State.FAILED} if is_disturbed else _HANDLED
    ordered = sorted(revisions, key=lambda one: one.revision)
    drained: dict[str, Remediation] = {}
    for one in ordered:
        if one.action is Action.DRAIN_LINK and one.state is State.DRAINED:
            drained.setdefault(one.id, one)
    right = [one for one in drained.values() if _is_bad(one, truths)]
    return ActionScore(
        tuple(right),
        tuple(one for one in drained.values() if one not in right),
        tuple(truth for truth in truths if _is_missing(truth, ordered, policy, handled)),
    )


def _is_bad(drain: Remediation, truths: Iterable[BadLinkTruth]) -> bool:
    at_ns = drain.decided_at_ns or 0
    return any(truth.is_bad(at_ns) for truth in truths if {truth.a, truth.z} == _ends(drain))


def _is_missing(
    truth: BadLinkTruth, ordered: Iterable[Remediation], policy: Policy, handled: Collection[State]
) -> bool:
    known = [at_ns for at_ns in truth.episodes if at_ns + DECIDED_WITHIN_NS <= truth.until_ns]
    if not truth.is_bad(truth.until_ns) or not _is_drained(policy, truth, len(known)):
        return False
    latest = {
        one.id: one for one in ordered
        if _ends(one) == {truth.a, truth.z} and (one.decided_at_ns or 0) <= truth.until_ns
    }  # fmt: skip
    return not any(
        one.action is Action.DRAIN_LINK and _is_handled(one, truth.until_ns, handled) for one in latest.values()
    )


def _is_handled(drain: Remediation, end_ns: int, handled: Collection[State]) -> bool:
    """Return True if a drain was carried out, or was not for a displayed reason, or may still be answered."""
    is_recent = (drain.decided_at_ns or 0) + DECIDED_WITHIN_NS > end_ns
    return drain.state in handled or (drain.state in _IN_PROGRESS and is_recent)


def _is_drained(policy: Policy, truth: BadLinkTruth, episodes: int) -> bool:
    """Return True if the policy drains a link that flaps for the n-th time."""
    subject = Subject("", Endpoint(*truth.a), Endpoint(*truth.z))
    finding = Finding(
        "", 1, False, Condition.LINK_FLAP, Status.OPEN, Severity.WARNING, subject, truth.since_ns, truth.since_ns,
        occurrences=episodes,
    )  # fmt: skip
    rule = policy.rule_for(finding) if episodes else None
    return rule is not None and any(step.action is Action.DRAIN_LINK for step in rule.ladder)


def _ends(remediation: Remediation) -> set[Port]:
    return {Port(end.device, end.port) for end in subject_ends(remediation.target)}


def _name(truth: BadLinkTruth) -> str:
    return " -- ".join(f"{port.device}/{port.port}" for port in (truth.a, truth.z))


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of one demo; `problems` has a line for each unexpected state."""

    score: Score | None
    rows: Mapping[str, int]
    findings: int
    first_finding_s: float | None
    restarts: Mapping[str, int]
    problems: tuple[str, ...]
    actions: ActionScore | None = None
    disturbances: tuple[str, ...] = ()
    """The disturbances, each with its effect."""

    @property
    def is_passed(self) -> bool:
        """True if no fault was missed, none invented, no drain wrong or missing, and no problem found."""
        is_perfect = self.score is None or self.score.perfect
        return not self.problems and is_perfect and (self.actions is None or self.actions.is_perfect)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "fine": self.is_passed,
            "score": None if self.score is None else as_dict(self.score),
            "actions": None if self.actions is None else self.actions.as_dict(),
            "disturbances": list(self.disturbances),
            "rows": dict(self.rows),
            "findings": self.findings,
            "first_finding_s": self.first_finding_s,
            "restarts": dict(self.restarts),
            "problems": list(self.problems),
        }

    def lines(self) -> Iterator[str]:
        """Yield the report as text."""
        if self.score is not None:
            yield as_table(self.score)
        if self.actions is not None:
            yield from self.actions.lines()
        yield from self.disturbances
        first = "none" if self.first_finding_s is None else f"the first {self.first_finding_s:.1f} s after the start"
        yield f"{self.findings} findings, {first}"
        yield "rows in ClickHouse: " + ", ".join(f"{table} {count}" for table, count in self.rows.items())
        if any(self.restarts.values()):
            yield "restarted: " + ", ".join(f"{name} {times}×" for name, times in self.restarts.items() if times)
        yield from (f"problem: {problem}" for problem in self.problems)


def build_report(
    state: DemoState,
    score: Score | None,
    parts: Sequence[PartState],
    problems: Sequence[str],
    actions: ActionScore | None = None,
    disturbances: tuple[str, ...] = (),
) -> Report:
    """Return the report of a run; `problems` has the problems that the run itself found."""
    return Report(
        score,
        dict(state.view.rows),
        len(state.view.findings),
        state.first_finding_s,
        {part.name: part.restarts for part in parts},
        (*problems, *duplicate_episodes(state.view.findings.values())),
        actions,
        disturbances,
    )
