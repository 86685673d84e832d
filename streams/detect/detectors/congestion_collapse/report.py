"""The finding of congestion/collapse: the group that it shows most, its hosts and jobs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from streams.detect.detector import Context
from streams.detect.detectors.congestion_collapse.groups import Group, GroupKind, ThrottledLink
from streams.detect.detectors.congestion_collapse.params import CollapseParams
from streams.detect.evidence.episodes import Conclusion, finding_defaults
from streams.detect.evidence.link_history import FOREVER
from streams.detect.evidence.probe_delays import ProbeDelays
from streams.detect.thresholds import ns
from streams.fabric.intervals import Interval
from streams.wire.models import BlastRadius, Cause, Condition, Coverage, Evidence, Finding, Severity, Subject
from streams.wire.symptoms import SlowedByCnpBegan, ThrottledBegan, ThrottledByPauseBegan

SLUG = "congestion/collapse"
VERSION = "1"

_CONFIDENCE = 0.9
"""Each throttled port counts pause or notifications, and traffic, itself; no counter shows the common reason."""


def conclusion(
    params: CollapseParams,
    context: Context,
    subject: Subject,
    groups: Sequence[Group],
    span: Interval,
    free_ns: int,
    delays: Mapping[str, ProbeDelays],
) -> Conclusion:
    """Return the episode of a span in which groups of a pod collapsed; it is over at `free_ns`.

    `delays` are those of the probes of and to the rails, by link.
    """
    begin_ns, end_ns = span
    topology = context.topology
    part = [g._replace(throttled=[link for link in g.throttled if link.overlaps(span)]) for g in groups]
    part = [g for g in part if any(s[0] <= end_ns and begin_ns <= s[1] for s in g.spans(g.enough(params), 0))]
    widest = max(part, key=lambda g: (len(g.throttled_hosts) / g.hosts, g.hosts, g.name))
    links = {link.cable.id: link for g in part for link in g.throttled}
    hosts = tuple(sorted({link.host for link in links.values()}))
    tx_ratio = sum(link.run[0].began.tx_ratio for link in links.values()) / len(links)
    last_ns = end_ns if end_ns != FOREVER else max(spell.reported_ns for one in links.values() for spell in one.run)
    count = len(widest.throttled_hosts)
    rails = _rails(part)
    where = f"{len(rails)} rails" if len(rails) > 1 else widest.name
    throttling = _throttling(links.values())
    headline = f"{count} of {widest.hosts} hosts of {where} in {subject.pod} {throttling} and send {tx_ratio:.0%}"
    finding = Finding(
        **finding_defaults(context.settings, SLUG, VERSION),
        condition=Condition.CONGESTION_COLLAPSE,
        severity=Severity.CRITICAL,
        subject=subject,
        started_at_ns=begin_ns,
        observed_at_ns=last_ns,
        resolved_at_ns=end_ns if free_ns <= context.watermark_ns else None,
        detected_at_ns=_detected_ns(params, widest),
        summary=f"{headline} of what they sent before",
        cause=_cause(links.values()),
        evidence=(
            *_evidence(params, part, tx_ratio, (begin_ns, last_ns)),
            *_delay_evidence(params, span, links, delays),
        ),
        confidence=_CONFIDENCE,
        coverage=Coverage(seen=count, expected=widest.hosts),
        blast_radius=BlastRadius(
            hosts=hosts,
            jobs=topology.jobs_on(hosts, begin_ns),
            gpus=sum(topology.devices[host].gpus for host in hosts if host in topology.devices),
        ),
    )
    final_at = None if free_ns == FOREVER else free_ns + ns(context.settings.lateness_s)
    return Conclusion(begin_ns, min(end_ns, FOREVER - 1), finding, str(begin_ns), final_at)


def _detected_ns(params: CollapseParams, group: Group) -> int:
    """Return when enough of a group's hosts had been reported."""
    by_host = (min(link.reported_ns for link in group.throttled if link.host == host) for host in group.throttled_hosts)
    reported = sorted(by_host)
    return reported[min(group.enough(params), len(reported)) - 1]


