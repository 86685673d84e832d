"""The verdict on a job's network as people read it: the answer, what hurt it, what was seen, and what was not."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from streams.instrument.time_format import format_duration, format_time
from streams.report.job.coverage import PortCoverage
from streams.report.job.impact import Impact
from streams.report.job.intervals import Interval
from streams.report.job.verdict import Verdict
from streams.wire.models import Severity

_MOST_LINES = 20
"""Of ports that were not wholly seen; `--json` has all."""


def verdict_lines(verdict: Verdict) -> Iterator[str]:
    """All of it."""
    place = verdict.footprint
    begin, end = place.window
    window = f"{format_time(begin)} to {format_time(end)} ({format_duration(end - begin)})"
    yield f"job {place.job}: {len(place.allocations)} hosts, {window}"
    yield _answer(verdict)
    yield ""
    yield "what hurt it" if verdict.impacts else "what hurt it: nothing that is known"
    for harm in verdict.impacts:
        yield from _harm(harm, "  ")
    yield ""
    yield from _seen(verdict)
    yield from _unseen(verdict)


def _answer(verdict: Verdict) -> str:
    if not verdict.is_clean:
        count = sum(harm.is_significant for harm in verdict.impacts)
        return f"NOT CLEAN: {count} thing{'s' if count > 1 else ''} hurt it"
    if not verdict.is_covered:
        blind = sum(not port.share for port in verdict.coverage.ports)
        never = f", {blind} of its {len(verdict.coverage.ports)} ports never" if blind else ""
        return f"NOT KNOWN: only {_percent(verdict.coverage.share)} of it was seen{never}"
    return f"CLEAN, as far as {_percent(verdict.coverage.share)} of its time tell"


def _harm(harm: Impact, indent: str) -> Iterator[str]:
    finding = harm.finding
    stood = f"{format_time(finding.started_at_ns)}, for {format_duration(harm.overlap_ns)}"
    end = "" if finding.resolved_at_ns is not None else ", open still"
    yield f"{indent}{finding.severity.name}  {finding.condition.slug}  {finding.summary}  [{finding.id[:12]}]"
    yield f"{indent}  {stood}{end}; {_where(harm)}"
    radius = finding.blast_radius
    if finding.condition.slug.startswith("congestion/"):
        # Who did it to whom: the one thing that is asked of congestion.
        yield f"{indent}  cause {finding.cause.label or 'unknown'}; jobs {', '.join(radius.jobs) if radius else ''}"
        yield from (f"{indent}  {evidence.statement}" for evidence in finding.evidence)
    elif radius is not None and radius.capacity_lost_ratio:
        yield f"{indent}  {radius.capacity_lost_ratio:.1%} of their capacity lost"
    own = [child for child in harm.children if child.finding.severity > Severity.INFO]
    if own:
        yield f"{indent}  explains"
    for child in own:
        yield from _harm(child, f"{indent}    ")


def _where(harm: Impact) -> str:
    if not harm.hosts:
        return "on its paths"
    more = f" and {len(harm.hosts) - 4} more" if len(harm.hosts) > 4 else ""
    return f"{len(harm.hosts)} of its hosts: {', '.join(harm.hosts[:4])}{more}"


def _seen(verdict: Verdict) -> Iterator[str]:
    ports = verdict.coverage.ports
    yield f"what was seen: {_percent(verdict.coverage.share)} of the time of {len(ports)} ports"
    by: dict[tuple[str, bool], list[float]] = defaultdict(list)
    for port in ports:
        for one in port.sources:
            by[one.source, one.device == port.link.lower].append(one.share)
    for (source, own), shares in sorted(by.items(), key=lambda item: -sum(item[1])):
        end = "at the host" if own else "at the switch"
        yield f"  {source} {end}: {len(shares)} ports, {_percent(sum(shares) / len(shares))} of their time"


def _unseen(verdict: Verdict) -> Iterator[str]:
    lacking = [port for port in verdict.coverage.ports if port.gaps]
    if not lacking and not verdict.stale:
        yield "what was not: nothing"
        return
    yield "what was not"
    groups: dict[tuple[str, tuple[Interval, ...]], list[PortCoverage]] = defaultdict(list)
    for port in lacking:
        groups[port.link.lower, port.gaps].append(port)
    ordered = sorted(groups.items(), key=lambda item: min(port.share for port in item[1]))
    for (host, gaps), ports in ordered[:_MOST_LINES]:
        names = ", ".join(_port(port) for port in ports)
        yield f"  {host} {names}: {_percent(ports[0].share)} seen; nobody read it {_gaps(gaps)}"
    if len(ordered) > _MOST_LINES:
        yield f"  and {len(ordered) - _MOST_LINES} more (--json has all)"
    yield from (f"  {format_time(f.started_at_ns)}  {f.summary}  [{f.id[:12]}]" for f in verdict.stale)


def _port(port: PortCoverage) -> str:
    rail = "" if port.link.rail is None else f" (rail {port.link.rail})"
    return f"{port.link.lower_port}{rail}"


def _gaps(gaps: Iterable[Interval]) -> str:
    said = [f"{format_time(begin)} for {format_duration(end - begin)}" for begin, end in gaps]
    return ", ".join(said[:3]) + (f" and {len(said) - 3} times more" if len(said) > 3 else "")


def _percent(share: float) -> str:
    """Never rounded up to all of it."""
    return "100 %" if share >= 1 else f"{min(share, 0.9999):.2%}".replace("%", " %")
