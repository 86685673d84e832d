"""Reports a run: a line for each fault with its promise and measurements, and every breach."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from lab.chaos.load import Acknowledged, Identity
from lab.chaos.plan import Step
from lab.chaos.scene import Scene
from lab.chaos.stack import SINK, ChaosParams
from lab.chaos.verdict import FindingTruth, Observation, Verdict, check_findings, check_rejected, count_messages
from streams.store.persist.persisted_topics import PERSISTED_TOPICS
from streams.wire.topics import EVENTS, REJECTED, SAMPLES

_LOST_EVENT = "records were deleted before they were stored"
TABLE_HEAD = (
    "| fault | promise | acknowledged | lost | double | seconds until lag zero |",
    "|---|---|---|---|---|---|",
)


@dataclass
class StepResult:
    """One step as carried out, with its measurements; times are by the monotonic clock."""

    step: Step
    promise: str
    began_s: float
    healed_s: float = 0.0
    may_lose: bool = False
    recovered_after_s: float | None = None
    acknowledged: int = 0
    lost: int = 0
    lost_after_heal: int = 0
    double: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the step as JSON values."""
        return {
            "fault": self.step.fault, "begin_s": round(self.step.begin_s, 1), "heal_s": round(self.step.heal_s, 1),
            "promise": self.promise, "acknowledged": self.acknowledged, "lost": self.lost, "double": self.double,
            "seconds": None if self.recovered_after_s is None else round(self.recovered_after_s, 1),
        }  # fmt: skip


@dataclass
class Report:
    """The outcome of a run."""

    params: ChaosParams
    steps: Sequence[StepResult]
    acknowledged: int
    stored: int
    findings: int
    reported_lost: int
    ended: dict[str, list[int]]
    breaches: list[str] = field(default_factory=list)

    @property
    def is_passed(self) -> bool:
        """True if no promise was broken."""
        return not self.breaches

    def lines(self) -> Iterator[str]:
        """Yield the report as text."""
        for one in self.steps:
            after = (
                "not recovered" if one.recovered_after_s is None else f"lag zero after {one.recovered_after_s:.1f} s"
            )
            yield (
                f"{one.step}: promised {one.promise}; measured lost {one.lost}, double {one.double}"
                f" of {one.acknowledged}, {after}"
            )
        yield f"{self.acknowledged} messages acknowledged, {self.stored} stored, {self.findings} revisions of findings"
        yield from (f"{name} ended by itself with {codes}" for name, codes in self.ended.items() if codes)
        yield from (f"breach: {breach}" for breach in self.breaches)

    def table_rows(self) -> Iterator[str]:
        """Yield a row of a Markdown table for each step."""
        for one in self.steps:
            seconds = "not recovered" if one.recovered_after_s is None else f"{one.recovered_after_s:.1f}"
            cells = (one.step.fault, one.promise, str(one.acknowledged), str(one.lost), str(one.double), seconds)
            yield f"| {' | '.join(cells)} |"

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "seed": self.params.seed, "passed": self.is_passed, "acknowledged": self.acknowledged,
            "stored": self.stored, "findings": self.findings, "reported_lost": self.reported_lost,
            "ended": self.ended, "steps": [one.as_dict() for one in self.steps], "breaches": self.breaches,
        }  # fmt: skip


def build_report(
    params: ChaosParams,
    steps: Sequence[StepResult],
    scene: Scene,
    seen: Observation,
    truth: FindingTruth,
    problems: list[str],
    reported_before: int = 0,
) -> Report:
    """Return the report of a sequence that has ended; `reported_before` counts losses that earlier ones reported."""
    acknowledged = scene.load.ledger.acknowledged
    verdict = count_messages(acknowledged, seen)
    assign(steps, acknowledged, verdict)
    reported = reported_lost(scene.stack.parts[SINK].logs()) - reported_before
    # A rejection of the rejected topic would be a loop: such a record is only logged.
    persisted = frozenset(one.topic.name for one in PERSISTED_TOPICS if one.topic is not REJECTED)
    ended = {name: list(part.ended) for name, part in scene.stack.parts.items()}
    breaches = [
        *problems,
        *verdict.breaches,
        *loss_breaches(steps, reported),
        *([f"{len(verdict.double)} messages stored twice"] if verdict.double else []),
        *check_findings(seen, truth),
        *check_rejected(scene.poisoned, persisted, seen.rejected),
        *(f"{name} refused to start (exit 2)" for name, codes in ended.items() if 2 in codes),
    ]
    stored = len(acknowledged) - len(verdict.lost)
    return Report(params, steps, len(acknowledged), stored, len(seen.findings), reported, ended, breaches)


def assign(steps: Sequence[StepResult], acknowledged: Mapping[Identity, Acknowledged], verdict: Verdict) -> None:
    """Count each message for the step during which it was acknowledged.

    A loss before the end of a step that deletes records belongs to that step.
    """
    lost, double = set(verdict.lost), set(verdict.double)
    for identity, message in acknowledged.items():
        step = _step_at(steps, message.at_s)
        step.acknowledged += 1
        step.double += identity in double
        if identity in lost:
            deleting = next((one for one in steps if one.may_lose and one.healed_s >= message.at_s), None)
            (deleting or step).lost += 1
            step.lost_after_heal += deleting is None and step.may_lose


def _step_at(steps: Sequence[StepResult], at_s: float) -> StepResult:
    """Return the last step that had started at a time; the first step for an earlier time."""
    return next((one for one in sorted(steps, key=lambda one: -one.began_s) if one.began_s <= at_s), steps[0])


def loss_breaches(steps: Sequence[StepResult], reported: int) -> list[str]:
    """Return the losses that no fault explains, and a difference between the deleted and the reported number."""
    breaches = [
        f"{one.lost} acknowledged messages lost in {one.step}" for one in steps if one.lost and not one.may_lose
    ]
    breaches += [
        f"{one.lost_after_heal} messages lost after {one.step} had healed" for one in steps if one.lost_after_heal
    ]
    deleted = sum(one.lost for one in steps if one.may_lose)
    if deleted > reported:
        breaches.append(f"{deleted} messages were deleted unread, and the sink reported {reported}")
    if reported and not deleted:
        breaches.append(f"the sink reported {reported} lost records, and none is missing")
    return breaches


def reported_lost(logs: Sequence[Path]) -> int:
    """Return the number of sample and event records that the sink reported as lost, from its logs."""
    total = 0
    for log in logs:
        for line in log.read_text(errors="replace").splitlines():
            if _LOST_EVENT in line:
                fields = orjson.loads(line)
                total += int(fields["records"]) if fields["topic"] in (SAMPLES.name, EVENTS.name) else 0
    return total
