"""Spells of congestion: intervals in which an end of a link was in one state, as `measure` reported them.

The states are paused without traffic (link held by pause), incast, throttled by pause, throttled by CNPs, slowed
by CNPs or by losses, and a full link; which ones a detector retains is its own decision.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, cast

from streams.detect.evidence.link_history import FOREVER
from streams.detect.evidence.subjects import subject_ends
from streams.wire.models import Endpoint, Source, Subject, Symptom, SymptomsReplaced
from streams.wire.symptoms import (
    CnpThrottledBegan,
    CongestionBegan,
    CongestionEnded,
    CongestionState,
    IncastBegan,
    LinkFullBegan,
    PauseBegan,
    PcieStall,
    PfcWatchdogStorm,
    SlowedByCnpBegan,
    SlowedByLossBegan,
    ThrottledByPauseBegan,
)

_CAPACITY = 64
"""Spells retained of one link: a state that comes and goes for hours fills it."""

Began = TypeVar("Began", bound=CongestionBegan)
"""The payload with which the spells of a detector begin."""


@dataclass(frozen=True, slots=True)
class Spell(Generic[Began]):
    """One end, as one source reads it, was in the state of `began` from `begin_ns` to `end_ns`."""

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
        """The far end pauses; otherwise the reporting end does, or the spell is not about pause."""
        return self.began.state is CongestionState.PAUSE_RECEIVED

    @property
    def is_instant(self) -> bool:
        """A watchdog reported it: the state is known at that moment, and has no duration."""
        return isinstance(self.began, PfcWatchdogStorm)

    @property
    def key(self) -> tuple[Endpoint, Source, CongestionState]:
        """Spells of one key follow each other."""
        return self.reporter, self.source, self.began.state


@dataclass(frozen=True, slots=True)
class LinkSpells(Generic[Began]):
    """The spells of one link, in order of time."""

    subject: Subject
    spells: tuple[Spell[Began], ...] = ()

    def observe(self, observed: Symptom | SymptomsReplaced) -> "LinkSpells[Began]":
        """Return the spells after an observation; itself where it adds nothing."""
        if isinstance(observed, SymptomsReplaced):
            return self._replace_since(observed)
        payload, reporter = observed.payload, Endpoint(observed.device, observed.port)
        match payload:
            case PcieStall():
                key = (reporter, observed.source, payload.state)
                changes = {s: payload.stalled_ratio for s in self._of(key) if s.begin_ns == payload.began_ns}
                return self._with(tuple(replace(s, stalls=changes.get(s, s.stalls)) for s in self.spells), changes)
            case PfcWatchdogStorm():
                at_ns = observed.at_ns
                return self._begin(Spell(reporter, observed.source, cast("Began", payload), at_ns, at_ns, at_ns))
            case (
                PauseBegan() | IncastBegan() | ThrottledByPauseBegan() | CnpThrottledBegan() | SlowedByCnpBegan()
                | SlowedByLossBegan() | LinkFullBegan()
            ):  # fmt: skip
                began, begin_ns = cast("Began", payload), payload.began_ns
                return self._begin(Spell(reporter, observed.source, began, begin_ns, observed.at_ns))
            case CongestionEnded():
                last_ns, key = payload.last_active_ns, (reporter, observed.source, payload.state)
                ended = {s for s in self._of(key) if s.end_ns == FOREVER and s.begin_ns <= last_ns}
                spells = tuple(replace(s, end_ns=last_ns) if s in ended else s for s in self.spells)
                return self._with(spells, ended)
            case _:
                return self

    def retain(self, is_retained: Callable[[Spell[Began]], bool]) -> "LinkSpells[Began]":
        """Return only the spells that are retained."""
        return replace(self, spells=tuple(filter(is_retained, self.spells)))

    def _with(self, spells: tuple[Spell[Began], ...], changed: Collection[object]) -> "LinkSpells[Began]":
        return replace(self, spells=spells) if changed else self

    def _of(self, key: tuple[Endpoint, Source, CongestionState]) -> list[Spell[Began]]:
        return [spell for spell in self.spells if spell.key == key]

    def _begin(self, fresh: Spell[Began]) -> "LinkSpells[Began]":
        own = self._of(fresh.key)
        if any(spell.begin_ns == fresh.begin_ns and spell.is_instant == fresh.is_instant for spell in own):
            return self
        return replace(self, spells=_bounded(sorted([*self.spells, fresh], key=_order)))

    def _replace_since(self, replaced: SymptomsReplaced) -> "LinkSpells[Began]":
        """Take back later symptoms, and apply those that replace them."""
        key = (Endpoint(replaced.device, replaced.port), replaced.source, replaced.state)
        timed = [spell for spell in self._of(key) if not spell.is_instant]
        gone = {spell for spell in timed if spell.reported_ns > replaced.since_ns}
        reopened = {spell for spell in timed if spell not in gone and replaced.since_ns <= spell.end_ns < FOREVER}
        spells = (spell for spell in self.spells if spell not in gone)
        result = self._with(
            tuple(replace(spell, end_ns=FOREVER) if spell in reopened else spell for spell in spells), gone | reopened
        )
        for symptom in replaced.replacements:
            result = result.observe(symptom)
        return result

    def pause_origin(self, spell: Spell[Began]) -> Endpoint:
        """Return the end that pauses: the reporter, or the end beyond it."""
        if not spell.is_paused:
            return spell.reporter
        ends = subject_ends(self.subject)
        return next((end for end in ends if end.device != spell.reporter.device), Endpoint("the far end"))


def _bounded(spells: list[Spell[Began]]) -> tuple[Spell[Began], ...]:
    """Return the spells with the oldest two joined where there are too many, so that the begin is retained."""
    if len(spells) > _CAPACITY and spells[1].end_ns != FOREVER:
        gone = spells.pop(1)
        spells[0] = replace(spells[0], end_ns=max(spells[0].end_ns, gone.end_ns))
    return tuple(spells)


def _order(spell: Spell[Any]) -> tuple[int, str, str, Source, bool]:
    return spell.begin_ns, spell.reporter.device, spell.reporter.port, spell.source, spell.is_paused


def ends_at_ns(quiet_ns: int, spells: Sequence[Spell[Any]]) -> int:
    """Return when a group of spells is over if none follows; FOREVER while an end is in the state."""
    end_ns = max(spell.end_ns for spell in spells)
    return FOREVER if end_ns == FOREVER else end_ns + quiet_ns + report_delay_ns(quiet_ns, spells)


def report_delay_ns(quiet_ns: int, spells: Iterable[Spell[Any]]) -> int:
    """Return how long after its begin a next spell is reported, as these were; it belongs to them within `quiet_ns`.

    A gap in the readings makes the delay seem long; it is at most twice `quiet_ns`.
    """
    return min(2 * quiet_ns, min((spell.reported_ns - spell.begin_ns for spell in spells), default=0))


def group_spells(quiet_ns: int, spells: Sequence[Spell[Began]]) -> Iterator[list[Spell[Began]]]:
    """Yield groups of spells between which the link was never free of the state for `quiet_ns`."""
    group: list[Spell[Began]] = []
    for spell in spells:
        end_ns = max((s.end_ns for s in group), default=FOREVER)
        if group and end_ns != FOREVER and spell.begin_ns > end_ns + quiet_ns:
            yield group
            group = []
        group.append(spell)
    if group:
        yield group
