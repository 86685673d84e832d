"""Spells of an end of a link in which something went on, as `measure` told that they began and were over.

What it was is for the detectors: held by pause (congestion_pfc_storm.py), more comes than goes in
(congestion_incast.py), or much less goes out than before (congestion_collapse.py).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from streams.detect.evidence.episodes import PublishedEpisodes
from streams.detect.evidence.link_history import FOREVER
from streams.wire.models import Endpoint, Source, Subject, Symptom, SymptomKind

_PAUSED = (SymptomKind.PAUSE_RECEIVED_BEGAN, SymptomKind.PAUSE_RECEIVED_ENDED)
_BEGUN = (
    SymptomKind.PAUSE_RECEIVED_BEGAN,
    SymptomKind.PAUSE_SENT_BEGAN,
    SymptomKind.INCAST_BEGAN,
    SymptomKind.THROTTLED_BY_PAUSE_BEGAN,
    SymptomKind.CNP_THROTTLED_BEGAN,
)


_CAPACITY = 64
"""Spells kept of one link: what comes and goes for hours fills it."""


@dataclass(slots=True)
class Spell:
    """One end as one source reads it was held from `begin_ns` to `end_ns`, by itself or by the far end."""

    reporter: Endpoint
    source: Source
    is_paused: bool
    begin_ns: int
    reported_ns: int
    end_ns: int = FOREVER
    share: float = 0.0
    detail: str = ""
    stalls: float = 0.0

    @property
    def is_instant(self) -> bool:
        """A watchdog told of it: that it is so is known of that moment, and of no time."""
        return self.begin_ns == self.end_ns


@dataclass(slots=True)
class LinkSpells:
    """One link: what was told of its ends, and what was said; by the device that pauses."""

    subject: Subject
    spells: list[Spell] = field(default_factory=list)
    published: dict[str, PublishedEpisodes] = field(default_factory=dict)

    def add(self, symptom: Symptom) -> bool:
        """Take an observation in; False where it was known already, or is over before it was known."""
        teller, is_paused = Endpoint(symptom.device, symptom.port), symptom.kind in _PAUSED
        own = [s for s in self.spells if (s.reporter, s.source, s.is_paused) == (teller, symptom.source, is_paused)]
        if symptom.kind is SymptomKind.PCIE_STALLED:
            for spell in own:
                if spell.begin_ns == symptom.since_ns:
                    spell.stalls = symptom.count / 1e6
            return bool(own)
        if symptom.kind in _BEGUN:
            begin_ns = symptom.at_ns if symptom.by_event else symptom.since_ns
            if any(spell.begin_ns == begin_ns and spell.is_instant == symptom.by_event for spell in own):
                return False
            fresh = Spell(teller, symptom.source, is_paused, begin_ns, symptom.at_ns)
            fresh.end_ns = begin_ns if symptom.by_event else FOREVER
            fresh.share, fresh.detail = symptom.count / 1e6, symptom.detail
            self.spells.append(fresh)
            self.spells.sort(key=_order)
            self._bound()
            return True
        if symptom.at_ns == symptom.since_ns:
            return self._anew(own, symptom)
        ended = [s for s in own if s.end_ns == FOREVER and s.begin_ns <= symptom.since_ns]
        for spell in ended:
            spell.end_ns = symptom.since_ns
        return bool(ended)

    def _anew(self, own: Sequence[Spell], symptom: Symptom) -> bool:
        """What was told of readings since then is told anew, in so many symptoms that follow."""
        timed = [spell for spell in own if not spell.is_instant]
        gone = [spell for spell in timed if spell.reported_ns > symptom.at_ns]
        self.spells = [spell for spell in self.spells if spell not in gone]
        reopened = [spell for spell in timed if spell not in gone and symptom.at_ns <= spell.end_ns < FOREVER]
        for spell in reopened:
            spell.end_ns = FOREVER
        return bool(gone or reopened) and not symptom.count

    def _bound(self) -> None:
        """The oldest two are one where there are too many, so that when it began is kept."""
        if len(self.spells) > _CAPACITY and self.spells[1].end_ns != FOREVER:
            gone = self.spells.pop(1)
            self.spells[0].end_ns = max(self.spells[0].end_ns, gone.end_ns)

    def pause_origin(self, spell: Spell) -> Endpoint:
        """The end that pauses: the teller, or the end beyond it."""
        if not spell.is_paused:
            return spell.reporter
        ends = [end for end in (self.subject.a, self.subject.z) if end is not None]
        return next((end for end in ends if end.device != spell.reporter.device), Endpoint("the far end"))

    @property
    def is_closed(self) -> bool:
        """Nothing is left of it."""
        return not self.spells and all(s.episode.finding.final for state in self.published.values() for s in state)


def _order(spell: Spell) -> tuple[int, str, str, Source, bool]:
    return spell.begin_ns, spell.reporter.device, spell.reporter.port, spell.source, spell.is_paused


def ends_at_ns(quiet_ns: int, run: Sequence[Spell]) -> int:
    """When it is over if nothing follows; FOREVER while an end is still so."""
    end_ns = max(spell.end_ns for spell in run)
    return FOREVER if end_ns == FOREVER else end_ns + quiet_ns + report_delay_ns(quiet_ns, run)


def report_delay_ns(quiet_ns: int, run: Iterable[Spell]) -> int:
    """How much later than it begins the next will be told, as these were: what begins within `quiet_ns` is part of it.

    A hole in the readings makes that seem long; it is at most twice `quiet_ns`.
    """
    return min(2 * quiet_ns, min((spell.reported_ns - spell.begin_ns for spell in run), default=0))


def group_spells(quiet_ns: int, spells: Sequence[Spell]) -> Iterator[list[Spell]]:
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
