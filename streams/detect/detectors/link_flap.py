"""link/flap: detects a link that repeatedly goes down and recovers.

Opens when the downs of a preset fall within its window; resolves after `quiet_s` without a transition. Downs that an
administrative down or a restart excuses do not count. A port that stays down is not a flap; see link_down.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from streams.detect.detector import (
    Context,
    Detector,
    Evaluation,
    FaultOf,
    JobDomain,
    Placement,
    follow_link,
    link_follower,
)
from streams.detect.evidence.episodes import Conclusion, PublishedEpisodes, confidence_of, evidence_of
from streams.detect.evidence.link_history import (
    FOREVER,
    FoldedDowns,
    LinkHistory,
    excused_intervals,
    growth_of,
    is_transition,
)
from streams.detect.evidence.port_faults import down_cause, fault_evidence, reported_faults
from streams.detect.evidence.subjects import link_coverage, link_name
from streams.detect.fabric_side import FabricSide, Loss, SeverityContext, link_keys
from streams.detect.thresholds import Seconds, Thresholds, ns
from streams.fabric.catalogue import Metric
from streams.fabric.intervals import Interval, closed, overlaps_any, split_at_gaps
from streams.fabric.inventory_rows import HOST_LINK
from streams.wire.models import Condition, Endpoint, Evidence, Finding, Source, Symptom
from streams.wire.symptoms import SymptomKind


class FlapPreset(Thresholds):
    """Opens when at least `downs` outages of at least `outage_s` begin within `window_s`.

    With `recovered`, only ended outages count. `boot_grace_s` excludes outages within that time of a restart.
    """

    downs: Annotated[int, Field(ge=1)]
    window_s: Seconds
    outage_s: Annotated[float, Field(ge=0)] = 0
    recovered: bool = False
    boot_grace_s: Annotated[float, Field(ge=0)] = 0


FLAP_PRESETS: dict[str, FlapPreset] = {
    # Arista EOS, Cisco IOS, Huawei and OcNOS disable a port at five flaps in ten seconds.
    "switch-errdisable": FlapPreset(downs=5, window_s=10),
    # NVIDIA's health validation fails a link for one outage of 30 s or more.
    "health-validation": FlapPreset(downs=1, window_s=86_400, outage_s=30),
    # gpud reports a flap after three recoveries from downs of 25 s or more.
    "recoveries": FlapPreset(downs=3, window_s=86_400, outage_s=25, recovered=True),
    # AzNHC: five in 24 hours.
    "daily": FlapPreset(downs=5, window_s=86_400),
    # OCI: any in six hours, but not in the 30 minutes after boot.
    "any": FlapPreset(downs=1, window_s=21_600, boot_grace_s=1_800),
    # NVSentinel's design: three in ten minutes.
    "burst": FlapPreset(downs=3, window_s=600),
}


class FlapParams(Thresholds):
    """`[detect.flap]`: the presets that apply (any of them opens an episode), and when an episode closes."""

    presets: tuple[str, ...] = ("burst", "daily")
    """The presets that apply; any of them opens an episode. docs/detectors/link.md lists them."""
    quiet_s: ClassVar[float] = 600
    """Closes after this time without a transition: the window of the preset `burst`."""

    @model_validator(mode="after")
    def _presets_exist(self) -> Self:
        if unknown := [name for name in self.presets if name not in FLAP_PRESETS]:
            raise ValueError(f"no such preset: {', '.join(unknown)} (there are {', '.join(FLAP_PRESETS)})")
        if not self.presets:
            raise ValueError("at least one preset is needed")
        return self


_Observed = Symptom | FoldedDowns
"""A transition, or the downs of a minute whose observations were dropped."""


@dataclass(frozen=True, slots=True)
class DownCounter:
    """The downs of one end by one kind of evidence: event times, running totals, and the start of each down."""

    end: Endpoint
    kind: SymptomKind
    by_event: bool
    times: tuple[int, ...]
    totals: tuple[int, ...]
    begun: tuple[int, ...]
    from_down: tuple[bool, ...]
    """Transition -> whether the port was down before it, so that the first transition was an up."""
    folded: int = 0
    """The first entries whose observations were dropped; each counts only if it is in an interval as a whole."""

    def downs(self, after_ns: int, until_ns: int) -> tuple[int, int]:
        """Return (downs, start of the first) in (after, until]; two transitions are a down.

        An odd transition is a down too, unless the port was down before the first.
        """
        first, last = bisect_right(self.times, after_ns), bisect_right(self.times, until_ns)
        while first < min(last, self.folded) and self.begun[first] <= after_ns:
            first += 1
        if first == last:
            return 0, FOREVER
        count = self.totals[last - 1] - (self.totals[first - 1] if first else 0)
        if self.kind is SymptomKind.TRANSITIONS_COUNTED:
            count = (count + (not self.from_down[first])) // 2
        return count, self.begun[first]


@dataclass(frozen=True, slots=True)
class Hit:
    """A preset is met at `at_ns`, by the downs since `since_ns` in one counter."""

    at_ns: int
    since_ns: int
    downs: int
    counter: DownCounter
    preset: str


def begin_ns(observed: _Observed) -> int:
    """Return the earliest time at which the downs of an observation began."""
    if isinstance(observed, FoldedDowns):
        return observed.begin_ns
    return observed.since_ns if growth_of(observed) else observed.at_ns


def _first_ns(observed: _Observed) -> int:
    return observed.begin_ns if isinstance(observed, FoldedDowns) else observed.at_ns


def find_hits(counters: Mapping[str, list[DownCounter]], run: Sequence[_Observed], before_ns: int) -> Iterator[Hit]:
    """Yield each observation of a run at which a preset is met by downs after `before_ns`, with the largest count."""
    begin = _first_ns(run[0])
    for name, own in counters.items():
        preset = FLAP_PRESETS[name]
        last = max(one.at_ns for one in run) + ns(preset.outage_s)  # an open outage counts this long after its start
        for at_ns in sorted({t for counter in own for t in counter.times if begin <= t <= last}):
            counted = ((c.downs(max(before_ns, at_ns - ns(preset.window_s)), at_ns), c) for c in own)
            (downs, since_ns), counter = max(counted, key=lambda c: (c[0][0], -c[0][1]))
            if downs >= preset.downs:
                yield Hit(at_ns, since_ns, downs, counter, name)


def boot_intervals(
    preset: FlapPreset, history: LinkHistory, restarts: Mapping[str, list[Interval]]
) -> Iterator[Interval]:
    """Yield the boot grace of a preset after each restart of a device at an end."""
    for end in history.ends():
        for since, at in restarts.get(end.device, ()):
            yield since, at + ns(preset.boot_grace_s)


def count_downs(
    preset: FlapPreset, history: LinkHistory, excused: list[Interval], watermark_ns: int
) -> list[DownCounter]:
    """Return the counters of the downs that a preset counts, without excused ones."""
    counters = []
    for end in history.ends():
        found: dict[tuple[SymptomKind, bool, int], list[tuple[int, int, int]]] = defaultdict(list)
        folded: set[Interval] = set()
        states = [s for s in history.at(end) if s.kind in (SymptomKind.WENT_DOWN, SymptomKind.CAME_UP)]
        if preset.outage_s:
            found[SymptomKind.WENT_DOWN, False, 0] = list(_outages(preset, history, end, watermark_ns))
        else:
            for one in history.folded:
                if (one.device, one.port) == (end.device, end.port) and one.count:
                    found[one.kind, one.by_event, int(one.source)].append((one.begin_ns, one.end_ns, one.count))
                    folded.add((one.begin_ns, one.end_ns))
            for s in history.at(end):
                if s.kind is not SymptomKind.CAME_UP and is_transition(s):
                    found[s.kind, s.by_event, int(s.source)].append((begin_ns(s), s.at_ns, growth_of(s) or 1))
        for (kind, by_event, _), downs in found.items():
            counted = [
                (
                    at,
                    n,
                    since if preset.outage_s or (since, at) in folded else at,
                    _was_down(history, end, states, since),
                )
                for since, at, n in downs
                if not overlaps_any(excused, closed(since, at))
            ]
            if counted:
                times, counts, begun, from_down = zip(*counted, strict=True)
                count = sum((since, at) in folded for since, at in zip(begun, times, strict=True))
                counters.append(
                    DownCounter(end, kind, by_event, times, tuple(accumulate(counts)), begun, from_down, count)
                )
    return counters


def _was_down(history: LinkHistory, end: Endpoint, states: Sequence[Symptom], at_ns: int) -> bool:
    """Return whether an end was down at a time, by its last state; before the first state, by the opposite of it.

    If observations since then were pruned, one with the state may be among them.
    """
    place = bisect_right(states, at_ns, key=attrgetter("at_ns"))
    if place:
        return states[place - 1].kind is SymptomKind.WENT_DOWN
    if end.device in history.down_since or (states and states[0].kind is SymptomKind.CAME_UP):
        return True
    return history.pruned_until_ns >= at_ns


def _outages(
    preset: FlapPreset, history: LinkHistory, end: Endpoint, watermark_ns: int
) -> Iterator[tuple[int, int, int]]:
    """Yield outages that were long enough, as (start, time at which that was known, 1)."""
    for begin, until in history.downs(end):
        known = until if preset.recovered else begin + ns(preset.outage_s)
        if known != FOREVER and known <= min(until, max(watermark_ns, begin)) and until - begin >= ns(preset.outage_s):
            yield begin, known, 1


def open_outages_due(params: FlapParams, history: LinkHistory) -> Iterator[int]:
    """Yield the times at which open outages will be long enough to count."""
    for preset in (FLAP_PRESETS[name] for name in params.presets):
        if preset.outage_s and not preset.recovered:
            yield from (begin + ns(preset.outage_s) for end in history.ends() for begin, _ in history.downs(end))


_METRICS = {
    SymptomKind.WENT_DOWN: ("oper_up", "its state"),
    SymptomKind.DOWNS_COUNTED: ("link_down_events", "its counter of downs"),
    SymptomKind.TRANSITIONS_COUNTED: ("link_transitions", "its counter of transitions"),
}


def _conclusion(
    params: FlapParams, context: Context, history: LinkHistory, run: list[_Observed],
    counters: Mapping[str, list[DownCounter]], before_ns: int,
) -> Conclusion | None:  # fmt: skip
    """Return the episode of a run; None if it meets no preset.

    Downs up to `before_ns`, the end of an episode or a maintenance, do not count.
    """
    hits = list(find_hits(counters, run, before_ns))
    if not hits:
        return None
    span = begin, last = _first_ns(run[0]), max(one.at_ns for one in run)
    first = min(hits, key=lambda hit: (hit.at_ns, hit.since_ns))
    downs = max(max(hit.downs, hit.counter.downs(begin - 1, last)[0]) for hit in hits)
    over_ns = last + ns(params.quiet_s)
    ports = {(s.device, s.port) for s in run}
    reporters = [end for end in history.ends() if (end.device, end.port) in ports]
    faults = reported_faults(history, span)
    return Conclusion(
        history.subject, begin, last, opened_ns=first.at_ns, seen_ns=last,
        resolved_ns=last if context.watermark_ns >= over_ns else None, over_ns=over_ns,
        summary=f"{link_name(history.subject)} went down {downs} times",
        cause=down_cause(faults, begin),
        evidence=(*(_evidence(end, counters, run, before_ns) for end in reporters), *fault_evidence(faults, span)),
        confidence=confidence_of(reporters),
        coverage=link_coverage(history.subject, reporters),
        started_ns=first.since_ns if first.since_ns > before_ns else begin,
        down_at_ns=tuple(dict.fromkeys(_first_ns(s) for s in run if s.kind is SymptomKind.WENT_DOWN)),
    )  # fmt: skip


def _most_by_one_source(observed: Iterable[_Observed]) -> list[int]:
    """Return an end's changes from the source and kind of evidence with most of them; others show the same changes."""
    times: dict[tuple[bool, bool, Source], list[int]] = {}
    for one in observed:
        is_state = one.kind in (SymptomKind.WENT_DOWN, SymptomKind.CAME_UP)
        changes = [one.begin_ns, one.end_ns] * one.count if isinstance(one, FoldedDowns) else [one.at_ns]
        times.setdefault((is_state, one.by_event, one.source), []).extend(changes)
    return max(times.values(), key=len)


