"""The same simulated day without one of its sources: what is said then and was not before, and is no fault.

Only that nobody reads it any more may be new (telemetry/stale), and what nobody can see any more is not said.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from streams.bench.detection.trial import Outcome
from streams.replay.score import ScoredFinding
from streams.wire.models import Condition


@dataclass(frozen=True, slots=True)
class SourceAblation:
    """Both runs of one day."""

    complete: Outcome
    without: Outcome

    @property
    def new_false_findings(self) -> list[ScoredFinding]:
        """What the day without the source invents and the whole day did not at that time, or what pages for nothing."""
        paged = {self.without.findings[identity].subject.id for identity in self.without.false_pages}
        return [
            seen
            for seen in self.without.score.invented
            if seen.condition is not Condition.TELEMETRY_STALE
            and (seen.subject_id in paged or not any(_is_same(one, seen) for one in self.complete.score.invented))
        ]

    @property
    def newly_stale(self) -> int:
        """How many subjects more are said to be read by nobody."""
        own = ({f.subject.id for f in o.findings.values() if f.condition is Condition.TELEMETRY_STALE}
               for o in (self.without, self.complete))  # fmt: skip
        return len(next(own) - next(own))

    @property
    def found_by_condition(self) -> dict[str, tuple[int, int]]:
        """By condition: how many of its faults were found with all sources, and without the one."""
        return {
            c.slug: (len(self.complete.score.for_condition(c).found), len(self.without.score.for_condition(c).found))
            for c in self.complete.score.conditions()
        }

    def as_dict(self) -> dict[str, Any]:
        """As JSON would have it."""
        asked = self.without.spec
        return {
            "gpus": asked.gpus, "seed": asked.seed, "each": asked.each, "days": asked.days, "without": asked.without,
            "hours": self.without.hours, "found": {slug: list(both) for slug, both in self.found_by_condition.items()},
            "newly_stale": self.newly_stale,
            "new_and_false": [f"{seen.condition.slug} {seen.subject_id}" for seen in self.new_false_findings],
            "fine": not self.new_false_findings,
        }  # fmt: skip

    def lines(self) -> Iterator[str]:
        """For people."""
        asked = self.without.spec
        yield (
            f"{asked.gpus:,} GPUs, seed {asked.seed}: {asked.what} in"
            f" {self.without.hours:.1f} simulated hours, with all sources and without {asked.without}"
        )
        yield f"{'condition':<20}{'found with all':>15}{'found without':>15}"
        yield from (f"{slug:<20}{all_:>15}{some:>15}" for slug, (all_, some) in self.found_by_condition.items())
        yield f"{self.newly_stale} devices more are said to be read by nobody"
        yield from (f"new and no fault: {seen.condition.slug} {seen.subject_id}" for seen in self.new_false_findings)
        yield (
            "nothing new is false"
            if not self.new_false_findings
            else f"{len(self.new_false_findings)} new findings are false"
        )


def _is_same(one: ScoredFinding, other: ScoredFinding) -> bool:
    """Whether both say the same of one time."""
    same = (one.condition, one.subject_id) == (other.condition, other.subject_id)
    begun = other.end_ns is None or one.start_ns <= other.end_ns
    return same and begun and (one.end_ns is None or one.end_ns >= other.start_ns)
