"""Renders the figures of `railsight bench findings`."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from lab.bench.findings.session import FindingsOutcome, StateSize

MOST_PAGES_PER_HOUR = 1.0
STATE_BYTES, BYTES_PER_FINDING = 2_000_000, 300
"""The state of `decide` is below the first, for all ports and what is open, and the second for each finding
of the last day."""


def problems(outcome: FindingsOutcome) -> list[str]:
    """Return what does not hold."""
    checks = (
        (outcome.pages_per_hour < MOST_PAGES_PER_HOUR, f"pages below {MOST_PAGES_PER_HOUR:g} an hour"),
        (not outcome.unpaged, "every injected outage pages"),
        (not outcome.differing, "no id is decided twice differently"),
        (not outcome.lost, "no finding is lost"),
        (outcome.kills == outcome.options.kills, "every kill happened"),
        (
            all(one.size <= STATE_BYTES + BYTES_PER_FINDING * one.findings for one in outcome.states_of_decide),
            f"state of decide below {STATE_BYTES / 1e6:g} MB and {BYTES_PER_FINDING} bytes a finding of the last day",
        ),
    )
    return [text for holds, text in checks if not holds]


def as_dict(outcome: FindingsOutcome) -> dict[str, Any]:
    """Return all figures for JSON."""
    return asdict(replace(outcome, states=Counter())) | {
        "states": dict(outcome.states),  # asdict counts the pairs of a Counter
        "pages_per_hour": outcome.pages_per_hour,
        "problems": problems(outcome),
    }


def table_lines(outcome: FindingsOutcome) -> Iterator[str]:
    """Yield the lines of the table."""
    options = outcome.options
    yield (
        f"{options.gpus:,} GPUs, {options.planes} planes, {options.hours:g} h: {outcome.events:,} health events "
        f"({options.times:g} times the noisiest published rate), {outcome.findings:,} findings in "
        f"{outcome.finding_revisions:,} revisions"
    )
    names = ", ".join(f"{count} {name}" for name, count in Counter(page.name for page in outcome.pages).most_common())
    yield f"{'pages':<28}{len(outcome.pages):>10,}   {outcome.pages_per_hour:.2f} an hour: {names}"
    yield f"{'injected outages':<28}{outcome.outages:>10,}   {outcome.outages - len(outcome.unpaged)} paged"
    states = ", ".join(f"{count:,} {state}" for state, count in outcome.states.most_common())
    yield f"{'remediations':<28}{outcome.remediations:>10,}   {states}"
    yield f"{'carried out':<28}{outcome.acted:>10,}"
    yield (
        f"{'kills of decide':<28}{outcome.kills:>10,}   {outcome.repeated_inputs:,} records read again, "
        f"{outcome.repeated_outputs:,} revisions published again"
    )
    yield f"{'decided twice differently':<28}{len(outcome.differing):>10,}"
    yield f"{'findings without a decision':<28}{len(outcome.lost):>10,}   of {outcome.due:,} that need one"
    yield (
        f"{'state of decide, MB':<28}{outcome.states_of_decide[-1].size / 1e6:>10.1f}   "
        + ", ".join(f"{one.size / 1e6:.1f} with {one.findings:,} findings of a day" for one in _quarters(outcome))
    )
    for page in outcome.unpaged:
        yield f"NO  page of: {page}"
    found = problems(outcome)
    for text in found:
        yield f"NO  {text}"
    if not found:
        yield "yes pages, ids, findings and memory are within their limits"


def _quarters(outcome: FindingsOutcome) -> list[StateSize]:
    """Return the sizes at the end of each quarter."""
    sizes = outcome.states_of_decide
    return [sizes[max(0, len(sizes) * quarter // 4 - 1)] for quarter in (1, 2, 3, 4)]
