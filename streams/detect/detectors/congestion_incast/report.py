"""Builds the finding of congestion/incast: the receiver, the counter that shows it, senders and victims."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, ClassVar, NamedTuple

from pydantic import Field

from streams.detect.detector import Context
from streams.detect.detectors.congestion_incast.attribution import ConcurrentSpells, attribute_incast
from streams.detect.evidence.episodes import Conclusion, confidence_of, evidence_of
from streams.detect.evidence.link_history import FOREVER
from streams.detect.evidence.probe_delays import DelayPeriod, ProbeDelays
from streams.detect.evidence.spells import LinkSpells, Spell, SpellRun
from streams.detect.evidence.subjects import link_coverage
from streams.detect.thresholds import Ratio, Seconds, Thresholds, ns
from streams.fabric.intervals import Interval
from streams.wire.models import BlastRadius, Cause, Evidence, Subject, Symptom, SymptomsReplaced
from streams.wire.symptoms import CongestionState, IncastBegan, IncastReason, LinkFullBegan


class IncastParams(Thresholds):
    """`[detect.incast]`: more traffic arrives for a host's port than it drains (DETECTION 3, "Congestion")."""

    full: ClassVar[float] = 0.9
    """Arriving share of its speed: below it the link does not limit the senders. Headers and gaps take the rest."""
    marked: Ratio = 0.1
    """Share of marked packets: DCQCN (SIGCOMM'15) marks at most one in a hundred while a queue is within its bounds."""
    drops_per_s: Annotated[float, Field(gt=0)] = 100
    """xmit_discards (DETECTION 3) if ECN does not slow the senders, or discards of a NIC that cannot pause them."""
    pauses: Ratio = 0.1
    """Share of the time in which a host pauses the fabric: its part in slowing a job by Greyhound's 10 %."""
    stalled: ClassVar[float] = 0.3
    """Share of the seconds in which its NIC waits for PCIe, from which the host is the cause (DETECTION 1)."""
    sustained_s: Seconds = 60
    """The least duration: the burst of a collective lasts seconds; a minute follows from the layout of the traffic."""
    peers: ClassVar[float] = 0.5
    """Share of the pod's other hosts on the rail: if as many are oversubscribed at once, it is load, not incast."""
    quiet_s: ClassVar[float] = 120
    """Closes after this time without incast; jobs cause it again in each step."""
    remember_s: ClassVar[float] = 600
    """A closed incast is retained for this long, for comparison with others that began at the same time."""
    cnp_per_s: ClassVar[float] = 1000
    """Congestion notifications per second of a throttled sender. DCQCN (SIGCOMM'15) sends a flow at most one in 50 us,
    20,000 a second; a twentieth of that slows a sender, and a healthy fabric is far below it."""
    delay_us: ClassVar[float] = 100
    """Probes are delayed if they take this much longer than the same prober's other flows. It is a queue of 5 MB at 400
    Gb/s, or 1.25 MB at 100 Gb/s. Congestion control tolerates less: DCQCN (SIGCOMM'15) marks every packet of a queue of
    200 kB at 40 Gb/s, 40 us. A full queue delays packets longer, for hundreds of microseconds to milliseconds (one
    port's part of a shared buffer of tens of MB). The medians of an idle and of a busy host differ by 3 us (PROBES
    "Python, measured": 17 and 20)."""
    delayed_ratio: ClassVar[float] = 0.9
    """Share of delayed flows from the rail: replies to all of them pass the queue before its port. If instead the
    uplinks of its leaf are congested, flows within the leaf, 3 of 13 (`[collect.probe]`), are not delayed."""
    delay_peers: ClassVar[int] = 3
    """Other hosts whose probes to the rail are delayed, but not those to other rails; as `[detect.unreachable]`
    `peers`."""
    cnp_s: ClassVar[float] = 30
    """Half of the least duration of an incast, so that its senders are known by then."""


FullLinks = dict[str, LinkSpells[LinkFullBegan]]
"""Subject id -> when the host's link was full."""


def delay_periods(params: IncastParams, delays: ProbeDelays | None) -> list[DelayPeriod]:
    """Return the periods in which probes from and to a rail were delayed."""
    return delays.periods(params.delay_peers) if delays is not None else []


