"""Compares the confidence of findings with how many of them are true, over the trials of the detection benchmark."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from lab.bench.detection.outcome import Outcome
from lab.world.ground_truth import InjectedFault
from streams.wire.models import Finding, Status

_SIZE, _EDGE = 420, 50


class Share(NamedTuple):
    """Findings of one condition and confidence, and how many of them are true."""

    slug: str
    confidence: float
    findings: int
    true: int


def shares_of(outcome: Outcome) -> list[Share]:
    """Return the last revisions of a trial by condition and confidence.

    Left out are children, whose parent is the finding, and what was retracted or is shadowed; and the visible effects
    of faults that the sources cannot show.
    """
    counts: dict[tuple[str, float], list[int]] = defaultdict(lambda: [0, 0])
    for finding in outcome.findings.values():
        if finding.status is Status.RETRACTED or finding.shadow or finding.parent_id or finding.confidence is None:
            continue
        is_true = _is_true(finding, outcome.injections)
        if not is_true and outcome.is_effect_of_hidden(finding):
            continue
        count = counts[finding.condition.slug, round(finding.confidence, 2)]
        count[0] += 1
        count[1] += is_true
    return [Share(slug, confidence, *count) for (slug, confidence), count in sorted(counts.items())]


def _is_true(finding: Finding, injections: Iterable[InjectedFault]) -> bool:
    places = {(end.device, end.port) for end in (finding.subject.a, finding.subject.z) if end is not None}
    places |= {(finding.subject.pod, "")} if finding.subject.is_pod else set()
    start_ns = finding.started_at_ns
    return any(
        truth.condition is finding.condition
        and (truth.device, truth.port) in places
        and truth.start_ns - truth.tolerance_ns <= start_ns
        and start_ns <= truth.end_ns + truth.tolerance_ns
        for injection in injections
        for truth in injection.truths
    )


def summed(results: Iterable[Mapping[str, Any]]) -> list[Share]:
    """Return the sum over the results of trials (`--json`), by condition and confidence."""
    counts: dict[tuple[str, float], list[int]] = defaultdict(lambda: [0, 0])
    for result in results:
        for slug, confidence, findings, true in result["confidence"]:
            count = counts[slug, confidence]
            count[0] += findings
            count[1] += true
    return [Share(slug, confidence, *count) for (slug, confidence), count in sorted(counts.items())]


def by_confidence(shares: Iterable[Share]) -> list[Share]:
    """Return the sum over all conditions."""
    counts: dict[float, list[int]] = defaultdict(lambda: [0, 0])
    for share in shares:
        counts[share.confidence][0] += share.findings
        counts[share.confidence][1] += share.true
    return [Share("all", confidence, *count) for confidence, count in sorted(counts.items())]


def table(shares: Sequence[Share]) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    yield "| condition | confidence | findings | true | share |"
    yield "|---|---|---|---|---|"
    for share in (*by_confidence(shares), *shares):
        name = share.slug if share.slug == "all" else f"`{share.slug}`"
        yield (
            f"| {name} | {share.confidence:.2f} | {share.findings} | {share.true} | {share.true / share.findings:.2f} |"
        )


def plot(shares: Sequence[Share]) -> str:
    """Return an SVG: confidence against the share of true findings; the area of a point follows their number."""
    scale = _SIZE - 2 * _EDGE

    def at(x: float, y: float) -> tuple[float, float]:
        return _EDGE + x * scale, _SIZE - _EDGE - y * scale

    (x0, y0), (x1, y1) = at(0, 0), at(1, 1)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_SIZE} {_SIZE}" font-family="sans-serif"'
        ' font-size="12">',
        f'<rect width="{_SIZE}" height="{_SIZE}" fill="white"/>',
        f'<path d="M{x0} {y1}V{y0}H{x1}" fill="none" stroke="black"/>',
        f'<path d="M{x0} {y0}L{x1} {y1}" stroke="gray" stroke-dasharray="4"/>',
    ]
    for tenth in range(0, 11, 2):
        x, y = at(tenth / 10, tenth / 10)
        lines.append(f'<text x="{x:.0f}" y="{y0 + 18:.0f}" text-anchor="middle">{tenth / 10:g}</text>')
        lines.append(f'<text x="{x0 - 8:.0f}" y="{y + 4:.0f}" text-anchor="end">{tenth / 10:g}</text>')
    for share in by_confidence(shares):
        x, y = at(share.confidence, share.true / share.findings)
        radius = 2 + share.findings**0.5 / 2
        lines.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="steelblue" fill-opacity="0.6"/>')
        lines.append(f'<text x="{x - radius - 4:.1f}" y="{y + 16:.1f}" text-anchor="end">{share.findings}</text>')
    lines.append(f'<text x="{_SIZE / 2:.0f}" y="{_SIZE - 10}" text-anchor="middle">confidence</text>')
    lines.append(f'<text x="14" y="{_SIZE / 2:.0f}" transform="rotate(-90 14 {_SIZE / 2:.0f})" text-anchor="middle">')
    lines.append("share of true findings</text></svg>")
    return "\n".join(lines) + "\n"
