"""Compares a simulated day with the same day without one of its sources, and lists new false findings.

New findings of telemetry/stale are expected. Faults that no other source reports may be missed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lab.bench.detection.outcome import Outcome
from streams.replay.score import ScoredFinding
from streams.wire.models import Condition


@dataclass(frozen=True, slots=True)
class SourceAblation:
    """The outcomes of the two runs of one day."""

    complete: Outcome
    without: Outcome

    @property
    def new_false_findings(self) -> list[ScoredFinding]:
        """Return the false findings that only the day without the source has, and those that page on it."""
        paged = {self.without.findings[finding_id].subject.id for finding_id in self.without.false_pages}
        return [
            scored
            for scored in self.without.score.invented
            if scored.condition is not Condition.TELEMETRY_STALE
            and (
                scored.subject_id in paged or not any(_is_same(other, scored) for other in self.complete.score.invented)
            )
        ]

    @property
    def newly_stale(self) -> int:
        """Return how many more subjects are stale without the source."""
        return len(_stale_subjects(self.without) - _stale_subjects(self.complete))

    @property
    def found_by_condition(self) -> dict[str, tuple[int, int]]:
        """Return the number of found faults with all sources and without the one, by condition."""
        complete, without = self.complete.score, self.without.score
        return {
            condition.slug: (
                len(complete.for_condition(condition).found),
                len(without.for_condition(condition).found),
            )
            for condition in complete.conditions()
        }

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        spec, new = self.without.spec, self.new_false_findings
        return {
            "gpus": spec.gpus, "seed": spec.seed, "each": spec.each, "days": spec.days, "without": spec.without,
            "hours": self.without.hours, "found": {slug: list(both) for slug, both in self.found_by_condition.items()},
            "newly_stale": self.newly_stale,
            "new_false_findings": [f"{scored.condition.slug} {scored.subject_id}" for scored in new],
            "fine": not new,
        }  # fmt: skip

    def lines(self) -> Iterator[str]:
        """Yield the lines of the report."""
        spec, new = self.without.spec, self.new_false_findings
        yield (
            f"{spec.gpus:,} GPUs, seed {spec.seed}: {spec.description} in"
            f" {self.without.hours:.1f} simulated hours, with all sources and without {spec.without}"
        )
        yield f"{'condition':<22}{'found with all':>15}{'found without':>15}"
        yield from (f"{slug:<22}{both[0]:>15}{both[1]:>15}" for slug, both in self.found_by_condition.items())
        yield f"{self.newly_stale} more devices are stale"
        yield from (f"new false finding: {scored.condition.slug} {scored.subject_id}" for scored in new)
        yield f"{len(new)} new false findings" if new else "no new false findings"


def _stale_subjects(outcome: Outcome) -> set[str]:
    return {f.subject.id for f in outcome.findings.values() if f.condition is Condition.TELEMETRY_STALE}


def _is_same(one: ScoredFinding, other: ScoredFinding) -> bool:
    """Return True if both findings have the same condition and subject and overlap in time."""
    same = (one.condition, one.subject_id) == (other.condition, other.subject_id)
    begun = other.end_ns is None or one.start_ns <= other.end_ns
    return same and begun and (one.end_ns is None or one.end_ns >= other.start_ns)
