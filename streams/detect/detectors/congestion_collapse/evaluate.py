"""congestion/collapse: many hosts of a group are paused and send far less than they did just before, all at once.

A group is what shares paths in one pod: a rail, a plane, a job's hosts. One finding a pod; what a job has in several
pods, and whether a storm is behind it, is for `attribute` (attribute/collapses.py), which sees all pods.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from streams.detect.evidence.congestion_spells import LinkSpells, Spell, ends_at_ns, group_spells, report_delay_ns
from streams.detect.evidence.episodes import (
    Conclusion,
    PublishedEpisodes,
    finding_defaults,
    next_final_ns,
    prune,
    reconcile,
)
from streams.detect.evidence.link_history import FOREVER
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.ids import Port
from streams.fabric.intervals import merge_intervals
from streams.fabric.topology import Topology, TopologyLink
from streams.wire.models import (
    BlastRadius,
    Cause,
    Condition,
    Coverage,
    Episode,
    Evidence,
    Finding,
    Severity,
    Subject,
)
from streams.wire.symptoms import CongestionState, ThrottledByPauseBegan

SLUG = "congestion/collapse"
VERSION = "1"
STATE = CongestionState.THROTTLED_BY_PAUSE

_ALL_TOLD = 0.9
"""Confidence: who is stifled counts pause and traffic itself; why all of them are, nobody does."""


ThrottledSpells = LinkSpells[ThrottledByPauseBegan]


@dataclass(slots=True)
class PodSpells:
    """One pod: its links that are stifled, and what was said."""

    subject: Subject
    links: dict[str, ThrottledSpells] = field(default_factory=dict)
    state: PublishedEpisodes = ()

    @property
    def is_over(self) -> bool:
        """Nothing is left of it."""
        return not self.links and all(said.episode.finding.final for said in self.state)


class _ThrottledLink(NamedTuple):
    """One host's link that was stifled once."""

    cable: TopologyLink
    own: ThrottledSpells
    run: list[Spell[ThrottledByPauseBegan]]

    @property
    def host(self) -> str:
        return self.cable.lower.device

    @property
    def begin_ns(self) -> int:
        return self.run[0].begin_ns

    @property
    def end_ns(self) -> int:
        return max(spell.end_ns for spell in self.run)

    @property
    def told_ns(self) -> int:
        return min(spell.reported_ns for spell in self.run)

    def touches(self, span: tuple[int, int]) -> bool:
        """Whether it was so at any time of a span."""
        return self.begin_ns <= span[1] and span[0] <= self.end_ns


class _Group(NamedTuple):
    """What shares paths: its hosts, and those of its links that were stifled."""

    name: str
    hosts: int
    fallen: list[_ThrottledLink]

    @property
    def fallen_hosts(self) -> set[str]:
        """Those of its hosts that have a stifled link."""
        return {one.host for one in self.fallen}

    def enough(self, params: DetectParams) -> int:
        """How many hosts at once are a collapse."""
        return max(params.collapse.min_hosts, math.ceil(params.collapse.hosts * self.hosts))


def step(
    params: DetectParams, topology: Topology, pod: PodSpells, watermark_ns: int, *, keep: bool = False
) -> tuple[list[Episode], int]:
    """Conclude on one pod; answers what changed, and the watermark at which to look again.

    What is over is not forgotten while another detector has a use for it (`keep`).
    """
    quiet_ns = ns(params.collapse.quiet_s)
    fallen = list(_fallen(topology, pod, quiet_ns))
    groups = [group for group in _groups(topology, pod.subject.pod, fallen) if group.hosts]
    spans = merge_intervals(span for group in groups for span in _spans(group, group.enough(params), quiet_ns))
    closed_ns = watermark_ns - ns(params.lateness_s)
    free = {span: _free_ns(quiet_ns, fallen, span) for span in spans}
    conclusions = [
        _conclusion(params, topology, pod.subject, groups, span, free_ns, watermark_ns)
        for span, free_ns in free.items()
        if _can_change(pod.state, span, free_ns, closed_ns)
    ]
    pod.state, episodes = reconcile(pod.state, conclusions, watermark_ns)
    waits = (*free.values(), *(_gone_ns(params, one) for one in fallen), FOREVER)
    due_ns = min(next_final_ns(conclusions, watermark_ns), *(at_ns for at_ns in waits if at_ns > watermark_ns))
    if keep:
        return episodes, min(due_ns, watermark_ns + ns(params.collapse.remember_s))
    _forget(params, pod, fallen, watermark_ns)
    return episodes, due_ns


