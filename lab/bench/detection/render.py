"""Renders the outcome of a trial as JSON and as text, and checks it against the promises."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from lab.bench.detection.fabrics import FABRICS
from lab.bench.detection.outcome import Outcome
from lab.bench.detection.results import shares_of
from lab.world.faults import FAULT_OF
from streams.replay.score import as_dict as score_as_dict
from streams.wire.models import Condition

MIN_RATIO = 0.98
"""The minimum recall and precision of each condition."""
MAX_FALSE_PAGES_IN_30_DAYS = 1


def as_dict(outcome: Outcome) -> dict[str, Any]:
    """Return the outcome as JSON values; times in seconds."""
    spec, score = outcome.spec, outcome.score
    scored = score_as_dict(score)
    return {
        "gpus": spec.gpus,
        "seed": spec.seed,
        "cadence_s": spec.cadence.switch_s,
        "nic_cadence_s": spec.cadence.nic_s,
        "each": spec.each,
        "days": spec.days,
        "fabric": spec.fabric,
        "hidden": [[condition.slug, reason, count] for (condition, reason), count in sorted(outcome.hidden.items())],
        "effects_of_hidden": {condition.slug: count for condition, count in sorted(outcome.effects.items())},
        "hours": outcome.hours,
        "counts": dict(outcome.counts),
        "negative_cases": dict(outcome.negative_cases),
        "conditions": {condition.slug: _row(outcome, condition) for condition in score.conditions()},
        "senders_elsewhere": outcome.senders._asdict(),
        "confidence": [list(share) for share in shares_of(outcome)],
        "repeated": scored["repeated"],
        "missed": scored["missed"],
        "invented": scored["invented"],
        "retracted_pages": len(score.false_pages),
        "pages": len(outcome.pages),
        "shut_pages": [_page(outcome, finding_id) for finding_id in outcome.shut_pages],
        "false_pages": [_page(outcome, finding_id) for finding_id in outcome.false_pages],
        "muted_pages": [_page(outcome, finding_id) for finding_id in outcome.muted_pages],
        "fine": is_passed(outcome),
    }


def is_passed(outcome: Outcome) -> bool:
    """Return True if recall, precision and delays meet their goals; over days, if all pages are true."""
    if outcome.spec.days:
        allowed = max(MAX_FALSE_PAGES_IN_30_DAYS, MAX_FALSE_PAGES_IN_30_DAYS * outcome.spec.days / 30)
        return len(outcome.false_pages) <= allowed
    return not _short_of_goals(outcome)


def _short_of_goals(outcome: Outcome) -> list[str]:
    """Return the conditions that miss their goals; delays are promised for some fabrics only."""
    with_delays = FABRICS[outcome.spec.fabric].promises_delays
    rows = {condition.slug: _row(outcome, condition) for condition in outcome.score.conditions()}
    short = [slug for slug, row in rows.items() if not _meets_goals(row, with_delays=with_delays)]
    short += sorted({f"{one.condition.slug}, published repeatedly" for one in outcome.score.repeated})
    senders = outcome.senders
    if with_delays and senders.named < MIN_RATIO * senders.caused:
        short.append("senders of congestion/incast in other pods")
    if outcome.muted_pages:
        short.append("muted pages")
    return short


def _meets_goals(row: dict[str, Any], *, with_delays: bool) -> bool:
    goal_s, p95_s = row["goal_s"], row["detectable_p95_s"]
    is_in_time = not with_delays or goal_s is None or p95_s is None or p95_s <= goal_s
    return row["recall"] >= MIN_RATIO and row["precision"] >= MIN_RATIO and is_in_time


def _row(outcome: Outcome, condition: Condition) -> dict[str, Any]:
    scored = outcome.score.for_condition(condition)
    from_start = [match.delay_s for match in scored.found]
    from_detectable, published = outcome.delays_s(condition), outcome.publication_delays_s(condition)
    fault = FAULT_OF.get(condition.slug)
    return {
        "injected": len(scored.found) + len(scored.missed),
        "found": len(scored.found),
        "invented": len(scored.invented),
        "recall": scored.recall,
        "precision": scored.precision,
        "start_median_s": _percentile(from_start, 50),
        "start_p95_s": _percentile(from_start, 95),
        "detectable_median_s": _percentile(from_detectable, 50),
        "detectable_p95_s": _percentile(from_detectable, 95),
        "published_median_s": _percentile(published, 50),
        "published_p95_s": _percentile(published, 95),
        "goal_s": fault.detection_goal_s if fault is not None else None,
    }


def _percentile(values: list[float], percent: float) -> float | None:
    return float(np.percentile(values, percent)) if values else None


def _page(outcome: Outcome, finding_id: str) -> str:
    finding = outcome.findings[finding_id]
    return f"{finding.condition.slug} {finding.subject.id}: {finding.summary}"


def lines(outcome: Outcome) -> Iterator[str]:
    """Yield the lines of the report."""
    values = as_dict(outcome)
    yield from _heading(outcome)
    for slug, row in values["conditions"].items():
        goal = "-" if row["goal_s"] is None else f"{row['goal_s']:g}s"
        yield (
            f"{slug:<22}{row['injected']:>9}{row['found']:>6}{row['invented']:>9}{row['recall']:>7.3f}"
            f"{row['precision']:>10.3f}{_s(row['start_median_s'], 9)}{_s(row['start_p95_s'], 9)}"
            f"{_s(row['detectable_median_s'], 11)}{_s(row['detectable_p95_s'], 11)}{goal:>7}"
            f"{_s(row['published_median_s'], 9)}{_s(row['published_p95_s'], 9)}"
        )
    for slug, reason, count in values["hidden"]:
        yield f"not shown by these sources: {count} of {slug}: {reason}"
    for slug, count in values["effects_of_hidden"].items():
        yield f"beside faults that these sources do not show, and not counted as false: {count} {slug}"
    if (senders := outcome.senders).caused:
        yield (
            f"senders of incasts in other pods: {senders.named} of {senders.caused} named, and {senders.others} other"
            " hosts"
        )
    for kind in ("missed", "invented"):
        yield from (f"{kind}: {name}" for name in values[kind])
    shut = (
        f", {len(outcome.shut_pages)} for a port that was shut where no source reads it" if outcome.shut_pages else ""
    )
    yield f"{values['pages']} pages, {len(outcome.false_pages)} false{shut}, {len(outcome.muted_pages)} muted or late"
    yield from (f"{kind} page: {page}" for kind in ("false", "muted") for page in values[f"{kind}_pages"])
    yield from (f"repeated: {name}" for name in values["repeated"])
    if values["fine"]:
        yield "all goals are met"
        return
    short = _short_of_goals(outcome)
    yield f"goals not met: {', '.join(short) if short and not outcome.spec.days else 'too many false pages'}"


def _heading(outcome: Outcome) -> Iterator[str]:
    counts, spec = outcome.counts, outcome.spec
    yield (
        f"{spec.gpus:,} GPUs, {FABRICS[spec.fabric].description}, seed {spec.seed}: {spec.description} in"
        f" {outcome.hours:.1f} simulated hours,"
        f" switches polled every {spec.cadence.switch_s:g} s, NICs every {spec.cadence.nic_s:g} s"
    )
    yield (
        f"{counts['messages']:,} messages, {counts['port_samples']:,} port-samples; {counts['late']:,} late,"
        f" {counts['duplicates']:,} duplicates; negative cases: "
        + ", ".join(f"{count} {name}" for name, count in sorted(outcome.negative_cases.items()))
    )
    yield (
        f"{'':<22}{'':>9}{'':>6}{'':>9}{'':>7}{'':>10}{'from its start':>18}{'once detectable':>22}{'':>7}"
        f"{'until published':>18}"
    )
    yield (
        f"{'condition':<22}{'injected':>9}{'found':>6}{'invented':>9}{'recall':>7}{'precision':>10}"
        f"{'median':>9}{'p95':>9}{'median':>11}{'p95':>11}{'goal':>7}{'median':>9}{'p95':>9}"
    )


def _s(value: float | None, width: int) -> str:
    return f"{'-':>{width}}" if value is None else f"{value:>{width - 1}.1f}s"