def delayed_spells(
    params: IncastParams, full: LinkSpells[LinkFullBegan] | None, delays: ProbeDelays | None, watermark_ns: int
) -> Iterator[Spell[IncastBegan]]:
    """Yield the times in which a link was full and its probes were delayed, if long enough."""
    for spell in full.spells if full is not None else ():
        for period in delay_periods(params, delays):
            begin_ns, enough_ns = max(spell.begin_ns, period.begin_ns), ns(params.sustained_s)
            if period.overlap_ns((spell.begin_ns, spell.end_ns)) >= enough_ns:
                began = IncastBegan(begin_ns, spell.began.load_ratio, IncastReason.DELAYED)
                reported_ns = max(spell.reported_ns, begin_ns + enough_ns)
                end_ns = min(spell.end_ns, period.last_ns(watermark_ns))
                yield Spell(spell.reporter, spell.source, began, begin_ns, reported_ns, end_ns)


def prune_full(full: FullLinks, since_ns: dict[str, int], old_ns: int) -> FullLinks:
    """Return the full links without those that ended by `old_ns`, or by their own time in `since_ns`."""
    left = {
        key: replace(link, spells=tuple(s for s in link.spells if s.end_ns > since_ns.get(key, old_ns)))
        for key, link in full.items()
    }
    return {key: link for key, link in left.items() if link.spells}


_BY_HOST = (IncastReason.PAUSED_BY_HOST, IncastReason.STALLED_ON_PCIE, IncastReason.DROPPED_BY_HOST)
_DROPPED = (
    IncastReason.DROPPED, IncastReason.DROPPED_BY_HOST, IncastReason.TRIMMED, IncastReason.TRIMMED_DROPPED,
)  # fmt: skip
_ACTIONS = {
    IncastReason.DROPPED: "dropped", IncastReason.TRIMMED: "trimmed",
    IncastReason.TRIMMED_DROPPED: "trimmed and then dropped",
}  # fmt: skip
_METRICS = {
    IncastReason.DROPPED: "tx_discards", IncastReason.PAUSED_BY_HOST: "pfc_tx_frames",
    IncastReason.DROPPED_BY_HOST: "rx_discards", IncastReason.DELAYED: "rx_bytes",
    IncastReason.STALLED_ON_PCIE: "pcie_stalled_write_seconds", IncastReason.TRIMMED: "trimmed_packets",
    IncastReason.TRIMMED_DROPPED: "trimmed_dropped_packets",
}  # fmt: skip


class Incast(NamedTuple):
    """One incast of one link: a run of its spells."""

    link: LinkSpells[IncastBegan]
    run: SpellRun[IncastBegan]

    @property
    def by_host(self) -> bool:
        """Return whether the host itself pauses the fabric."""
        return any(spell.began.reason in _BY_HOST for spell in self.run)


def congestion_state(observed: Symptom | SymptomsReplaced) -> CongestionState | None:
    """Return the congestion state of an observation."""
    if isinstance(observed, SymptomsReplaced):
        return observed.state
    state: CongestionState | None = getattr(observed.payload, "state", None)
    return state


def conclusion(
    params: IncastParams, context: Context, incast: Incast, concurrent: ConcurrentSpells, delays: Sequence[DelayPeriod]
) -> Conclusion:
    """Return the episode of an incast; `delays` are those of probes from and to its rail."""
    subject, run = incast.link.subject, incast.run
    free_ns, reporters = run.over_ns(ns(params.quiet_s)), run.reporters
    worst = max(run, key=_weight)
    cable = context.topology.links.get(subject.id)
    span = run.begin_ns, run.end_ns
    victims, found = ((), ()) if cable is None else attribute_incast(context.topology, cable, span, concurrent)
    headline = _headline(incast, worst)
    return Conclusion(
        subject, run.begin_ns, min(run.end_ns, FOREVER - 1), opened_ns=run.reported_ns, seen_ns=run.seen_ns,
        resolved_ns=run.end_ns if free_ns <= context.watermark_ns else None, over_ns=free_ns,
        summary=headline,
        cause=_cause(incast, worst),
        evidence=(
            *_evidence(params, incast, worst, headline),
            *delay_evidence(params, incast.link.subject, span, delays),
            *found,
        ),
        confidence=confidence_of(reporters),
        coverage=link_coverage(subject, reporters),
        blast_radius=BlastRadius(hosts=victims) if victims else None,
    )  # fmt: skip