def _fallen(topology: Topology, pod: PodSpells, quiet_ns: int) -> Iterator[_ThrottledLink]:
    for own in pod.links.values():
        at = own.subject.a
        cable = topology.link_at(Port(at.device, at.port)) if at is not None else None
        if cable is not None:
            for run in group_spells(quiet_ns, own.spells):
                yield _ThrottledLink(cable, own, run)


def _groups(topology: Topology, pod: str, fallen: Iterable[_ThrottledLink]) -> Iterator[_Group]:
    """The groups that any stifled link is in, with the number of their hosts in this pod."""
    by_name: dict[tuple[str, str], list[_ThrottledLink]] = {}
    for one in fallen:
        for job in topology.jobs_on([one.host], one.begin_ns):
            by_name.setdefault(("job", job), []).append(one)
        if one.cable.plane is not None:
            by_name.setdefault(("plane", str(one.cable.plane)), []).append(one)
        by_name.setdefault(("rail", str(one.cable.rail)), []).append(one)
    for (kind, name), own in sorted(by_name.items()):
        first = min(own, key=lambda one: (one.begin_ns, one.cable.id))
        if kind == "job":
            held = topology.placement.hosts_of(name, first.begin_ns)
            hosts = {host for host in held if topology.pod_of(host) == pod}
        else:
            alike = topology.peers_of(first.cable, ("role", "pod", "rail" if kind == "rail" else "plane"))
            hosts = {cable.lower.device for cable in (first.cable, *alike)}
        yield _Group(f"{kind} {name}", len(hosts), own)


def _spans(group: _Group, enough: int, quiet_ns: int) -> Iterator[tuple[int, int]]:
    """When so many of its hosts were stifled at once; gaps of less than `quiet_ns` do not divide one."""
    by_host: dict[str, list[tuple[int, int]]] = {}
    for one in group.fallen:
        by_host.setdefault(one.host, []).append((one.begin_ns, one.end_ns))
    edges = [
        edge
        for own in by_host.values()
        for begin, end in merge_intervals(own)
        for edge in ((begin, 0, 1), (end, 1, -1))
    ]  # one that ends when another begins was so at once with it
    count, since_ns, spans = 0, 0, list[tuple[int, int]]()
    for at_ns, _, change in sorted(edges):
        before, count = count, count + change
        if before < enough <= count:
            since_ns = at_ns
        elif count < enough <= before:
            spans.append((since_ns, at_ns))
    run: tuple[int, int] | None = None
    for begin, end in spans:
        if run is not None and begin <= run[1] + quiet_ns:
            run = run[0], max(run[1], end)
            continue
        if run is not None:
            yield run
        run = begin, end
    if run is not None:
        yield run


def _free_ns(quiet_ns: int, fallen: Iterable[_ThrottledLink], span: tuple[int, int]) -> int:
    """When it is over if nothing follows; FOREVER while it lasts."""
    if span[1] == FOREVER:
        return FOREVER
    return span[1] + quiet_ns + report_delay_ns(quiet_ns, (s for one in fallen if one.touches(span) for s in one.run))


def _can_change(state: PublishedEpisodes, span: tuple[int, int], free_ns: int, closed_ns: int) -> bool:
    """Whether more may be said of it: not of what is closed, nor of what was long over when it was first seen so.

    What is left of a closed one while its links are forgotten one after the other is none of its own.
    """
    said = [s for s in state if s.overlaps(*span)]
    if any(s.episode.finding.final for s in said):
        return False
    return bool(said) or free_ns >= closed_ns


def _gone_ns(params: DetectParams, one: _ThrottledLink) -> int:
    """From when on it is compared with nothing."""
    return ends_at_ns(ns(params.collapse.quiet_s), one.run) + ns(params.collapse.remember_s)


def _forget(params: DetectParams, pod: PodSpells, fallen: Sequence[_ThrottledLink], watermark_ns: int) -> None:
    """Let go of what is over for long, and of nothing that an episode may still be made of."""
    open_ = [(s.begin_ns, s.end_ns) for s in pod.state if not s.episode.finding.final]
    for one in fallen:
        if _gone_ns(params, one) <= watermark_ns and not any(map(one.touches, open_)):
            one.own.spells = [spell for spell in one.own.spells if spell not in one.run]
    pod.links = {name: own for name, own in pod.links.items() if own.spells}
    old_ns = watermark_ns - ns(params.collapse.quiet_s + params.collapse.remember_s)
    first_ns = min((own.spells[0].begin_ns for own in pod.links.values()), default=old_ns)
    pod.state = prune(pod.state, first_ns)


