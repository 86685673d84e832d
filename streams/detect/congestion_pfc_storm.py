"""congestion/pfc-storm: a port is paused nearly all the time while nothing goes the way that is paused.

One finding for each link and the end of it that pauses; the direction is the diagnosis. Which of many is the root,
the port whose device pauses without being paused, is for `attribute`, which sees all pods (attribute/storms.py).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from streams.detect.episode import Conclusion, State, fold, forget, next_due_ns
from streams.detect.link import FOREVER
from streams.detect.link_down import BOTH_ENDS, ONE_END
from streams.detect.params import DetectParams, ns
from streams.wire.models import (
    Condition,
    Coverage,
    Endpoint,
    Episode,
    Evidence,
    Finding,
    Severity,
    Source,
    Status,
    Subject,
    Symptom,
    SymptomKind,
)

SLUG = "congestion/pfc-storm"
VERSION = "1"

KINDS = frozenset(
    {
        SymptomKind.PAUSED, SymptomKind.PAUSES, SymptomKind.PAUSED_NO_MORE, SymptomKind.PAUSES_NO_MORE,
        SymptomKind.HOST_STALLS,
    }
)  # fmt: skip
_PAUSED = (SymptomKind.PAUSED, SymptomKind.PAUSED_NO_MORE)
_BEGUN = (SymptomKind.PAUSED, SymptomKind.PAUSES)


@dataclass(slots=True)
class Spell:
    """One end as one source reads it was held from `begin_ns` to `end_ns`, by itself or by the far end."""

    teller: Endpoint
    source: Source
    is_paused: bool
    begin_ns: int
    told_ns: int
    end_ns: int = FOREVER
    share: float = 0.0
    priority: str = ""
    stalls: float = 0.0


@dataclass(slots=True)
class LinkStorm:
    """One link: what was told of its ends, and what was said; by the device that pauses."""

    subject: Subject
    spells: list[Spell] = field(default_factory=list)
    states: dict[str, State] = field(default_factory=dict)

    def add(self, symptom: Symptom) -> bool:
        """Take an observation in; False where it was known already, or is over before it was known."""
        teller, is_paused = Endpoint(symptom.device, symptom.port), symptom.kind in _PAUSED
        own = [s for s in self.spells if (s.teller, s.source, s.is_paused) == (teller, symptom.source, is_paused)]
        if symptom.kind is SymptomKind.HOST_STALLS:
            for spell in own:
                if spell.begin_ns == symptom.since_ns:
                    spell.stalls = symptom.count / 1e6
            return bool(own)
        if symptom.kind in _BEGUN:
            if any(spell.begin_ns == symptom.since_ns for spell in own):
                return False
            fresh = Spell(teller, symptom.source, is_paused, symptom.since_ns, symptom.at_ns)
            fresh.share, fresh.priority = symptom.count / 1e6, symptom.detail
            self.spells.append(fresh)
            self.spells.sort(key=_order)
            return True
        ended = [s for s in own if s.end_ns == FOREVER and s.begin_ns <= symptom.since_ns]
        for spell in ended:
            spell.end_ns = symptom.since_ns
        return bool(ended)

    def pauser(self, spell: Spell) -> Endpoint:
        """The end that pauses: the teller, or the end beyond it."""
        if not spell.is_paused:
            return spell.teller
        ends = [end for end in (self.subject.a, self.subject.z) if end is not None]
        return next((end for end in ends if end.device != spell.teller.device), Endpoint("the far end"))

    @property
    def is_over(self) -> bool:
        """Nothing is left of it."""
        return not self.spells and all(s.episode.finding.final for state in self.states.values() for s in state)


def _order(spell: Spell) -> tuple[int, str, str, Source, bool]:
    return spell.begin_ns, spell.teller.device, spell.teller.port, spell.source, spell.is_paused


def pauser_of(finding: Finding) -> str:
    """The device that pauses, of a finding of this detector."""
    at = finding.evidence[0].at if finding.evidence else None
    return at.device if at is not None else ""


def paused_of(finding: Finding) -> str:
    """The device that is paused."""
    ends = [end.device for end in (finding.subject.a, finding.subject.z) if end is not None]
    return next((device for device in ends if device != pauser_of(finding)), "")


def step(params: DetectParams, own: LinkStorm, watermark_ns: int) -> tuple[list[Episode], int]:
    """Conclude from the spells; answers what changed, and the watermark at which to look again."""
    by_pauser: dict[Endpoint, list[Spell]] = {}
    for spell in own.spells:
        by_pauser.setdefault(own.pauser(spell), []).append(spell)
    episodes: list[Episode] = []
    due_ns = FOREVER
    for pauser, spells in by_pauser.items():
        runs = list(_runs(ns(params.storm.quiet_s), spells))
        conclusions = [_conclusion(params, own, pauser, run, watermark_ns) for run in runs]
        state, said = fold(own.states.get(pauser.device, ()), conclusions, watermark_ns)
        episodes += said
        due_ns = min(
            due_ns, next_due_ns(conclusions, watermark_ns), *(_quiet_due(params, run, watermark_ns) for run in runs)
        )
        over = [c for c in conclusions if c.final_at_ns is not None and c.final_at_ns <= watermark_ns]
        gone_ns = max((c.end_ns for c in over), default=0)
        own.spells = [s for s in own.spells if s not in spells or s.end_ns > gone_ns]
        own.states[pauser.device] = forget(state, gone_ns + 1)
    return episodes, due_ns


def _quiet_due(params: DetectParams, run: Sequence[Spell], watermark_ns: int) -> int:
    over_ns = _over_ns(params, run)
    return over_ns if over_ns > watermark_ns else FOREVER


def _over_ns(params: DetectParams, run: Sequence[Spell]) -> int:
    """When it is over if nothing follows; FOREVER while an end is held."""
    end_ns = max(spell.end_ns for spell in run)
    return FOREVER if end_ns == FOREVER else end_ns + ns(params.storm.quiet_s)


def _runs(quiet_ns: int, spells: Sequence[Spell]) -> Iterator[list[Spell]]:
    """Spells between which the link was never free for long."""
    run: list[Spell] = []
    for spell in spells:
        end_ns = max((s.end_ns for s in run), default=FOREVER)
        if run and end_ns != FOREVER and spell.begin_ns > end_ns + quiet_ns:
            yield run
            run = []
        run.append(spell)
    if run:
        yield run


def _conclusion(
    params: DetectParams, own: LinkStorm, pauser: Endpoint, run: Sequence[Spell], watermark_ns: int
) -> Conclusion:
    begin_ns, end_ns = run[0].begin_ns, max(spell.end_ns for spell in run)
    over_ns = _over_ns(params, run)
    resolved = over_ns <= watermark_ns
    tellers = list(dict.fromkeys(spell.teller for spell in run))
    ends = [end for end in (own.subject.a, own.subject.z) if end is not None]
    missing = tuple(f"{end.device}/{end.port}" for end in ends if end not in tellers) or (
        ("far end",) if len(ends) < 2 else ()
    )
    stalls = max(spell.stalls for spell in run)
    at_host = own.subject.role == "host-link" and own.subject.a is not None and pauser == own.subject.a
    paused = next((end for end in ends if end != pauser), None)
    victim = f"{paused.device}/{paused.port}" if paused is not None else "the far end"
    worst = max(run, key=lambda spell: spell.share)
    of = f" ({worst.priority})" if worst.priority else ""
    last_ns = max(spell.told_ns if spell.end_ns == FOREVER else spell.end_ns for spell in run)
    finding = Finding(
        id="",
        revision=0,
        final=False,
        condition=Condition.CONGESTION_PFC_STORM,
        status=Status.OPEN,
        severity=Severity.CRITICAL,
        subject=own.subject,
        started_at_ns=begin_ns,
        observed_at_ns=last_ns,
        resolved_at_ns=end_ns if resolved else None,
        detected_at_ns=min(spell.told_ns for spell in run),
        summary=f"{pauser.device}/{pauser.port} pauses {victim}{of} {worst.share:.0%} of the time, nothing gets in",
        cause="pcie" if stalls else "nic" if at_host else "switch",
        evidence=tuple(_evidence(params, pauser, run, worst, stalls, last_ns)),
        confidence=BOTH_ENDS if len(tellers) > 1 else ONE_END,
        coverage=Coverage(seen=len(tellers), expected=2, missing=missing),
        detector=SLUG,
        detector_version=VERSION,
        settings_digest=params.digest,
    )
    final_at = None if over_ns == FOREVER else over_ns + ns(params.lateness_s)
    return Conclusion(begin_ns, min(end_ns, FOREVER - 1), finding, f"{begin_ns}/{pauser.device}", final_at)


def _evidence(
    params: DetectParams, pauser: Endpoint, run: Sequence[Spell], worst: Spell, stalls: float, last_ns: int
) -> Iterator[Evidence]:
    """The end that pauses comes first: it is what the root is followed by."""
    tellers = {spell.teller for spell in run}
    told = "both ends count it" if len(tellers) > 1 else f"{worst.teller.device}/{worst.teller.port} counts it"
    yield Evidence(
        statement=f"{pauser.device}/{pauser.port} pauses the far side {worst.share:.0%} of the time and less than "
        f"{params.storm.traffic:.0%} of its speed comes in; {told}",
        metric=("pfc" if worst.priority else "pause") + ("_rx_frames" if worst.is_paused else "_tx_frames"),
        at=pauser,
        observed=worst.share,
        expected=params.storm.paused,
        comparison="threshold",
        window_start_ns=run[0].begin_ns,
        window_end_ns=last_ns,
    )
    if stalls:
        yield Evidence(
            statement=f"the NIC at {pauser.device}/{pauser.port} waits for PCIe {stalls:.0%} of the time: "
            "its host is the cause, not the fabric",
            metric="pcie_stalled_write_seconds",
            at=pauser,
            observed=stalls,
            expected=params.storm.stalled,
            comparison="threshold",
            window_start_ns=run[0].begin_ns,
            window_end_ns=last_ns,
        )