def _throttling(links: Iterable[ThrottledLink]) -> str:
    """Return how the hosts are throttled: by pause where any is, else by congestion notifications, else by loss."""
    ways = _ways(links)
    if ThrottledByPauseBegan in ways:
        return "are paused"
    return "are throttled by congestion notifications" if SlowedByCnpBegan in ways else "repeat lost packets"


def _cause(links: Iterable[ThrottledLink]) -> Cause:
    """Return congestion where flow or congestion control shows it; a bad link may lose packets as well."""
    return Cause.CONGESTION if _ways(links) & {ThrottledByPauseBegan, SlowedByCnpBegan} else Cause.UNKNOWN


def _ways(links: Iterable[ThrottledLink]) -> set[type[ThrottledBegan]]:
    return {type(spell.began) for link in links for spell in link.run}


def _reason(began: ThrottledBegan) -> tuple[str, str]:
    """Return how one port is throttled, and the metric that shows it."""
    if isinstance(began, ThrottledByPauseBegan):
        return f"is paused {began.paused_ratio:.0%} of the time", "pfc_rx_frames"
    if isinstance(began, SlowedByCnpBegan):
        return f"handles {began.notified_per_s} congestion notifications a second", "cnp_handled"
    return f"repeats lost packets, up to {began.retransmits_per_s} a second", "packet_sequence_errors"


def _rails(groups: Sequence[Group]) -> list[Group]:
    return sorted((g for g in groups if g.kind is GroupKind.RAIL), key=lambda g: (len(g.name), g.name))


def _evidence(params: CollapseParams, groups: Sequence[Group], tx_ratio: float, window: Interval) -> Iterator[Evidence]:
    """Yield all links together, then each group, then the port that fell most."""
    links = {link.cable.id: link for group in groups for link in group.throttled}
    yield Evidence(
        f"{len(links)} ports of hosts send {tx_ratio:.0%} of what they sent before, "
        f"while they {_throttling(links.values())}",
        metric="tx_bytes", observed=tx_ratio, expected=params.max_tx_ratio, comparison="threshold",
        window_start_ns=window[0], window_end_ns=window[1],
    )  # fmt: skip
    if len(rails := _rails(groups)) > 1:
        named = ", ".join(group.key for group in rails)
        fewest = min(len(group.throttled_hosts) for group in rails)
        yield Evidence(
            f"rails {named}: {fewest} or more of the {rails[0].hosts} hosts of each", metric="hosts",
            observed=float(fewest), expected=float(rails[0].enough(params)), comparison="threshold",
            peers=rails[0].hosts,
        )  # fmt: skip
    for group in groups:
        if len(rails) > 1 and group in rails:
            continue
        hosts = len(group.throttled_hosts)
        yield Evidence(
            f"{group.name}: {hosts} of its {group.hosts} hosts in this pod", metric="hosts", observed=float(hosts),
            expected=float(group.enough(params)), comparison="threshold", peers=group.hosts,
        )  # fmt: skip
    worst = min(links.values(), key=lambda link: (link.run[0].began.tx_ratio, link.cable.id))
    spell = worst.run[0]
    reason, metric = _reason(spell.began)
    yield Evidence(
        f"{spell.reporter.device}/{spell.reporter.port} {reason}"
        f" and sends {spell.began.tx_ratio:.0%} of what it sent before",
        metric=metric, at=spell.reporter, window_start_ns=spell.begin_ns, window_end_ns=window[1],
    )  # fmt: skip


def _delay_evidence(
    params: CollapseParams, span: Interval, links: Mapping[str, ThrottledLink], delays: Mapping[str, ProbeDelays]
) -> Iterator[Evidence]:
    """Yield how many of the throttled ports have delayed probes meanwhile, unlike other rails of the same hosts."""
    during = [
        max(own, key=lambda period: period.delay_ns)
        for key in links
        if key in delays
        and (own := [one for one in delays[key].periods(0) if one.overlap_ns(span) >= ns(params.sustained_s)])
    ]
    if during:
        most_us = max(period.delay_ns for period in during) / 1e3
        yield Evidence(
            f"probes of {len(during)} of these {len(links)} ports take up to {most_us:.0f} us longer than those of the"
            " same hosts' other rails",
            metric="rtt_us", observed=most_us, comparison="peers", peers=len(during),
        )  # fmt: skip