def _conclusion(
    params: DetectParams,
    topology: Topology,
    subject: Subject,
    groups: Sequence[_Group],
    span: tuple[int, int],
    free_ns: int,
    watermark_ns: int,
) -> Conclusion:
    begin_ns, end_ns = span
    part = [g._replace(fallen=[one for one in g.fallen if one.touches(span)]) for g in groups]
    part = [g for g in part if any(s[0] <= end_ns and begin_ns <= s[1] for s in _spans(g, g.enough(params), 0))]
    widest = max(part, key=lambda g: (len(g.fallen_hosts) / g.hosts, g.hosts, g.name))
    everyone = {one.cable.id: one for g in part for one in g.fallen}
    hosts = tuple(sorted({one.host for one in everyone.values()}))
    told = sorted(min(one.told_ns for one in widest.fallen if one.host == host) for host in widest.fallen_hosts)
    detected_ns = told[min(widest.enough(params), len(told)) - 1]
    sends = sum(one.run[0].began.tx_ratio for one in everyone.values()) / len(everyone)
    last_ns = end_ns if end_ns != FOREVER else max(spell.reported_ns for one in everyone.values() for spell in one.run)
    count = len(widest.fallen_hosts)
    rails = _rails(part)
    where = f"{len(rails)} rails" if len(rails) > 1 else widest.name
    headline = f"{count} of {widest.hosts} hosts of {where} in {subject.pod} are paused and send {sends:.0%}"
    finding = Finding(
        **finding_defaults(params, SLUG, VERSION),
        condition=Condition.CONGESTION_COLLAPSE,
        severity=Severity.CRITICAL,
        subject=subject,
        started_at_ns=begin_ns,
        observed_at_ns=last_ns,
        resolved_at_ns=end_ns if free_ns <= watermark_ns else None,
        detected_at_ns=detected_ns,
        summary=f"{headline} of what they sent before",
        cause=Cause.CONGESTION,
        evidence=tuple(_evidence(params, part, sends, (begin_ns, last_ns))),
        confidence=_ALL_TOLD,
        coverage=Coverage(seen=count, expected=widest.hosts),
        blast_radius=BlastRadius(
            hosts=hosts,
            jobs=topology.jobs_on(hosts, begin_ns),
            gpus=sum(topology.devices[host].gpus for host in hosts if host in topology.devices),
        ),
    )
    final_at = None if free_ns == FOREVER else free_ns + ns(params.lateness_s)
    return Conclusion(begin_ns, min(end_ns, FOREVER - 1), finding, str(begin_ns), final_at)


def _rails(groups: Sequence[_Group]) -> list[_Group]:
    return sorted((g for g in groups if g.name.startswith("rail ")), key=lambda g: (len(g.name), g.name))


def _evidence(
    params: DetectParams, groups: Sequence[_Group], sends: float, window: tuple[int, int]
) -> Iterator[Evidence]:
    """What all have in common first, then each group, then the port that fell most."""
    links = {one.cable.id: one for group in groups for one in group.fallen}
    yield Evidence(
        f"{len(links)} ports of hosts send {sends:.0%} of what they sent before, while they are paused",
        metric="tx_bytes", observed=sends, expected=params.collapse.max_tx_ratio, comparison="threshold",
        window_start_ns=window[0], window_end_ns=window[1],
    )  # fmt: skip
    if len(rails := _rails(groups)) > 1:
        named = ", ".join(group.name.removeprefix("rail ") for group in rails)
        fewest = min(len(group.fallen_hosts) for group in rails)
        yield Evidence(
            f"rails {named}: {fewest} or more of the {rails[0].hosts} hosts of each", metric="hosts",
            observed=float(fewest), expected=float(rails[0].enough(params)), comparison="threshold",
            peers=rails[0].hosts,
        )  # fmt: skip
    for group in groups:
        if len(rails) > 1 and group in rails:
            continue
        hosts = len(group.fallen_hosts)
        yield Evidence(
            f"{group.name}: {hosts} of its {group.hosts} hosts here", metric="hosts", observed=float(hosts),
            expected=float(group.enough(params)), comparison="threshold", peers=group.hosts,
        )  # fmt: skip
    worst = min(links.values(), key=lambda one: (one.run[0].began.tx_ratio, one.cable.id))
    spell = worst.run[0]
    yield Evidence(
        f"{spell.reporter.device}/{spell.reporter.port} is paused {spell.began.paused_ratio:.0%} of the time"
        f" and sends {spell.began.tx_ratio:.0%} of that",
        metric="pfc_rx_frames", at=spell.reporter, window_start_ns=spell.begin_ns, window_end_ns=window[1],
    )  # fmt: skip
