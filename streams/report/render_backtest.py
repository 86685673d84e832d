"""Renders backtests as text: differences between configurations, decisions of policies, the tuning of a detector."""

from collections.abc import Iterator

from streams.instrument.text import format_time
from streams.replay.difference import ChangedFinding, Differences
from streams.replay.policy_comparison import PolicyComparison, PolicyRun
from streams.replay.tuning import Tuning
from streams.wire.models import Finding, Remediation


def difference_lines(differences: Differences) -> Iterator[str]:
    """Yield the counts, then one line per different finding: + appears, - disappears, ~ changes."""
    counts = len(differences.appeared), len(differences.disappeared), len(differences.changed), differences.same
    yield "{} appear, {} disappear, {} change, {} are the same".format(*counts)
    yield from (f"+ {_difference_line(finding)}" for finding in differences.appeared)
    yield from (f"- {_difference_line(finding)}" for finding in differences.disappeared)
    for changed in differences.changed:
        yield f"~ {_difference_line(changed.after)}"
        yield f"    {_changes(changed)}"


def _difference_line(finding: Finding) -> str:
    fields = f"{finding.severity.name:<8}  {finding.condition.slug:<22}  {finding.subject.id}"
    return f"{format_time(finding.started_at_ns)}  {fields}  [{finding.id[:12]}]"


def _changes(changed: ChangedFinding) -> str:
    return "; ".join(f"{name}: {before} -> {after}" for name, (before, after) in changed.fields.items())


def policy_lines(comparison: PolicyComparison) -> Iterator[str]:
    """Yield a line for each action and verdict with the counts of each policy, then the rest."""
    runs = [run for run in (comparison.first, comparison.second) if run is not None]
    names = ["policy", "against"][: len(runs)]
    yield f"{'action':<17} {'verdict':<15}" + "".join(f"{name:>9}" for name in names)
    for action, verdict in sorted({pair for run in runs for pair in run.counts()}):
        numbers = "".join(f"{run.counts().get((action, verdict), 0):>9}" for run in runs)
        yield f"{action.name:<17} {verdict.name:<15}{numbers}"
    for name, run in zip(names, runs, strict=True):
        yield f"lowest capacity with {name}: {_lowest(run)}"
    for first, second in comparison.differences():
        shown = first or second
        assert shown is not None
        change = f"{_verdict(second)} -> {_verdict(first)}"
        yield f"{format_time(shown.decided_at_ns)}  {shown.action.name:<16}  {shown.target.id}  {change}"


def _lowest(run: PolicyRun) -> str:
    if run.lowest is None:
        return "no action takes capacity"
    lowest = run.lowest
    where = f"{lowest.action.name} {lowest.target.id} at {format_time(lowest.decided_at_ns)}"
    return f"{lowest.surviving_capacity_ratio:.1%} after {where}"


def _verdict(remediation: Remediation | None) -> str:
    if remediation is None:
        return "nothing"
    return remediation.verdict.name + (f" ({remediation.constraint})" if remediation.constraint else "")


_EXAMPLES = 5
_SHORT_DAYS = 7


def tuning_lines(tuning: Tuning) -> Iterator[str]:
    """Yield a line for each candidate, the settings as TOML, and some of the findings that appear and disappear."""
    extent = f"{tuning.days:.2f} days, {tuning.messages} messages"
    yield f"{tuning.detector} over {extent}; wanted: {tuning.per_week:g} a week"
    if tuning.days < _SHORT_DAYS:
        yield f"the history is shorter than a week: numbers a week are extrapolated from {tuning.days:.2f} days"
    yield f"{'limits x':>9}{'findings':>10}{'a week':>10}"
    for one in tuning.candidates:
        marks = (" present", one is tuning.present), (" proposed", one is tuning.proposed)
        mark = "".join(text for text, applies in marks if applies)
        yield f"{one.factor:>9g}{len(one.findings):>10}{one.per_week:>10.1f}{mark}"
    if tuning.proposed is tuning.present:
        yield "the present settings are the nearest; change nothing"
        return
    yield f"[detect.{tuning.section}]"
    yield from (f"{name} = {value:.6g}" for name, value in tuning.proposed.values.items())
    differences = tuning.differences
    yield f"{len(differences.appeared)} findings appear, {len(differences.disappeared)} disappear"
    for sign, findings in (("+", differences.appeared), ("-", differences.disappeared)):
        yield from (f"{sign} {_example_line(finding)}" for finding in findings[:_EXAMPLES])
        if len(findings) > _EXAMPLES:
            yield f"{sign} and {len(findings) - _EXAMPLES} more"


def _example_line(finding: Finding) -> str:
    confidence = "" if finding.confidence is None else f", confidence {finding.confidence:.2f}"
    return f"{format_time(finding.started_at_ns)}  {finding.severity.name:<8}  {finding.summary}{confidence}"
