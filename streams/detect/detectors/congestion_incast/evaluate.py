"""congestion/incast: more comes to one host's port than goes in, for a minute or longer, and not to its peers.

Its link is full and the switch's queue before it marks or drops; or the host itself pauses the fabric, which is then
not at fault. Where as many of its peers are crowded at the same time, it is the job's load and no incast.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from streams.detect.detectors.congestion_incast.attribution import ConcurrentSpells, attribute_incast
from streams.detect.detectors.link_down.evaluate import BOTH_ENDS, ONE_END
from streams.detect.evidence.congestion_spells import LinkSpells, Spell, ends_at_ns, group_spells
from streams.detect.evidence.episodes import Conclusion, finding_defaults, next_final_ns, prune, reconcile
from streams.detect.evidence.link_history import FOREVER
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from streams.wire.models import (
    BlastRadius,
    Cause,
    Condition,
    Coverage,
    Episode,
    Evidence,
    Finding,
    Severity,
)
from streams.wire.symptoms import CongestionState, IncastBegan, IncastReason

SLUG = "congestion/incast"
VERSION = "1"
STATE = CongestionState.INCAST

IncastSpells = LinkSpells[IncastBegan]

_ALL = ""
"""The one state of a link's: which end told does not matter."""

_BY_HOST = (IncastReason.PAUSED_BY_HOST, IncastReason.STALLED_ON_PCIE)
_METRICS = {
    IncastReason.DROPPED: "tx_discards", IncastReason.PAUSED_BY_HOST: "pfc_tx_frames",
    IncastReason.STALLED_ON_PCIE: "pcie_stalled_write_seconds",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Crowd:
    """One link for one time, and how many of its peers are crowded when it is told."""

    link: IncastSpells
    run: list[Spell[IncastBegan]]

    @property
    def begin_ns(self) -> int:
        return self.run[0].begin_ns

    @property
    def told_ns(self) -> int:
        return min(spell.reported_ns for spell in self.run)

    @property
    def end_ns(self) -> int:
        return max(spell.end_ns for spell in self.run)

    @property
    def by_host(self) -> bool:
        return any(spell.began.reason in _BY_HOST for spell in self.run)


def step(
    params: DetectParams,
    topology: Topology,
    pod: Mapping[str, IncastSpells],
    beside: ConcurrentSpells,
    watermark_ns: int,
) -> tuple[list[Episode], int]:
    """Conclude on all links of a pod that are crowded; answers what changed, and when to look again."""
    quiet_ns = ns(params.incast.quiet_s)
    crowds = {name: [_Crowd(own, run) for run in group_spells(quiet_ns, own.spells)] for name, own in pod.items()}
    episodes: list[Episode] = []
    due_ns = FOREVER
    for name, own in pod.items():
        alone = [
            crowd
            for crowd in crowds[name]
            if not _was_decided(params, own, crowd, watermark_ns) and _is_alone(params, topology, crowd, crowds)
        ]
        conclusions = [_conclusion(params, topology, crowd, beside, watermark_ns) for crowd in alone]
        state, said = reconcile(own.published.get(_ALL, ()), conclusions, watermark_ns)
        episodes += said
        frees = [at_ns for crowd in crowds[name] if (at_ns := ends_at_ns(quiet_ns, crowd.run)) != FOREVER]
        gone = [at_ns + ns(params.incast.remember_s) for at_ns in frees]
        waits = (at_ns for at_ns in (*frees, *gone) if at_ns > watermark_ns)
        due_ns = min(due_ns, next_final_ns(conclusions, watermark_ns), *waits)
        keep_ns = max(
            (crowd.end_ns for crowd, at_ns in zip(_ended(crowds[name]), gone, strict=True) if at_ns <= watermark_ns),
            default=0,
        )
        own.spells = [spell for spell in own.spells if spell.end_ns > keep_ns]
        own.published = {_ALL: prune(state, keep_ns + 1)}
    return episodes, due_ns


def _was_decided(params: DetectParams, own: IncastSpells, crowd: _Crowd, watermark_ns: int) -> bool:
    """Whether it is long over and was none: its peers of then may be forgotten before it is."""
    final_ns = ends_at_ns(ns(params.incast.quiet_s), crowd.run) + ns(params.lateness_s)
    was_one = any(said.overlaps(crowd.begin_ns, crowd.end_ns) for said in own.published.get(_ALL, ()))
    return final_ns < watermark_ns and not was_one


def _ended(crowds: Sequence[_Crowd]) -> list[_Crowd]:
    return [crowd for crowd in crowds if crowd.end_ns != FOREVER]


def _is_alone(params: DetectParams, topology: Topology, crowd: _Crowd, crowds: Mapping[str, Sequence[_Crowd]]) -> bool:
    """Whether fewer than half of its peers, the same rail of the pod's other hosts, were crowded when it was told."""
    at = crowd.link.subject.a
    cable = topology.link_at(Port(at.device, at.port)) if at is not None else None
    if cable is None:
        return False
    peers = topology.peers_of(cable)
    others = sum(
        any(
            one.begin_ns <= crowd.told_ns + ns(params.incast.sustained_s) and one.end_ns >= crowd.begin_ns
            for one in own
        )
        for peer in peers
        if (own := crowds.get(peer.id)) and peer.id != cable.id
    )
    return others < max(1.0, params.incast.peers * len(peers)) if peers else True


def _conclusion(
    params: DetectParams, topology: Topology, crowd: _Crowd, beside: ConcurrentSpells, watermark_ns: int
) -> Conclusion:
    own, run = crowd.link, crowd.run
    free_ns = ends_at_ns(ns(params.incast.quiet_s), run)
    resolved = free_ns <= watermark_ns
    host, leaf = own.subject.a, own.subject.z
    name = f"{host.device}/{host.port}" if host is not None else own.subject.id
    tellers = list(dict.fromkeys(spell.reporter for spell in run))
    ends = [end for end in (host, leaf) if end is not None]
    last_ns = max(spell.reported_ns if spell.end_ns == FOREVER else spell.end_ns for spell in run)
    worst = max(run, key=lambda spell: (spell.began.reason in _BY_HOST, spell.began.ratio))
    cable = topology.links.get(own.subject.id)
    blamed = attribute_incast(topology, cable, (crowd.begin_ns, crowd.end_ns), beside) if cable is not None else None
    cause = Cause.CONGESTION
    headline = f"more comes to {name} than goes in: its link is full and {worst.began.ratio:.0%} of the packets are "
    headline += "dropped" if worst.began.reason is IncastReason.DROPPED else "marked"
    if crowd.by_host:
        cause = Cause.PCIE if worst.began.reason is IncastReason.STALLED_ON_PCIE else Cause.NIC
        headline = f"{name} pauses the fabric {worst.began.ratio:.0%} of the time: its host takes no more"
    finding = Finding(
        **finding_defaults(params, SLUG, VERSION),
        condition=Condition.CONGESTION_INCAST,
        severity=Severity.WARNING,
        subject=own.subject,
        started_at_ns=crowd.begin_ns,
        observed_at_ns=last_ns,
        resolved_at_ns=crowd.end_ns if resolved else None,
        detected_at_ns=crowd.told_ns,
        summary=headline,
        cause=cause,
        evidence=(
            *_evidence(params, crowd, worst, headline, last_ns),
            *(blamed.evidence if blamed is not None else ()),
        ),
        blast_radius=BlastRadius(hosts=blamed.victims) if blamed is not None and blamed.victims else None,
        confidence=BOTH_ENDS if len(tellers) > 1 else ONE_END,
        coverage=Coverage(
            seen=len(tellers), expected=2, missing=tuple(f"{e.device}/{e.port}" for e in ends if e not in tellers)
        ),
    )
    final_at = None if free_ns == FOREVER else free_ns + ns(params.lateness_s)
    return Conclusion(crowd.begin_ns, min(crowd.end_ns, FOREVER - 1), finding, str(crowd.begin_ns), final_at)


def _evidence(
    params: DetectParams, crowd: _Crowd, worst: Spell[IncastBegan], headline: str, last_ns: int
) -> Iterator[Evidence]:
    limits = dict.fromkeys(_BY_HOST, params.incast.pauses)
    default = "roce_ecn_marked_packets" if worst.reporter == crowd.link.subject.a else "port_ecn_marked_packets"
    yield Evidence(
        statement=f"{worst.reporter.device}/{worst.reporter.port} counts it: {headline}",
        metric=_METRICS.get(worst.began.reason, default),
        at=worst.reporter,
        observed=worst.began.ratio,
        expected=limits.get(worst.began.reason, params.incast.marked)
        if worst.began.reason is not IncastReason.DROPPED
        else None,
        comparison="threshold",
        window_start_ns=crowd.begin_ns,
        window_end_ns=last_ns,
    )
    if worst.began.reason is IncastReason.STALLED_ON_PCIE:
        yield Evidence(
            f"its NIC waits for PCIe {params.incast.stalled:.0%} of the time and more: its host is the cause",
            at=worst.reporter,
        )
