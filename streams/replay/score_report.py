"""Formats a score as JSON and as a table."""

from datetime import UTC, datetime
from statistics import median
from typing import Any

from streams.replay.score import Score
from streams.wire.models import Condition


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
        "time_to_detect_s": {"median": median(delays), "worst": delays[-1]} if delays else None,
    }


def as_table(score: Score) -> str:
    """Return the score as a plain text table, followed by the missed and invented findings."""
    head = f"{'condition':<24}{'injected':>9}{'found':>7}{'missed':>8}{'invented':>10}{'median':>9}{'worst':>9}"
    lines = [head]
    lines += [_line(condition, score.for_condition(condition)) for condition in score.conditions()]
    lines.append(f"precision {score.precision:.3g}, recall {score.recall:.3g}")
    lines += [f"missed: {name}" for name in as_dict(score)["missed"]]
    lines += [f"invented: {name}" for name in as_dict(score)["invented"]]
    lines += [f"false page: {identity}" for identity in score.false_pages]
    return "\n".join(lines)


def _line(condition: Condition, score: Score) -> str:
    counts = _counts(score)
    times = counts["time_to_detect_s"]
    delays = f"{times['median']:>8.1f}s{times['worst']:>8.1f}s" if times else f"{'-':>9}{'-':>9}"
    return (
        f"{condition.slug:<24}{counts['injected']:>9}{counts['found']:>7}{counts['missed']:>8}"
        f"{counts['invented']:>10}{delays}"
    )
