"""Renders the verdict on a job's network as text: the conclusion, the impact, the coverage and its gaps."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from streams.detect.detector import JobDomain
from streams.detect.fabric_side import PLANES
from streams.fabric.intervals import Interval
from streams.instrument.text import format_duration, format_time, in_words
from streams.report.job.footprint import PortCoverage
from streams.report.job.impact import Impact
from streams.report.job.summary import summary_lines
from streams.report.job.verdict import Conclusion, Verdict
from streams.report.job.witness import CollectiveReport
from streams.wire.models import Severity

_MAX_LINES = 20
"""The limit of lines of ports with gaps, and of reports of NCCL; `--json` has all."""
_MAX_HOSTS = 4
_MAX_GAPS = 3


def verdict_lines(verdict: Verdict) -> Iterator[str]:
    """Yield the whole verdict."""
    footprint = verdict.footprint
    begin, end = footprint.window
    window = f"{format_time(begin)} to {format_time(end)} ({format_duration(end - begin)})"
    yield f"job {footprint.job}: {len(footprint.allocations)} hosts, {window}"
    if verdict.summary is not None:
        yield from summary_lines(verdict.summary, end)
    yield _answer(verdict)
    yield ""
    own = [impact for impact in verdict.impacts if impact.domain is not JobDomain.HOST]
    yield "impact" if own else "impact: none known"
    for impact in own:
        yield from _impact_lines(impact, "  ")
    if len(own) < len(verdict.impacts):
        yield "hosts"
    for impact in verdict.impacts:
        if impact.domain is JobDomain.HOST:
            yield from _impact_lines(impact, "  ")
    yield from _witness_lines(verdict)
    yield from collective_lines(verdict.collectives, _MAX_LINES)
    yield from _bandwidth_lines(verdict)
    yield ""
    yield from _coverage_lines(verdict)
    yield from _gap_lines(verdict)


def _answer(verdict: Verdict) -> str:
    hosts = len(verdict.significant(JobDomain.HOST))
    about_hosts = f"{_findings(hosts)} about its hosts"
    observed = _percent(verdict.coverage.share)
    match verdict.conclusion:
        case Conclusion.NETWORK:
            answer = f"NOT CLEAN (network): {_findings(len(verdict.significant(JobDomain.NETWORK)))} affected it"
        case Conclusion.UNKNOWN:
            ports = verdict.coverage.ports
            unread = sum(not port.share for port in ports)
            never = f", {unread} of its {len(ports)} ports never" if unread else ""
            answer = f"NOT KNOWN: only {observed} of it was observed{never}"
            if verdict.is_covered:
                return f"NOT KNOWN: no finding explains {_unexplained(verdict)}"
        case Conclusion.HOST:
            return f"HOST: {about_hosts}; its network was clean, as far as observed: {observed} of its time"
        case Conclusion.CLEAN:
            return f"CLEAN, as far as observed: {observed} of its time"
    return f"{answer}; {about_hosts}" if hosts else answer


def _unexplained(verdict: Verdict) -> str:
    errors, slow = len(verdict.unexplained), len(verdict.slow_collectives)
    texts = [f"transport errors of NCCL ({errors})"] if errors else []
    return " and ".join([*texts, f"slow or wrong results of nccl-tests ({slow})"] if slow else texts)


def _findings(count: int) -> str:
    return f"{count} finding{'s' if count > 1 else ''}"


def _impact_lines(impact: Impact, indent: str) -> Iterator[str]:
    finding = impact.finding
    when = f"{format_time(finding.started_at_ns)}, for {format_duration(impact.overlap_ns)}"
    still_open = "" if finding.resolved_at_ns is not None else ", still open"
    yield f"{indent}{finding.severity.name}  {finding.condition.slug}  {finding.summary}  [{finding.id[:12]}]"
    yield f"{indent}  {when}{still_open}; {_affected_hosts(impact)}"
    radius = finding.blast_radius
    if finding.condition.is_congestion:
        # For congestion, the origin of the traffic is relevant.
        cause = in_words(finding.cause.label) or "unknown"
        yield f"{indent}  cause {cause}; jobs {', '.join(radius.jobs) if radius else ''}"
        yield from (f"{indent}  {evidence.statement}" for evidence in finding.evidence)
    elif radius is not None and radius.capacity_lost_ratio:
        yield f"{indent}  {radius.capacity_lost_ratio:.1%} of their capacity lost"
        yield from (f"{indent}  {one.statement}" for one in finding.evidence if one.metric == PLANES)
    children = [child for child in impact.children if child.finding.severity > Severity.INFO]
    if children:
        yield f"{indent}  explains"
    for child in children:
        yield from _impact_lines(child, f"{indent}    ")


def _witness_lines(verdict: Verdict) -> Iterator[str]:
    if verdict.witness_reports:
        yield "nccl"
    for one in verdict.witness_reports[:_MAX_LINES]:
        rail = f" (rail {one.rail})" if one.rail is not None else ""
        yield f"  {format_time(one.at_ns)}  {one.host}{' ' if one.port else ''}{one.port}{rail}: {one.detail}"
    if (more := len(verdict.witness_reports) - _MAX_LINES) > 0:
        yield f"  and {more} more (--json has all)"


def _bandwidth_lines(verdict: Verdict) -> Iterator[str]:
    if verdict.rails:
        yield "delivered of the nominal bandwidth"
    for one in verdict.rails[:_MAX_LINES]:
        yield (
            f"  rail {one.rail}: {one.delivered_ratio:.0%} of {one.nominal_bps / 1e9:g} Gb/s,"
            f" mean of {one.ports} ports; least {one.slowest_host}, {one.slowest_ratio:.0%}"
        )
    if (more := len(verdict.rails) - _MAX_LINES) > 0:
        yield f"  and {more} more (--json has all)"


def _affected_hosts(impact: Impact) -> str:
    hosts = impact.hosts
    if not hosts:
        return "on its paths"
    others = f" and {len(hosts) - _MAX_HOSTS} more" if len(hosts) > _MAX_HOSTS else ""
    return f"{len(hosts)} of its hosts: {', '.join(hosts[:_MAX_HOSTS])}{others}"


def _coverage_lines(verdict: Verdict) -> Iterator[str]:
    ports = verdict.coverage.ports
    yield f"coverage: {_percent(verdict.coverage.share)} of the time of {len(ports)} ports"
    by_source: dict[tuple[str, bool], list[float]] = defaultdict(list)
    for port in ports:
        for one in port.sources:
            by_source[one.source, one.device == port.link.lower].append(one.share)
    for (source, is_host), shares in sorted(by_source.items(), key=lambda item: -sum(item[1])):
        end = "at the host" if is_host else "at the switch"
        yield f"  {source} {end}: {len(shares)} ports, {_percent(sum(shares) / len(shares))} of their time"


def _gap_lines(verdict: Verdict) -> Iterator[str]:
    with_gaps = [port for port in verdict.coverage.ports if port.gaps]
    if not with_gaps and not verdict.stale:
        yield "gaps: none"
        return
    yield "gaps"
    groups: dict[tuple[str, tuple[Interval, ...]], list[PortCoverage]] = defaultdict(list)
    for port in with_gaps:
        groups[port.link.lower, port.gaps].append(port)
    ordered = sorted(groups.items(), key=lambda item: min(port.share for port in item[1]))
    for (host, gaps), ports in ordered[:_MAX_LINES]:
        names = ", ".join(_port_name(port) for port in ports)
        yield f"  {host} {names}: {_percent(ports[0].share)} observed; no reading {_gap_times(gaps)}"
    if len(ordered) > _MAX_LINES:
        yield f"  and {len(ordered) - _MAX_LINES} more (--json has all)"
    yield from (f"  {format_time(f.started_at_ns)}  {f.summary}  [{f.id[:12]}]" for f in verdict.stale)


def _port_name(port: PortCoverage) -> str:
    rail = "" if port.link.rail is None else f" (rail {port.link.rail})"
    return f"{port.link.lower_port}{rail}"


def _gap_times(gaps: Iterable[Interval]) -> str:
    times = [f"{format_time(begin)} for {format_duration(end - begin)}" for begin, end in gaps]
    others = f" and {len(times) - _MAX_GAPS} more" if len(times) > _MAX_GAPS else ""
    return ", ".join(times[:_MAX_GAPS]) + others


def _percent(share: float) -> str:
    """Return a share as a percentage, which is 100 only for a share of 1."""
    return "100 %" if share >= 1 else f"{min(share, 0.9999):.2%}".replace("%", " %")


_MAX_SIZES = 3
"""The limit of printed sizes of one benchmark that are far below their peers; `--json` has all."""


def collective_lines(reports: Sequence[CollectiveReport], limit: int) -> Iterator[str]:
    """Yield at most `limit` benchmarks, slow or wrong ones first."""
    if reports:
        yield "nccl-tests"
    for one in sorted(reports, key=lambda one: (not one.is_witness, one.at_ns))[:limit]:
        rails = f", rails {', '.join(map(str, one.rails))}" if one.rails else ""
        yield f"  {format_time(one.at_ns)}  {len(one.hosts)} hosts, {one.ranks} ranks{rails}; {_best(one)}"
        if one.wrong:
            yield f"    WRONG RESULTS: {one.wrong} elements"
        for slow in one.slow[:_MAX_SIZES]:
            share = slow.bus_bytes_per_s / slow.peer_bytes_per_s
            yield (
                f"    far below its peers: {slow.row} {_gbps(slow.bus_bytes_per_s)}, {share:.0%} of "
                f"{_gbps(slow.peer_bytes_per_s)} (median of {slow.peers})"
            )
        if (more := len(one.slow) - _MAX_SIZES) > 0:
            yield f"    and {more} more sizes (--json has all)"
    if (more := len(reports) - limit) > 0:
        yield f"  and {more} more (--json has all)"


def _best(one: CollectiveReport) -> str:
    best = one.best
    return "no bandwidth" if best is None else f"highest {best.row} {_gbps(best.bus_bytes_per_s or 0.0)}"


def _gbps(value: float) -> str:
    """Return a bandwidth in GB/s, the unit of nccl-tests."""
    return f"{value / 1e9:.2f} GB/s"
