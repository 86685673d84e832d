"""Spells of an end of a link in which something went on, as `measure` told that they began and were over.

What it was is for the detectors: held by pause (congestion_pfc_storm.py), more comes than goes in
(congestion_incast.py), or much less goes out than before (congestion_collapse.py).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from streams.detect.evidence.episodes import PublishedEpisodes
from streams.detect.evidence.link_history import FOREVER
from streams.wire.models import Endpoint, Source, Subject, Symptom, SymptomsReplaced
from streams.wire.symptoms import (
    CnpThrottledBegan,
    CongestionBegan,
    CongestionEnded,
    CongestionState,
    IncastBegan,
    PauseBegan,
    PcieStall,
    PfcWatchdogStorm,
    ThrottledByPauseBegan,
)

_CAPACITY = 64
"""Spells kept of one link: what comes and goes for hours fills it."""

Began = TypeVar("Began", bound=CongestionBegan)
"""The payload with which the spells of a detector begin."""


@dataclass(slots=True)
class Spell(Generic[Began]):
    """One end as one source reads it was in the state of `began` from `begin_ns` to `end_ns`."""

    reporter: Endpoint
    source: Source
    began: Began
    begin_ns: int
    reported_ns: int
    end_ns: int = FOREVER
    stalls: float = 0.0
    """Share of the time in which the NIC of an end that pauses waited for PCIe."""

    @property
    def is_paused(self) -> bool:
        """Whether the far end pauses; else the reporting end does, or pause is not what it is about."""
        return self.began.state is CongestionState.PAUSE_RECEIVED

    @property
    def is_instant(self) -> bool:
        """A watchdog told of it: that it is so is known of that moment, and of no time."""
        return isinstance(self.began, PfcWatchdogStorm)


@dataclass(slots=True)
class LinkSpells(Generic[Began]):
    """One link: what was told of its ends, and what was said; by the device that pauses."""

    subject: Subject
    spells: list[Spell[Began]] = field(default_factory=list)
    published: dict[str, PublishedEpisodes] = field(default_factory=dict)

    def add(self, observed: Symptom | SymptomsReplaced) -> bool:
        """Take an observation in; False where it was known already, or is over before it was known."""
        if isinstance(observed, SymptomsReplaced):
            return self._replace_since(observed)
        payload, reporter = observed.payload, Endpoint(observed.device, observed.port)
        match payload:
            case PcieStall():
                own = self._own(reporter, observed.source, payload.state)
                for spell in own:
                    if spell.begin_ns == payload.began_ns:
                        spell.stalls = payload.stalled_ratio
                return bool(own)
            case PfcWatchdogStorm():
                at_ns = observed.at_ns
                return self._begin(Spell(reporter, observed.source, cast("Began", payload), at_ns, at_ns, at_ns))
            case PauseBegan() | IncastBegan() | ThrottledByPauseBegan() | CnpThrottledBegan():
                began, begin_ns = cast("Began", payload), payload.began_ns
                return self._begin(Spell(reporter, observed.source, began, begin_ns, observed.at_ns))
            case CongestionEnded():
                last_ns = payload.last_active_ns
                own = self._own(reporter, observed.source, payload.state)
                ended = [s for s in own if s.end_ns == FOREVER and s.begin_ns <= last_ns]
                for spell in ended:
                    spell.end_ns = last_ns
                return bool(ended)
            case _:
                return False

    def _own(self, reporter: Endpoint, source: Source, state: CongestionState) -> list[Spell[Began]]:
        return [s for s in self.spells if (s.reporter, s.source, s.began.state) == (reporter, source, state)]

    def _begin(self, fresh: Spell[Began]) -> bool:
        own = self._own(fresh.reporter, fresh.source, fresh.began.state)
        if any(spell.begin_ns == fresh.begin_ns and spell.is_instant == fresh.is_instant for spell in own):
            return False
        self.spells.append(fresh)
        self.spells.sort(key=_order)
        self._bound()
        return True

    def _replace_since(self, replaced: SymptomsReplaced) -> bool:
        """Take back what was told of later readings, and take in what replaces it."""
        own = self._own(Endpoint(replaced.device, replaced.port), replaced.source, replaced.state)
        timed = [spell for spell in own if not spell.is_instant]
        gone = [spell for spell in timed if spell.reported_ns > replaced.since_ns]
        self.spells = [spell for spell in self.spells if spell not in gone]
        reopened = [spell for spell in timed if spell not in gone and replaced.since_ns <= spell.end_ns < FOREVER]
        for spell in reopened:
            spell.end_ns = FOREVER
        added = [self.add(symptom) for symptom in replaced.replacements]
        return bool(gone or reopened) or any(added)

    def _bound(self) -> None:
        """The oldest two are one where there are too many, so that when it began is kept."""
        if len(self.spells) > _CAPACITY and self.spells[1].end_ns != FOREVER:
            gone = self.spells.pop(1)
            self.spells[0].end_ns = max(self.spells[0].end_ns, gone.end_ns)

    def pause_origin(self, spell: Spell[Began]) -> Endpoint:
        """The end that pauses: the teller, or the end beyond it."""
        if not spell.is_paused:
            return spell.reporter
        ends = [end for end in (self.subject.a, self.subject.z) if end is not None]
        return next((end for end in ends if end.device != spell.reporter.device), Endpoint("the far end"))

    @property
    def is_closed(self) -> bool:
        """Nothing is left of it."""
        return not self.spells and all(s.episode.finding.final for state in self.published.values() for s in state)


def _order(spell: Spell[Any]) -> tuple[int, str, str, Source, bool]:
    return spell.begin_ns, spell.reporter.device, spell.reporter.port, spell.source, spell.is_paused


def ends_at_ns(quiet_ns: int, run: Sequence[Spell[Any]]) -> int:
    """When it is over if nothing follows; FOREVER while an end is still so."""
    end_ns = max(spell.end_ns for spell in run)
    return FOREVER if end_ns == FOREVER else end_ns + quiet_ns + report_delay_ns(quiet_ns, run)


def report_delay_ns(quiet_ns: int, run: Iterable[Spell[Any]]) -> int:
    """How much later than it begins the next will be told, as these were: what begins within `quiet_ns` is part of it.

    A hole in the readings makes that seem long; it is at most twice `quiet_ns`.
    """
    return min(2 * quiet_ns, min((spell.reported_ns - spell.begin_ns for spell in run), default=0))


def group_spells(quiet_ns: int, spells: Sequence[Spell[Began]]) -> Iterator[list[Spell[Began]]]:
    """Spells between which the link was never free for long."""
    run: list[Spell[Began]] = []
    for spell in spells:
        end_ns = max((s.end_ns for s in run), default=FOREVER)
        if run and end_ns != FOREVER and spell.begin_ns > end_ns + quiet_ns:
            yield run
            run = []
        run.append(spell)
    if run:
        yield run
