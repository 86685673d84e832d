"""congestion/collapse: detects groups in which many hosts are throttled and send far less than before, together.

The hosts of a group share paths in one pod: a rail, a plane, or the hosts of a job. Each pod has one finding;
`attribute`, which receives all pods, joins those of one job and finds the storm that causes them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from streams.detect.detector import Context, Detector, Evaluation, JobDomain, Observed, PodSide, Scope
from streams.detect.detectors.congestion_collapse.groups import (
    CollapseParams,
    Group,
    GroupKind,
    ThrottledLink,
    ThrottledSpells,
    groups_of,
    throttled_links,
)
from streams.detect.evidence.episodes import Conclusion, PublishedEpisodes, has_open, open_intervals, prune
from streams.detect.evidence.link_history import FOREVER
from streams.detect.evidence.probe_delays import ProbeDelays, last_end_ns, observe_delays, prune_delays
from streams.detect.evidence.spells import LinkSpells, end_moved, report_delay_ns
from streams.detect.fabric_side import Cases, FabricSide, always, are_concurrent, closure, detection_order
from streams.detect.pfc_storm_tree import is_storm, paused_device, pausing_device, root_storm
from streams.detect.thresholds import ns
from streams.fabric.ids import Port
from streams.fabric.intervals import Interval, merge_intervals
from streams.fabric.topology import Topology
from streams.wire.models import (
    BlastRadius,
    Cause,
    Condition,
    Coverage,
    Evidence,
    Finding,
    RailDelays,
    Severity,
    Subject,
    Symptom,
    SymptomsReplaced,
)
from streams.wire.symptoms import CongestionState, SlowedByCnpBegan, ThrottledBegan, ThrottledByPauseBegan

_CONFIDENCE = 0.9
"""Each throttled port itself counts pause or notifications, and traffic; no counter shows the common cause."""


def _conclusion(
    params: CollapseParams,
    context: Context,
    subject: Subject,
    groups: Sequence[Group],
    span: Interval,
    free_ns: int,
    delays: Mapping[str, ProbeDelays],
) -> Conclusion:
    """Return the episode of a span in which groups of a pod collapsed; it ends at `free_ns`.

    `delays` are the delays of probes from and to the rails, by link.
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
    return Conclusion(
        subject, begin_ns, min(end_ns, FOREVER - 1), opened_ns=_detected_ns(params, widest), seen_ns=last_ns,
        resolved_ns=end_ns if free_ns <= context.watermark_ns else None, over_ns=free_ns,
        summary=f"{headline} of what they sent before",
        cause=_cause(links.values()),
        evidence=(
            *_evidence(params, part, tx_ratio, (begin_ns, last_ns)), *_delay_evidence(params, span, links, delays)
        ),
        confidence=_CONFIDENCE,
        coverage=Coverage(seen=count, expected=widest.hosts),
        severity=Severity.CRITICAL,
        blast_radius=BlastRadius(
            hosts=hosts,
            jobs=topology.jobs_on(hosts, begin_ns),
            gpus=sum(topology.devices[host].gpus for host in hosts if host in topology.devices),
        ),
    )  # fmt: skip


def _detected_ns(params: CollapseParams, group: Group) -> int:
    """Return the time by which enough of a group's hosts had been reported."""
    by_host = (
        min(link.run.reported_ns for link in group.throttled if link.host == host) for host in group.throttled_hosts
    )
    reported = sorted(by_host)
    return reported[min(group.enough(params), len(reported)) - 1]


def _throttling(links: Iterable[ThrottledLink]) -> str:
    """Return the kind of throttling: by pause if any port is, else by congestion notifications, else by loss."""
    ways = _ways(links)
    if ThrottledByPauseBegan in ways:
        return "are paused"
    return "are throttled by congestion notifications" if SlowedByCnpBegan in ways else "repeat lost packets"


def _cause(links: Iterable[ThrottledLink]) -> Cause:
    """Return congestion if flow or congestion control shows it, because a bad link may lose packets too."""
    return Cause.CONGESTION if _ways(links) & {ThrottledByPauseBegan, SlowedByCnpBegan} else Cause.UNKNOWN


def _ways(links: Iterable[ThrottledLink]) -> set[type[ThrottledBegan]]:
    return {type(spell.began) for link in links for spell in link.run}


def _reason(began: ThrottledBegan) -> tuple[str, str]:
    """Return the kind of throttling of one port, and the metric that shows it."""
    if isinstance(began, ThrottledByPauseBegan):
        return f"is paused {began.paused_ratio:.0%} of the time", "pfc_rx_frames"
    if isinstance(began, SlowedByCnpBegan):
        return f"handles {began.notified_per_s} congestion notifications a second", "cnp_handled"
    return f"repeats lost packets, up to {began.retransmits_per_s} a second", "packet_sequence_errors"


