"""The verdict on a job's network as people read it: the answer, what hurt it, what was seen, and what was not."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from streams.cli import shown
from streams.report.job.harm import Harm
from streams.report.job.seen import PortSeen
from streams.report.job.spans import Span
from streams.report.job.verdict import Verdict
from streams.wire.models import Severity

_MOST_LINES = 20
"""Of ports that were not wholly seen; `--json` has all."""


def lines(verdict: Verdict) -> Iterator[str]:
    """All of it."""
    place = verdict.place
    span = f"{shown.at(place.span[0])} to {shown.at(place.span[1])}"
    yield f"job {place.job}: {len(place.stays)} hosts, {span} ({shown.lasting(place.span[1] - place.span[0])})"
    yield _answer(verdict)
    yield ""
    yield "what hurt it" if verdict.harms else "what hurt it: nothing that is known"
    for harm in verdict.harms:
        yield from _harm(harm, "  ")
    yield ""
    yield from _seen(verdict)
    yield from _unseen(verdict)


def _answer(verdict: Verdict) -> str:
    if not verdict.clean:
        count = sum(harm.counts for harm in verdict.harms)
        return f"NOT CLEAN: {count} thing{'s' if count > 1 else ''} hurt it"
    if not verdict.enough_seen:
        blind = sum(not port.share for port in verdict.seen.ports)
        never = f", {blind} of its {len(verdict.seen.ports)} ports never" if blind else ""
        return f"NOT KNOWN: only {_percent(verdict.seen.share)} of it was seen{never}"
    return f"CLEAN, as far as {_percent(verdict.seen.share)} of its time tell"


def _harm(harm: Harm, indent: str) -> Iterator[str]:
    finding = harm.finding
    stood = f"{shown.at(finding.started_at_ns)}, for {shown.lasting(harm.lasted_ns)}"
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


def _where(harm: Harm) -> str:
    if not harm.hosts:
        return "on its paths"
    more = f" and {len(harm.hosts) - 4} more" if len(harm.hosts) > 4 else ""
    return f"{len(harm.hosts)} of its hosts: {', '.join(harm.hosts[:4])}{more}"


def _seen(verdict: Verdict) -> Iterator[str]:
    ports = verdict.seen.ports
    yield f"what was seen: {_percent(verdict.seen.share)} of the time of {len(ports)} ports"
    by: dict[tuple[str, bool], list[float]] = defaultdict(list)
    for port in ports:
        for one in port.by:
            by[one.source, one.at == port.cable.lower].append(one.share)
    for (source, own), shares in sorted(by.items(), key=lambda item: -sum(item[1])):
        end = "at the host" if own else "at the switch"
        yield f"  {source} {end}: {len(shares)} ports, {_percent(sum(shares) / len(shares))} of their time"


def _unseen(verdict: Verdict) -> Iterator[str]:
    lacking = [port for port in verdict.seen.ports if port.gaps]
    if not lacking and not verdict.stale:
        yield "what was not: nothing"
        return
    yield "what was not"
    groups: dict[tuple[str, tuple[Span, ...]], list[PortSeen]] = defaultdict(list)
    for port in lacking:
        groups[port.cable.lower, port.gaps].append(port)
    ordered = sorted(groups.items(), key=lambda item: min(port.share for port in item[1]))
    for (host, gaps), ports in ordered[:_MOST_LINES]:
        names = ", ".join(_port(port) for port in ports)
        yield f"  {host} {names}: {_percent(ports[0].share)} seen; nobody read it {_gaps(gaps)}"
    if len(ordered) > _MOST_LINES:
        yield f"  and {len(ordered) - _MOST_LINES} more (--json has all)"
    yield from (f"  {shown.at(f.started_at_ns)}  {f.summary}  [{f.id[:12]}]" for f in verdict.stale)


def _port(port: PortSeen) -> str:
    rail = "" if port.cable.rail is None else f" (rail {port.cable.rail})"
    return f"{port.cable.lower_port}{rail}"


def _gaps(gaps: Iterable[Span]) -> str:
    said = [f"{shown.at(begin)} for {shown.lasting(end - begin)}" for begin, end in gaps]
    return ", ".join(said[:3]) + (f" and {len(said) - 3} times more" if len(said) > 3 else "")


def _percent(share: float) -> str:
    """Never rounded up to all of it."""
    return "100 %" if share >= 1 else f"{min(share, 0.9999):.2%}".replace("%", " %")
