"""Renders the comparison of two policies as text: counts, the lowest capacity, and the decisions that differ."""

from collections.abc import Iterator

from streams.instrument.time_format import format_time
from streams.replay.policy_comparison import PolicyComparison, PolicyRun
from streams.wire.models import Remediation


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