def _rails(groups: Sequence[Group]) -> list[Group]:
    return sorted((g for g in groups if g.kind is GroupKind.RAIL), key=lambda g: (len(g.name), g.name))


def _evidence(params: CollapseParams, groups: Sequence[Group], tx_ratio: float, window: Interval) -> Iterator[Evidence]:
    """Yield evidence for all links together, then for each group, then for the port that fell most."""
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
    """Yield evidence of throttled ports whose probes are delayed, unlike other rails of the same hosts."""
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


@dataclass(frozen=True, slots=True)
class CollapseState:
    """One pod: its throttled links by subject id, and its published episodes."""

    subject: Subject
    links: dict[str, ThrottledSpells] = field(default_factory=dict)
    published: PublishedEpisodes = ()
    delays: dict[str, ProbeDelays] = field(default_factory=dict)
    """Delays of active probes, by link of the rail."""


def _observe(
    _: CollapseParams, state: CollapseState | None, observed: Symptom | SymptomsReplaced | RailDelays, context: Context
) -> Observed[CollapseState]:
    """Add an observation; evaluate with the next batch of the pod."""
    subject = context.subject_at(Port(observed.device, observed.port))
    pod = state or CollapseState(Subject(f"pod:{subject.pod}", role="pod", pod=subject.pod, site=subject.site))
    if isinstance(observed, RailDelays):
        delays = observe_delays(pod.delays, subject.id, observed, context)
        return Observed(state) if delays is pod.delays else Observed(replace(pod, delays=delays), context.next_batch_ns)
    known = pod.links.get(subject.id) or LinkSpells(subject)
    spells = known.observe(observed)
    if spells is known:
        return Observed(state)
    changed = replace(pod, links=pod.links | {subject.id: spells})
    return Observed(changed, context.next_batch_ns)


def _end_moved(
    state: CollapseState, has_moved: Callable[[Subject], bool], at_ns: int
) -> tuple[CollapseState, list[Symptom]]:
    links, symptoms = end_moved(state.links, has_moved, at_ns)
    return replace(state, links=links), symptoms


def _evaluate(params: CollapseParams, _: str, state: CollapseState, context: Context) -> Evaluation[CollapseState]:
    """Conclude on one pod."""
    quiet_ns, now_ns = ns(params.quiet_s), context.watermark_ns
    by_key = list(throttled_links(context.topology, state.links, quiet_ns))
    throttled = [link for _, link in by_key]
    groups = list(groups_of(context.topology, state.subject.pod, throttled))
    spans = merge_intervals(span for group in groups for span in group.spans(group.enough(params), quiet_ns))
    free = {span: _free_ns(quiet_ns, throttled, span) for span in spans}
    closed_ns = now_ns - ns(context.settings.lateness_s)
    conclusions = [
        _conclusion(params, context, state.subject, groups, span, free_ns, state.delays)
        for span, free_ns in free.items()
        if _can_change(state.published, span, free_ns, closed_ns)
    ]
    published, episodes, due_ns = context.reconcile(state.published, conclusions)
    waits = [*free.values(), *(_gone_ns(params, link) for link in throttled)]
    left = _prune(params, replace(state, published=published), by_key, context)
    if left.delays:
        waits.append(last_end_ns(left.delays) + ns(params.quiet_s + params.remember_s))
    is_retained = left.links or left.delays or has_open(left.published)
    return Evaluation(left if is_retained else None, episodes, min(due_ns, context.next_ns(*waits)))


def _free_ns(quiet_ns: int, throttled: Iterable[ThrottledLink], span: Interval) -> int:
    """Return the end of a span if nothing follows; FOREVER while it lasts."""
    if span[1] == FOREVER:
        return FOREVER
    spells = (spell for link in throttled if link.overlaps(span) for spell in link.run)
    return span[1] + quiet_ns + report_delay_ns(quiet_ns, spells)


def _can_change(published: PublishedEpisodes, span: Interval, free_ns: int, closed_ns: int) -> bool:
    """Return whether a span may be published: its episode is not final, and the span had not ended when first seen.

    While the links of a final episode are pruned one by one, shorter spans remain, which are not episodes.
    """
    known = [s for s in published if s.overlaps(*span)]
    if any(s.episode.finding.final for s in known):
        return False
    return bool(known) or free_ns >= closed_ns


def _gone_ns(params: CollapseParams, link: ThrottledLink) -> int:
    """Return the time from which a throttled link is no longer compared with others."""
    return link.run.over_ns(ns(params.quiet_s)) + ns(params.remember_s)


