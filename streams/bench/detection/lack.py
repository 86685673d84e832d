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
class Lack:
    """Both runs of one day."""

    whole: Outcome
    without: Outcome

    @property
    def new_and_false(self) -> list[ScoredFinding]:
        """What the day without the source invents and the whole day did not at that time, or what pages for nothing."""
        paged = {self.without.findings[identity].subject.id for identity in self.without.vain}
        return [
            seen
            for seen in self.without.score.invented
            if seen.condition is not Condition.TELEMETRY_STALE
            and (seen.subject_id in paged or not any(_is_same(one, seen) for one in self.whole.score.invented))
        ]

    @property
    def stale(self) -> int:
        """How many subjects more are said to be read by nobody."""
        own = ({f.subject.id for f in o.findings.values() if f.condition is Condition.TELEMETRY_STALE}
               for o in (self.without, self.whole))  # fmt: skip
        return len(next(own) - next(own))

    @property
    def unseen(self) -> dict[str, tuple[int, int]]:
        """By condition: how many of its faults were found with all sources, and without the one."""
        return {
            c.slug: (len(self.whole.score.for_condition(c).found), len(self.without.score.for_condition(c).found))
            for c in self.whole.score.conditions()
        }

    def as_dict(self) -> dict[str, Any]:
        """As JSON would have it."""
        asked = self.without.asked
        return {
            "gpus": asked.gpus, "seed": asked.seed, "each": asked.each, "days": asked.days, "without": asked.without,
            "hours": self.without.hours, "found": {slug: list(both) for slug, both in self.unseen.items()},
            "newly_stale": self.stale,
            "new_and_false": [f"{seen.condition.slug} {seen.subject_id}" for seen in self.new_and_false],
            "fine": not self.new_and_false,
        }  # fmt: skip

    def lines(self) -> Iterator[str]:
        """For people."""
        asked = self.without.asked
        yield (
            f"{asked.gpus:,} GPUs, seed {asked.seed}: {asked.what} in"
            f" {self.without.hours:.1f} simulated hours, with all sources and without {asked.without}"
        )
        yield f"{'condition':<20}{'found with all':>15}{'found without':>15}"
        yield from (f"{slug:<20}{all_:>15}{some:>15}" for slug, (all_, some) in self.unseen.items())
        yield f"{self.stale} devices more are said to be read by nobody"
        yield from (f"new and no fault: {seen.condition.slug} {seen.subject_id}" for seen in self.new_and_false)
        yield "nothing new is false" if not self.new_and_false else f"{len(self.new_and_false)} new findings are false"


def _is_same(one: ScoredFinding, other: ScoredFinding) -> bool:
    """Whether both say the same of one time."""
    same = (one.condition, one.subject_id) == (other.condition, other.subject_id)
    begun = other.end_ns is None or one.start_ns <= other.end_ns
    return same and begun and (one.end_ns is None or one.end_ns >= other.start_ns)
