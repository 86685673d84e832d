"""A trial as people and programs read it, and whether it holds what is promised."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from streams.bench.detection.trial import Outcome
from streams.replay.score_report import as_dict as scored
from streams.simulation.conditions import CONDITIONS
from streams.wire.models import Condition

RATIO = 0.98
"""Recall and precision of each condition, at least."""
VAIN_PAGES_IN_30_DAYS = 1


def as_dict(outcome: Outcome) -> dict[str, Any]:
    """As JSON would have it; times in seconds."""
    asked, score = outcome.spec, outcome.score
    return {
        "gpus": asked.gpus,
        "seed": asked.seed,
        "cadence_s": asked.cadence.switch_s,
        "nic_cadence_s": asked.cadence.nic_s,
        "each": asked.each,
        "days": asked.days,
        "hours": outcome.hours,
        "counted": dict(outcome.counts),
        "hard": dict(outcome.negative_cases),
        "conditions": {condition.slug: _row(outcome, condition) for condition in score.conditions()},
        "missed": scored(score)["missed"],
        "invented": scored(score)["invented"],
        "paged_in_vain": len(score.false_pages),
        "pages": len(outcome.pages),
        "pages_that_were_no_fault": [_page(outcome, identity) for identity in outcome.false_pages],
        "fine": fine(outcome),
    }


def fine(outcome: Outcome) -> bool:
    """Whether every condition is found and none invented often enough, in time; over days, whether pages are true."""
    if outcome.spec.days:
        allowed = max(VAIN_PAGES_IN_30_DAYS, VAIN_PAGES_IN_30_DAYS * outcome.spec.days / 30)
        return len(outcome.false_pages) <= allowed
    return all(_holds(_row(outcome, condition)) for condition in outcome.score.conditions())


def _holds(row: dict[str, Any]) -> bool:
    in_time = row["aim_s"] is None or row["known_p95_s"] is None or row["known_p95_s"] <= row["aim_s"]
    return row["recall"] >= RATIO and row["precision"] >= RATIO and in_time


def _row(outcome: Outcome, condition: Condition) -> dict[str, Any]:
    own = outcome.score.for_condition(condition)
    starts = [match.delay_s for match in own.found]
    known, said = outcome.delays_s(condition), outcome.publication_delays_s(condition)
    return {
        "injected": len(own.found) + len(own.missed),
        "found": len(own.found),
        "invented": len(own.invented),
        "recall": own.recall,
        "precision": own.precision,
        "start_median_s": _share(starts, 50),
        "start_p95_s": _share(starts, 95),
        "known_median_s": _share(known, 50),
        "known_p95_s": _share(known, 95),
        "said_median_s": _share(said, 50),
        "said_p95_s": _share(said, 95),
        "aim_s": CONDITIONS[condition][1] if condition in CONDITIONS else None,
    }


def _share(values: list[float], percent: float) -> float | None:
    return float(np.percentile(values, percent)) if values else None


def _page(outcome: Outcome, identity: str) -> str:
    finding = outcome.findings[identity]
    return f"{finding.condition.slug} {finding.subject.id}: {finding.summary}"


def lines(outcome: Outcome) -> Iterator[str]:
    """For people."""
    said = as_dict(outcome)
    counted, asked = outcome.counts, outcome.spec
    yield (
        f"{asked.gpus:,} GPUs, seed {asked.seed}: {asked.what} in {outcome.hours:.1f} simulated hours,"
        f" switches read each {asked.cadence.switch_s:g} s, NICs each {asked.cadence.nic_s:g} s"
    )
    yield (
        f"{counted['messages']:,} messages, {counted['port_samples']:,} port-samples; {counted['late']:,} late,"
        f" {counted['twice']:,} twice; no faults but like some: "
        + ", ".join(f"{count} {name}" for name, count in sorted(outcome.negative_cases.items()))
    )
    yield (
        f"{'':<20}{'':>9}{'':>6}{'':>9}{'':>7}{'':>10}{'from its start':>18}{'once it can be known':>22}{'':>7}"
        f"{'until it is said':>18}"
    )
    yield (
        f"{'condition':<20}{'injected':>9}{'found':>6}{'invented':>9}{'recall':>7}{'precision':>10}"
        f"{'median':>9}{'p95':>9}{'median':>11}{'p95':>11}{'aim':>7}{'median':>9}{'p95':>9}"
    )
    for slug, row in said["conditions"].items():
        aim = "-" if row["aim_s"] is None else f"{row['aim_s']:g}s"
        yield (
            f"{slug:<20}{row['injected']:>9}{row['found']:>6}{row['invented']:>9}{row['recall']:>7.3f}"
            f"{row['precision']:>10.3f}{_s(row['start_median_s'], 9)}{_s(row['start_p95_s'], 9)}"
            f"{_s(row['known_median_s'], 11)}{_s(row['known_p95_s'], 11)}{aim:>7}"
            f"{_s(row['said_median_s'], 9)}{_s(row['said_p95_s'], 9)}"
        )
    for kind in ("missed", "invented"):
        yield from (f"{kind}: {name}" for name in said[kind])
    yield f"{said['pages']} pages, {len(outcome.false_pages)} of them no fault"
    yield from (f"no fault: {page}" for page in said["pages_that_were_no_fault"])
    if said["fine"]:
        yield "all that is promised holds"
        return
    short = [slug for slug, row in said["conditions"].items() if not _holds(row)]
    yield f"not what is promised: {', '.join(short) if short and not asked.days else 'too many pages'}"


def _s(value: float | None, width: int) -> str:
    return f"{'-':>{width}}" if value is None else f"{value:>{width - 1}.1f}s"