def _prune(
    params: CollapseParams, state: CollapseState, throttled: Sequence[tuple[str, ThrottledLink]], context: Context
) -> CollapseState:
    """Return the state without links that ended long ago and belong to no open episode."""
    watermark_ns = context.watermark_ns
    open_spans = open_intervals(state.published)
    links = dict(state.links)
    for key, link in throttled:
        if _gone_ns(params, link) <= watermark_ns and not any(map(link.overlaps, open_spans)):
            gone = set(link.run)
            links[key] = links[key].retain(lambda spell, gone=gone: spell not in gone)  # type: ignore[misc]
    links = {key: link for key, link in links.items() if link.spells}
    old_ns = watermark_ns - ns(params.quiet_s + params.remember_s)
    first_ns = min((link.spells[0].begin_ns for link in links.values()), default=old_ns)
    delays = prune_delays(state.delays, {}, min((old_ns, *(span[0] for span in open_spans))), context)
    return replace(state, links=links, published=prune(state.published, first_ns), delays=delays)


_MAX_NAMED = 1024
"""The most named hosts, as in any blast radius."""


def _explain(collapse: Finding, cases: Cases) -> tuple[Finding, Finding | None]:
    members = _incident(cases, collapse)
    if (storm := _causing_storm(cases, members)) is not None:
        return collapse, storm
    root = min(members, key=detection_order)
    if root.id != collapse.id:
        return collapse, root
    return (_summarized(collapse, members) if len(members) > 1 else collapse), None


def _affected_by(changed: Finding, cases: Cases) -> Iterable[str]:
    if changed.condition is Condition.CONGESTION_COLLAPSE or is_storm(changed):
        for collapse in cases.findings_of(Condition.CONGESTION_COLLAPSE):
            if collapse.id != changed.id and are_concurrent(collapse, changed):
                yield collapse.id


def _incident(cases: Cases, collapse: Finding) -> list[Finding]:
    """Return the collapses that share a job and a time with this one, directly or through others."""

    def related(one: Finding) -> Iterator[Finding]:
        for other in cases.findings_of(Condition.CONGESTION_COLLAPSE):
            if are_concurrent(one, other) and not _jobs(one).isdisjoint(_jobs(other)):
                yield other

    return list(closure(collapse, related).values())


def _causing_storm(cases: Cases, members: Sequence[Finding]) -> Finding | None:
    """Return the root of the first storm that has paused one of these pods or jobs since before their detection."""
    roots = [
        root_storm(cases, storm) or storm
        for storm in cases.findings_of(Condition.CONGESTION_PFC_STORM)
        for collapse in members
        if _can_cause(cases.topology, storm, collapse)
    ]
    return min(roots, key=detection_order, default=None)


def _can_cause(topology: Topology, storm: Finding, collapse: Finding) -> bool:
    detected_ns = collapse.detected_at_ns or collapse.started_at_ns
    if not are_concurrent(storm, collapse) or storm.started_at_ns > detected_ns:
        return False
    if storm.subject.pod == collapse.subject.pod:
        return True
    jobs = topology.jobs_on([pausing_device(storm), paused_device(storm)], storm.started_at_ns)
    return not _jobs(collapse).isdisjoint(jobs)


def _jobs(finding: Finding) -> frozenset[str]:
    return frozenset(finding.blast_radius.jobs if finding.blast_radius is not None else ())


def _summarized(root: Finding, members: Iterable[Finding]) -> Finding:
    """Return the root with the pods, hosts and jobs of all members."""
    radii = [member.blast_radius for member in members if member.blast_radius is not None]
    pods = sorted({member.subject.pod for member in members})
    jobs = tuple(sorted({job for radius in radii for job in radius.jobs}))
    hosts = sorted({host for radius in radii for host in radius.hosts})
    named = ", ".join(jobs)
    statement = f"{len(pods)} pods collapsed at the same time ({', '.join(pods[:8])}); job {named} runs on their hosts"
    evidence = Evidence(statement, metric="group", observed=float(len(pods)), comparison="peers", peers=len(pods))
    return replace(
        root,
        summary=f"{len(pods)} pods of job {named} collapsed; first: {root.summary}",
        evidence=(*root.evidence, evidence),
        blast_radius=BlastRadius(tuple(hosts[:_MAX_NAMED]), jobs, sum(radius.gpus or 0 for radius in radii)),
    )


DETECTOR = Detector(
    Condition.CONGESTION_COLLAPSE,
    version="1",
    opens_when=(
        "half of the hosts of a rail, plane or job are paused and send half of their previous rate, all at once, "
        "for a minute"
    ),
    params=CollapseParams,
    section="collapse",
    placement=None,
    job_domain=JobDomain.NETWORK,
    lemon=None,
    hidden_in={
        "snmp": "the time that hosts are paused is counted by NICs",
        "infiniband": "hosts wait for credits, and the tick of an HCA is unknown",
    },
    fabric=FabricSide(explained_by_outages=False, is_critical=always, explain=_explain, affected_by=_affected_by),
    pod=PodSide(
        CollapseState, Scope.POD, _evaluate, (
            CongestionState.THROTTLED_BY_PAUSE, CongestionState.SLOWED_BY_CNP, CongestionState.SLOWED_BY_LOSS,
            RailDelays,
        ), _observe, end_moved=_end_moved,
    ),
)  # fmt: skip
