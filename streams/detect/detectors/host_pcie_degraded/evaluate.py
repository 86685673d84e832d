"""host/pcie-degraded: the PCIe link of a NIC or GPU trained below what it and its slot can do.

Opens when it has been low for `open_after_s`, unlike the like parts of its host, and is over once it has been full for
`full_s`. What counts as low, and that a GPU that idles says nothing, is decided in measure/monitors/pcie_monitor.py.
What the NIC suffers by it shows in rail_degraded.py, which has this for its parent.
"""

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, field

from streams.detect.evidence.episodes import Conclusion, PublishedEpisodes, finding_defaults, next_final_ns, reconcile
from streams.detect.evidence.link_history import FOREVER
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.wire.models import (
    Cause,
    Condition,
    Coverage,
    Endpoint,
    Episode,
    Evidence,
    Finding,
    Severity,
    Subject,
    Symptom,
)
from streams.wire.symptoms import PcieLink, PcieLinkState, SymptomKind

SLUG = "host/pcie-degraded"
VERSION = "1"

_CAPACITY = 64
"""Changes kept of one link: one that trains anew each minute stays one episode, and is dated as it began."""


@dataclass(slots=True)
class PcieState:
    """One PCIe link that was low: when it changed, in order, and what was said of it."""

    subject: Subject
    symptoms: list[Symptom] = field(default_factory=list)
    state: PublishedEpisodes = ()
    forgotten_ns: int = 0

    def add(self, symptom: Symptom) -> bool:
        """Take a change in; False where it was known already, whatever the reading before it was."""
        if any(_order(symptom) == _order(known) for known in self.symptoms):
            return False
        insort(self.symptoms, symptom, key=_order)
        if len(self.symptoms) > _CAPACITY:
            self.forgotten_ns = max(self.forgotten_ns, self.symptoms.pop(0).at_ns)
        return True

    def forget(self, before_ns: int) -> None:
        """Drop what is older and over."""
        while len(self.symptoms) > 1 and self.symptoms[1].at_ns < before_ns and not self._is_open(self.symptoms[0]):
            self.symptoms.pop(0)
        left = self.symptoms[0] if len(self.symptoms) == 1 else None
        if left is not None and left.kind is SymptomKind.PCIE_RESTORED and left.at_ns < before_ns:
            self.symptoms.clear()
        self.state = tuple(s for s in self.state if s.end_ns >= before_ns or not s.episode.finding.final)

    def _is_open(self, symptom: Symptom) -> bool:
        return any(s.begin_ns <= symptom.at_ns <= s.end_ns and not s.episode.finding.final for s in self.state)


def _order(symptom: Symptom) -> tuple[int, int, float]:
    return symptom.at_ns, symptom.kind, _capacity(symptom)


def _capacity(symptom: Symptom) -> float:
    return symptom.payload.capacity_ratio if isinstance(symptom.payload, PcieLinkState) else 1.0


def _link(symptom: Symptom) -> PcieLink | None:
    return symptom.payload.link if isinstance(symptom.payload, PcieLinkState) else None


@dataclass(frozen=True, slots=True)
class _Spell:
    """It was low from `begin_ns`, and full from `end_ns` on (FOREVER: still low); by how much at worst."""

    begin_ns: int
    end_ns: int
    worst: Symptom


def step(params: DetectParams, own: PcieState, watermark_ns: int) -> tuple[list[Episode], int]:
    """Conclude from all changes; answers what changed, and the watermark at which to look again."""
    conclusions: list[Conclusion] = []
    due_ns = FOREVER
    for spell in _spells(params, own.symptoms):
        opens_ns = spell.begin_ns + ns(params.pcie.open_after_s)
        if spell.end_ns < opens_ns:
            continue
        if opens_ns > watermark_ns:
            due_ns = min(due_ns, opens_ns)
            continue
        conclusions.append(_conclusion(params, own.subject, spell, opens_ns, watermark_ns))
        if spell.end_ns != FOREVER and (full_ns := spell.end_ns + ns(params.pcie.full_s)) > watermark_ns:
            due_ns = min(due_ns, full_ns)
    own.state, episodes = reconcile(own.state, conclusions, watermark_ns, own.forgotten_ns)
    return episodes, min(due_ns, next_final_ns(conclusions, watermark_ns))


def _spells(params: DetectParams, symptoms: Sequence[Symptom]) -> list[_Spell]:
    """The times it was low; those closer than `full_s` are one."""
    spells: list[_Spell] = []
    for symptom in symptoms:
        last = spells[-1] if spells else None
        if symptom.kind is SymptomKind.PCIE_RESTORED:
            if last is not None and last.end_ns == FOREVER:
                spells[-1] = _Spell(last.begin_ns, symptom.at_ns, last.worst)
        elif last is None or (last.end_ns != FOREVER and symptom.at_ns >= last.end_ns + ns(params.pcie.full_s)):
            spells.append(_Spell(symptom.at_ns, FOREVER, symptom))
        else:
            spells[-1] = _Spell(last.begin_ns, FOREVER, min(last.worst, symptom, key=lambda s: (_capacity(s), s.at_ns)))
    return spells


def _conclusion(params: DetectParams, subject: Subject, spell: _Spell, opens_ns: int, watermark_ns: int) -> Conclusion:
    full_ns = spell.end_ns + ns(params.pcie.full_s) if spell.end_ns != FOREVER else FOREVER
    over = full_ns <= watermark_ns
    at = subject.a or Endpoint("")
    share, trained = _capacity(spell.worst), _described(_link(spell.worst))
    finding = Finding(
        **finding_defaults(params, SLUG, VERSION),
        condition=Condition.HOST_PCIE_DEGRADED,
        severity=Severity.WARNING,
        subject=subject,
        started_at_ns=spell.begin_ns,
        observed_at_ns=spell.end_ns if over else opens_ns,
        resolved_at_ns=spell.end_ns if over else None,
        detected_at_ns=opens_ns,
        summary=f"PCIe of {at.device}/{at.port} trained at {trained}",
        cause=Cause.PCIE_WIDTH if _is_narrow(spell.worst) else Cause.PCIE_SPEED,
        evidence=(
            Evidence(
                statement=f"{at.device}/{at.port} trained at {trained}: {share:.0%} of what it can carry",
                metric="pcie_width_lanes" if _is_narrow(spell.worst) else "pcie_speed_gtps",
                at=at,
                observed=share,
                expected=1.0,
                comparison="peers",
                window_start_ns=spell.begin_ns,
                window_end_ns=spell.end_ns if over else opens_ns,
            ),
        ),
        confidence=0.95,
        coverage=Coverage(seen=1, expected=1),
    )
    end_ns = spell.end_ns - 1 if over else FOREVER
    final_at = full_ns + ns(params.lateness_s) if over else None
    return Conclusion(spell.begin_ns, end_ns, finding, str(spell.begin_ns), final_at)


def _described(link: PcieLink | None) -> str:
    if link is None:
        return "less than its maximum"
    return (
        f"x{link.width_lanes} of x{link.width_max_lanes} lanes at {link.speed_gtps:g} of {link.speed_max_gtps:g} GT/s"
    )


def _is_narrow(symptom: Symptom) -> bool:
    """Whether lanes are missing."""
    link = _link(symptom)
    return link is not None and link.width_lanes < link.width_max_lanes