def _evidence(
    end: Endpoint, counters: Mapping[str, list[DownCounter]], run: list[_Observed], before_ns: int
) -> Evidence:
    """Return the best count of one end that met a preset, else the number of its transitions."""
    of_end = {name: [counter for counter in own if counter.end == end] for name, own in counters.items()}
    own = list(find_hits(of_end, run, before_ns))
    if not own:
        at = _most_by_one_source(s for s in run if (s.device, s.port) == (end.device, end.port))
        statement = f"{end.device}/{end.port} changed state or counted changes {len(at)} times"
        return evidence_of(statement, "", end, (min(at), max(at)), comparison="both-ends")
    best = max(own, key=lambda hit: (hit.downs, -hit.at_ns))
    metric, how = _METRICS[best.counter.kind]
    preset = FLAP_PRESETS[best.preset]
    return evidence_of(
        f"{end.device}/{end.port} went down {best.downs} times in {preset.window_s:g} s"
        f" by {'its events' if best.counter.by_event else how} (preset {best.preset})",
        metric, end, (best.since_ns, best.at_ns), float(best.downs), float(preset.downs),
    )  # fmt: skip


def link_retention_ns(params: FlapParams, lateness_s: float) -> int:
    """Return the age from which an observation changes no conclusion: the longest window, its end and the lateness."""
    windows = (FLAP_PRESETS[name].window_s for name in params.presets)
    return ns(max(*windows, params.quiet_s) + params.quiet_s + 2 * lateness_s)


