"""Renders the differences between two backtests as text: findings that appear, disappear or change."""

from collections.abc import Iterator

from streams.instrument.time_format import format_time
from streams.replay.difference import ChangedFinding, Differences
from streams.wire.models import Finding


def difference_lines(differences: Differences) -> Iterator[str]:
    """Yield the counts, then one line per finding that differs: + appears, - disappears, ~ changes."""
    counts = len(differences.appeared), len(differences.disappeared), len(differences.changed), differences.same
    yield "{} appear, {} disappear, {} change, {} are the same".format(*counts)
    yield from (f"+ {_line(finding)}" for finding in differences.appeared)
    yield from (f"- {_line(finding)}" for finding in differences.disappeared)
    for changed in differences.changed:
        yield f"~ {_line(changed.after)}"
        yield f"    {_changes(changed)}"


def _line(finding: Finding) -> str:
    fields = f"{finding.severity.name:<8}  {finding.condition.slug:<22}  {finding.subject.id}"
    return f"{format_time(finding.started_at_ns)}  {fields}  [{finding.id[:12]}]"


def _changes(changed: ChangedFinding) -> str:
    return "; ".join(f"{name}: {before} -> {after}" for name, (before, after) in changed.fields.items())
