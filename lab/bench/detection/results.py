"""Aggregates results of `railsight bench detection --json`: faults by fabric, and confidence against truth."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from lab.bench.detection.fabrics import FABRICS
from lab.bench.detection.outcome import Outcome
from lab.world.faults import FAULT_OF
from lab.world.ground_truth import InjectedFault
from streams.detect.evidence.subjects import subject_ends
from streams.wire.errors import Misconfigured
from streams.wire.models import Finding, Status

Result = Mapping[str, Any]


def read_results(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Return the results in these files; raise Misconfigured with the name of a file without one."""
    results = []
    for path in paths:
        try:
            result = orjson.loads(path.read_bytes())
            result["confidence"], result["fabric"]
        except (OSError, orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise Misconfigured(
                f"{path}: no result of `railsight bench detection --json` ({type(error).__name__}: {error})"
            ) from error
        results.append(result)
    return results


def found_table(results: Sequence[Result]) -> Iterator[str]:
    """Yield a Markdown table of found and injected faults, and of false findings, by condition and fabric.

    The faults and shut ports that the sources of the fabric cannot show are in parentheses.
    """
    names = [name for name in FABRICS if any(result["fabric"] == name for result in results)]
    by_fabric = {name: [result for result in results if result["fabric"] == name] for name in names}
    seeds = (", ".join(str(result["seed"]) for result in own) for own in by_fabric.values())
    yield "| condition | " + " | ".join(f"`{name}`" for name in names) + " |"
    yield "|---" * (len(names) + 1) + "|"
    yield "| seeds | " + " | ".join(seeds) + " |"
    for slug in FAULT_OF:
        yield f"| `{slug}` | " + " | ".join(_cell(own, slug) for own in by_fabric.values()) + " |"
    yield "| pages, of these false | " + " | ".join(_pages(own) for own in by_fabric.values()) + " |"


def effects_line(results: Sequence[Result]) -> str:
    """Return the numbers of findings near hidden faults and shut ports that were not counted as false.

    Results without this number, from earlier versions, are left out.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for result in results:
        for slug, count in result.get("effects_of_hidden", {}).items():
            counts[result["fabric"], slug] += count
    found = (f"`{fabric}` {count} `{slug}`" for (fabric, slug), count in sorted(counts.items()))
    return "Beside faults that the sources do not show, and not counted as false: " + (", ".join(found) or "none") + "."


def reasons_table(results: Sequence[Result]) -> Iterator[str]:
    """Yield a Markdown table of the reasons why a fabric's sources cannot show a fault, with counts, by condition."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for result in results:
        for slug, reason, count in result["hidden"]:
            counts[result["fabric"], slug, reason] += count
    yield "| fabric | condition | why its sources cannot show it | faults |"
    yield "|---|---|---|---|"
    for (fabric, slug, reason), count in sorted(counts.items()):
        yield f"| `{fabric}` | `{slug}` | {reason} | {count} |"


def _cell(results: Iterable[Result], slug: str) -> str:
    found = injected = false = hidden = 0
    for result in results:
        row = result["conditions"].get(slug, {"found": 0, "injected": 0, "invented": 0})
        found, injected, false = found + row["found"], injected + row["injected"], false + row["invented"]
        hidden += sum(count for own, _, count in result["hidden"] if own == slug)
    shown = f"{found} of {injected}, {false}" if injected or false else "–"
    return f"{shown} ({hidden})" if hidden else shown


def _pages(results: Sequence[Result]) -> str:
    shut = sum(len(result.get("shut_pages", ())) for result in results)
    shown = f"{sum(result['pages'] for result in results)}, {sum(len(result['false_pages']) for result in results)}"
    return f"{shown} ({shut} of shut ports)" if shut else shown


_SIZE, _EDGE = 420, 50


class Share(NamedTuple):
    """The number of findings of one condition and confidence, and of the true ones among them."""

    slug: str
    confidence: float
    findings: int
    true: int


def shares_of(outcome: Outcome) -> list[Share]:
    """Return the last revisions of a trial by condition and confidence.

    Left out are children (their parent is the finding), retracted and shadowed findings, and the visible effects of
    faults that the sources cannot show.
    """
    shares = []
    for finding in outcome.findings.values():
        if finding.status is Status.RETRACTED or finding.shadow or finding.parent_id or finding.confidence is None:
            continue
        is_true = _is_true(finding, outcome.injections)
        if not is_true and outcome.is_effect_of_hidden(finding):
            continue
        shares.append(Share(finding.condition.slug, round(finding.confidence, 2), 1, int(is_true)))
    return _added(shares)


def _is_true(finding: Finding, injections: Iterable[InjectedFault]) -> bool:
    places = {(end.device, end.port) for end in subject_ends(finding.subject)}
    places |= {(finding.subject.pod, "")} if finding.subject.is_pod else set()
    return any(
        truth.condition is finding.condition
        and (truth.device, truth.port) in places
        and truth.is_during(finding.started_at_ns)
        for injection in injections
        for truth in injection.truths
    )


def summed(results: Iterable[Mapping[str, Any]]) -> list[Share]:
    """Return the sum over the results of trials (`--json`), by condition and confidence."""
    return _added(Share(*share) for result in results for share in result["confidence"])


def by_confidence(shares: Iterable[Share]) -> list[Share]:
    """Return the sum over all conditions."""
    return _added(share._replace(slug="all") for share in shares)


def _added(shares: Iterable[Share]) -> list[Share]:
    """Return one share for each condition and confidence."""
    counts: dict[tuple[str, float], list[int]] = defaultdict(lambda: [0, 0])
    for share in shares:
        count = counts[share.slug, share.confidence]
        count[0] += share.findings
        count[1] += share.true
    return [Share(slug, confidence, *count) for (slug, confidence), count in sorted(counts.items())]


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
    """Return an SVG that plots confidence against the share of true findings; a point's area shows their number."""
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
