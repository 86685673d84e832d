"""link/flap: a link that keeps going down and coming back.

Opens when one of the presets' number of downs falls inside its window; resolves after `quiet_s` without a transition.
Downs at one end are the largest of what its sources say, never their sum, and of two ends the larger. What a person
or a restart explains is left out. A port that stays down is not a flap; see link_down.py.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate

from streams.detect.detectors.link_down.evaluate import BOTH_ENDS, ONE_END
from streams.detect.detectors.link_flap.params import FLAP_PRESETS, FlapPreset
from streams.detect.evidence.episodes import Conclusion, PublishedEpisodes, finding_defaults, next_final_ns, reconcile
from streams.detect.evidence.link_history import FOREVER, Interval, LinkHistory, excused_intervals, growth_of
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.intervals import closed, overlaps_any
from streams.wire.models import (
    Cause,
    Condition,
    Endpoint,
    Episode,
    Evidence,
    Finding,
    Severity,
    Symptom,
)
from streams.wire.symptoms import SymptomKind

SLUG = "link/flap"
VERSION = "1"

_DOWNS = (SymptomKind.WENT_DOWN, SymptomKind.DOWNS_COUNTED, SymptomKind.TRANSITIONS_COUNTED)
_HOW = {
    SymptomKind.WENT_DOWN: ("oper_up", "its state"),
    SymptomKind.DOWNS_COUNTED: ("link_down_events", "its counter of downs"),
    SymptomKind.TRANSITIONS_COUNTED: ("link_transitions", "its counter of transitions"),
}


@dataclass(frozen=True, slots=True)
class _Teller:
    """One way in which one end tells of downs: event times, running totals, and two transitions for one down."""

    end: Endpoint
    kind: SymptomKind
    by_event: bool
    times: tuple[int, ...]
    totals: tuple[int, ...]
    begun: tuple[int, ...]

    def downs(self, after_ns: int, until_ns: int) -> tuple[int, int]:
        """(downs, when the first of them began) in (after, until]; an odd transition counts as a down."""
        first, last = bisect_right(self.times, after_ns), bisect_right(self.times, until_ns)
        if first == last:
            return 0, FOREVER
        count = self.totals[last - 1] - (self.totals[first - 1] if first else 0)
        return (-(-count // 2) if self.kind is SymptomKind.TRANSITIONS_COUNTED else count), self.begun[first]


@dataclass(frozen=True, slots=True)
class _Hit:
    """A preset met: at `at_ns`, by so many downs since `since_ns`, as `teller` says."""

    at_ns: int
    since_ns: int
    downs: int
    teller: _Teller
    preset: str


def step(
    params: DetectParams, state: PublishedEpisodes, history: LinkHistory, restarts: Mapping[str, list[Interval]],
    watermark_ns: int, worked_on_ns: int = 0,
) -> tuple[PublishedEpisodes, list[Episode], int]:  # fmt: skip
    """Conclude from the history; answers the new state, what changed, and the watermark at which to look again.

    What people did at its ends until `worked_on_ns` is no history of the link: it does not count with what comes later.
    """
    spans = excused_intervals(params.link, history, restarts)
    seen = [s for s in history.symptoms if _counts(s) and not overlaps_any(spans, closed(_begin_ns(s), s.at_ns))]
    tellers = {
        name: _tellers(preset, history, [*spans, *_booting(preset, history, restarts)], watermark_ns)
        for name in params.flap.presets
        if seen and (preset := FLAP_PRESETS[name])
    }
    conclusions: list[Conclusion] = []
    due = min((_after(t, watermark_ns) for t in _outages_due(params, history)), default=FOREVER)
    for run in _runs(seen, ns(params.flap.quiet_s)):
        hits = list(_hits(tellers, run, worked_on_ns))
        if hits:
            before_ns = conclusions[-1].end_ns if conclusions else 0
            conclusions.append(_conclusion(params, history, run, hits, before_ns, watermark_ns))
            due = min(due, _after(run[-1].at_ns + ns(params.flap.quiet_s), watermark_ns))
    state, episodes = reconcile(state, conclusions, watermark_ns, history.pruned_until_ns)
    return state, episodes, min(due, next_final_ns(conclusions, watermark_ns))


def _after(at_ns: int, watermark_ns: int) -> int:
    return at_ns if at_ns > watermark_ns else FOREVER


def _counts(symptom: Symptom) -> bool:
    """A transition, not the state in which a port was met first."""
    if symptom.kind in (SymptomKind.WENT_DOWN, SymptomKind.CAME_UP):
        return symptom.by_event or symptom.since_ns > 0
    return symptom.kind in _DOWNS


def _begin_ns(symptom: Symptom) -> int:
    """Return when the downs of a symptom began at the earliest."""
    return symptom.since_ns if growth_of(symptom) else symptom.at_ns


def _runs(seen: list[Symptom], quiet_ns: int) -> Iterator[list[Symptom]]:
    """Observations between which there was no quiet of `quiet_ns`."""
    run: list[Symptom] = []
    for symptom in seen:
        if run and symptom.at_ns - run[-1].at_ns > quiet_ns:
            yield run
            run = []
        run.append(symptom)
    if run:
        yield run


def _hits(tellers: Mapping[str, list[_Teller]], run: list[Symptom], worked_on_ns: int) -> Iterator[_Hit]:
    """Every observation of the run at which a preset is met, with the most that any of its tellers says."""
    begin = run[0].at_ns
    after_ns = worked_on_ns if worked_on_ns < begin else 0
    for name, own in tellers.items():
        preset = FLAP_PRESETS[name]
        last = run[-1].at_ns + ns(preset.outage_s)  # an outage that still lasts counts that much after it began
        for at_ns in sorted({t for teller in own for t in teller.times if begin <= t <= last}):
            counted = ((teller.downs(max(after_ns, at_ns - ns(preset.window_s)), at_ns), teller) for teller in own)
            (downs, since_ns), teller = max(counted, key=lambda c: (c[0][0], -c[0][1]))
            if downs >= preset.downs:
                yield _Hit(at_ns, since_ns, downs, teller, name)


def _booting(preset: FlapPreset, history: LinkHistory, restarts: Mapping[str, list[Interval]]) -> Iterator[Interval]:
    """When a device at an end was so young that this preset says nothing."""
    for end in history.ends():
        for since, at in restarts.get(end.device, ()):
            yield since, at + ns(preset.boot_grace_s)


def _tellers(preset: FlapPreset, history: LinkHistory, spans: list[Interval], watermark_ns: int) -> list[_Teller]:
    """Who tells of downs that this preset counts, but for what `spans` explain."""
    tellers = []
    for end in history.ends():
        if preset.outage_s:
            told = {(SymptomKind.WENT_DOWN, False, 0): list(_outages(preset, history, end, watermark_ns))}
        else:
            told = defaultdict(list)
            for s in history.at(end):
                if s.kind in _DOWNS and _counts(s):
                    told[s.kind, s.by_event, int(s.source)].append((_begin_ns(s), s.at_ns, growth_of(s) or 1))
        for (kind, by_event, _), downs in told.items():
            kept = [
                (at, n, since if preset.outage_s else at)
                for since, at, n in downs
                if not overlaps_any(spans, closed(since, at))
            ]
            if kept:
                times, counts, begun = zip(*kept, strict=True)
                tellers.append(_Teller(end, kind, by_event, times, tuple(accumulate(counts)), begun))
    return tellers


def _outages(
    preset: FlapPreset, history: LinkHistory, end: Endpoint, watermark_ns: int
) -> Iterator[tuple[int, int, int]]:
    """Outages that lasted, as (begin, when that was known, 1)."""
    for begin, until in history.downs(end):
        known = until if preset.recovered else begin + ns(preset.outage_s)
        if known != FOREVER and known <= min(until, max(watermark_ns, begin)) and until - begin >= ns(preset.outage_s):
            yield begin, known, 1


def _outages_due(params: DetectParams, history: LinkHistory) -> Iterator[int]:
    """When outages that still last will count."""
    for preset in (FLAP_PRESETS[name] for name in params.flap.presets):
        if preset.outage_s and not preset.recovered:
            yield from (begin + ns(preset.outage_s) for end in history.ends() for begin, _ in history.downs(end))


def _conclusion(
    params: DetectParams, history: LinkHistory, run: list[Symptom], hits: list[_Hit], before_ns: int, watermark_ns: int
) -> Conclusion:
    """`before_ns` is when the episode before this one ended: what that one counted does not begin this one."""
    begin, last = run[0].at_ns, run[-1].at_ns
    first = min(hits, key=lambda hit: (hit.at_ns, hit.since_ns))
    most = max(hits, key=lambda hit: (hit.downs, -hit.at_ns))
    quiet = ns(params.flap.quiet_s)
    resolved = watermark_ns >= last + quiet
    told = {(s.device, s.port): Endpoint(s.device, s.port) for s in run}
    tellers = [end for end in history.ends() if (end.device, end.port) in told]
    finding = Finding(
        **finding_defaults(params, SLUG, VERSION),
        condition=Condition.LINK_FLAP,
        severity=Severity.WARNING,
        subject=history.subject,
        started_at_ns=first.since_ns if first.since_ns > before_ns else begin,
        observed_at_ns=last,
        resolved_at_ns=last if resolved else None,
        detected_at_ns=first.at_ns,
        summary=f"{' -- '.join(f'{e.device}/{e.port}' for e in history.ends())} went down {most.downs} times",
        cause=Cause.UNKNOWN,
        evidence=tuple(_evidence(end, hits, run) for end in tellers),
        confidence=BOTH_ENDS if len(tellers) > 1 else ONE_END,
        coverage=history.coverage(tellers),
    )
    downs = tuple(dict.fromkeys(s.at_ns for s in run if s.kind is SymptomKind.WENT_DOWN))
    return Conclusion(begin, last, finding, str(begin), last + quiet + ns(params.lateness_s), downs)


def _evidence(end: Endpoint, hits: list[_Hit], run: list[Symptom]) -> Evidence:
    """What one end says: its best teller where that met a preset, else that it saw transitions."""
    own = [hit for hit in hits if hit.teller.end == end]
    if not own:
        at = [s.at_ns for s in run if (s.device, s.port) == (end.device, end.port)]
        return Evidence(
            f"{end.device}/{end.port} changed state or counted changes {len(at)} times", at=end,
            comparison="both-ends", window_start_ns=at[0], window_end_ns=at[-1],
        )  # fmt: skip
    best = max(own, key=lambda hit: (hit.downs, -hit.at_ns))
    metric, how = _HOW[best.teller.kind]
    preset = FLAP_PRESETS[best.preset]
    return Evidence(
        statement=f"{end.device}/{end.port} went down {best.downs} times in {preset.window_s:g} s"
        f" by {'its events' if best.teller.by_event else how} (preset {best.preset})",
        metric=metric,
        at=end,
        observed=float(best.downs),
        expected=float(preset.downs),
        comparison="threshold",
        window_start_ns=best.since_ns,
        window_end_ns=best.at_ns,
    )
