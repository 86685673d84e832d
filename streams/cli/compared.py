"""What another configuration would have said, for people: what appears, what disappears, what changes."""

from collections.abc import Iterator

from streams.cli import shown
from streams.replay.difference import ChangedFinding, Differences
from streams.wire.models import Finding


def lines(differences: Differences) -> Iterator[str]:
    """A line of numbers, then one for each finding that differs: + appears, - disappears, ~ changes."""
    counts = len(differences.appeared), len(differences.disappeared), len(differences.changed), differences.same
    yield "{} appear, {} disappear, {} change, {} are the same".format(*counts)
    yield from (f"+ {_line(finding)}" for finding in differences.appeared)
    yield from (f"- {_line(finding)}" for finding in differences.disappeared)
    for changed in differences.changed:
        yield f"~ {_line(changed.after)}"
        yield f"    {_changes(changed)}"


def _line(finding: Finding) -> str:
    words = f"{finding.severity.name:<8}  {finding.condition.slug:<22}  {finding.subject.id}"
    return f"{shown.at(finding.started_at_ns)}  {words}  [{finding.id[:12]}]"


def _changes(changed: ChangedFinding) -> str:
    return "; ".join(f"{name}: {before} -> {after}" for name, (before, after) in changed.fields.items())