def _evaluate(
    params: FlapParams, key: str, state: PublishedEpisodes | None, context: Context
) -> Evaluation[PublishedEpisodes]:
    """Conclude from the history of the link.

    Transitions before the end of a maintenance at an end of the link do not count together with later ones, and neither
    do those of an earlier episode.
    """
    history, restarts = context.evidence.links[key], context.evidence.restarts
    maintained_until_ns = context.topology.maintenance_until_ns(end.device for end in history.ends())
    excused = excused_intervals(context.settings.link, history, restarts)
    transitions: list[_Observed] = [*history.folded, *filter(is_transition, history.symptoms)]
    transitions.sort(key=lambda one: (_first_ns(one), one.at_ns))
    seen = [one for one in transitions if not overlaps_any(excused, closed(begin_ns(one), one.at_ns))]
    counters = {
        name: count_downs(
            preset, history, [*excused, *boot_intervals(preset, history, restarts)], context.watermark_ns
        )
        for name in params.presets
        if seen and (preset := FLAP_PRESETS[name])
    }  # fmt: skip
    conclusions: list[Conclusion] = []
    ended = [maintained_until_ns, *(known.end_ns for known in state or () if known.episode.finding.final)]
    for run in split_at_gaps(seen, lambda one: (_first_ns(one), one.at_ns), ns(params.quiet_s)):
        before_ns = max((end_ns for end_ns in ended if end_ns < _first_ns(run[0])), default=0)
        if (conclusion := _conclusion(params, context, history, run, counters, before_ns)) is not None:
            conclusions.append(conclusion)
            ended.append(conclusion.end_ns)
    return follow_link(context, history, state, conclusions, open_outages_due(params, history))


def _is_critical(finding: Finding, context: SeverityContext) -> bool:
    link = context.link_of(finding)
    if link is None or link.role != HOST_LINK or not context.has_job(link.lower.device, finding):
        return False
    return not context.has_redundancy(link, finding)


DETECTOR = Detector(
    Condition.LINK_FLAP,
    version="1",
    opens_when="3 downs in 10 min, or 5 in 24 h; other presets to choose from",
    params=FlapParams,
    section="flap",
    placement=Placement.DOUBTFUL,
    job_domain=JobDomain.NETWORK,
    lemon=FaultOf.LINK,
    hidden_in={"snmp": "downs of seconds fall between two polls, and ifTable has no counter of them"},
    fabric=FabricSide(loss=Loss.LINK_INTERMITTENT, link_fault_rank=1, group_keys=link_keys, is_critical=_is_critical),
    pod=link_follower(_evaluate, link_retention_ns),
    state_metric=Metric.OPER_UP,
)
