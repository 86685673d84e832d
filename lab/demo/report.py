"""Report of a demo: the score, the stored rows, the time to the first finding, and every problem."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lab.demo.action_score import ActionScore
from lab.demo.state import DemoState, duplicate_episodes
from streams.replay.score import Score
from streams.replay.score_report import as_dict, as_table
from streams.runtime.supervise import PartState


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

    @property
    def is_passed(self) -> bool:
        """True if no fault was missed, none invented, no drain wrong or missing, and no problem found."""
        is_perfect = self.score is None or self.score.perfect
        return not self.problems and is_perfect and (self.actions is None or self.actions.is_perfect)

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "fine": self.is_passed,
            "score": None if self.score is None else as_dict(self.score),
            "actions": None if self.actions is None else self.actions.as_dict(),
            "rows": dict(self.rows),
            "findings": self.findings,
            "first_finding_s": self.first_finding_s,
            "restarts": dict(self.restarts),
            "problems": list(self.problems),
        }

    def lines(self) -> Iterator[str]:
        """Yield it as text."""
        if self.score is not None:
            yield as_table(self.score)
        if self.actions is not None:
            yield from self.actions.lines()
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
) -> Report:
    """Return the report of a run; `problems` are those that the run itself found."""
    return Report(
        score,
        dict(state.view.rows),
        len(state.view.findings),
        state.first_finding_s,
        {part.name: part.restarts for part in parts},
        (*problems, *duplicate_episodes(state.view.findings.values())),
        actions,
    )