def _weight(spell: Spell[IncastBegan]) -> tuple[bool, bool, float]:
    """Return the sort key whose largest spell is the headline; counters prove more than probes."""
    return spell.began.reason in _BY_HOST, spell.began.reason is not IncastReason.DELAYED, spell.began.ratio


def delay_evidence(
    params: IncastParams, subject: Subject, span: Interval, delays: Sequence[DelayPeriod]
) -> Iterator[Evidence]:
    """Yield the delays of probes from and to the rail of a host's link during a span."""
    during = [period for period in delays if period.overlap_ns(span) >= ns(params.sustained_s)]
    if subject.a is not None and during:
        worst = max(during, key=lambda period: period.delay_ns)
        yield Evidence(
            f"{worst.own_delayed} of {worst.own_flows} flows of probes from {subject.a.device}/{subject.a.port}, and"
            f" those of {worst.peers} other hosts to it, take {worst.delay_ns / 1e3:.0f} us longer than the other"
            " flows of the same hosts",
            metric="rtt_us", at=subject.a, observed=worst.delay_ns / 1e3, expected=params.delay_us, comparison="peers",
            peers=worst.peers,
        )  # fmt: skip


def _cause(incast: Incast, worst: Spell[IncastBegan]) -> Cause:
    if not incast.by_host:
        return Cause.CONGESTION
    return Cause.PCIE if worst.began.reason is IncastReason.STALLED_ON_PCIE else Cause.NIC


def _headline(incast: Incast, worst: Spell[IncastBegan]) -> str:
    host = incast.link.subject.a
    name = f"{host.device}/{host.port}" if host is not None else incast.link.subject.id
    if worst.began.reason is IncastReason.DROPPED_BY_HOST:
        return f"{name} drops {worst.began.ratio:.2%} of what arrives: its host does not drain the traffic"
    if incast.by_host:
        return f"{name} pauses the fabric {worst.began.ratio:.0%} of the time: its host does not drain the traffic"
    if worst.began.reason is IncastReason.DELAYED:
        return f"more traffic arrives for {name} than it drains: its link is full, and probes of and to it are delayed"
    action = _ACTIONS.get(worst.began.reason, "marked")
    return (
        f"more traffic arrives for {name} than it drains: its link is full, {worst.began.ratio:.0%} of packets {action}"
    )


def _evidence(params: IncastParams, incast: Incast, worst: Spell[IncastBegan], headline: str) -> Iterator[Evidence]:
    limits = dict.fromkeys(_BY_HOST, params.pauses) | {IncastReason.DELAYED: params.full}
    default = "roce_ecn_marked_packets" if worst.reporter == incast.link.subject.a else "port_ecn_marked_packets"
    reason = worst.began.reason
    yield evidence_of(
        f"by the counters of {worst.reporter.device}/{worst.reporter.port}: {headline}", _METRICS.get(reason, default),
        worst.reporter, (incast.run.begin_ns, incast.run.seen_ns), worst.began.ratio,
        None if reason in _DROPPED else limits.get(reason, params.marked),
    )  # fmt: skip
    deepest = max(incast.run, key=lambda spell: spell.began.depth_bytes)
    if depth := deepest.began.depth_bytes:
        yield evidence_of(
            f"up to {depth / 1e6:.3g} MB wait in a queue of {deepest.reporter.device}/{deepest.reporter.port}, bursts"
            " within a reading included", "queue_watermark_bytes", deepest.reporter,
            (deepest.begin_ns, deepest.reported_ns), float(depth), None,
        )  # fmt: skip
    if reason is IncastReason.STALLED_ON_PCIE:
        yield Evidence(
            f"its NIC waits for PCIe at least {params.stalled:.0%} of the time: its host is the cause",
            at=worst.reporter,
        )
