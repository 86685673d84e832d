"""device/down: a device that restarted, or that neither its sources nor its neighbours see any more.

A restart is one finding with the cause `reboot`, named by the boot that ended, and over when the device is back. A
device is down without a known restart when all its sources are silent and enough of its links are down at their other
ends, or when nearly all of its links were lost there together: whether or not anyone reads it. Silence alone is
telemetry_stale.py. What a device takes with it becomes its child in `attribute`.
"""

from dataclasses import dataclass, replace

from streams.detect.detectors.telemetry_stale.evaluate import Silence
from streams.detect.evidence.episodes import Conclusion, PublishedEpisodes, finding_defaults, reconcile
from streams.detect.evidence.link_history import FOREVER, Interval
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
)

SLUG = "device/down"
VERSION = "1"


_NEIGHBOURS_ALONE = 0.8
"""Confidence where only its neighbours tell: it may be its ports, or their cables, and not the device."""

_SAID = {
    True: "are down at their other ends, and it is silent",
    False: "were lost together at their other ends, whatever it says itself",
}


@dataclass(frozen=True, slots=True)
class Restart:
    """The device's counters began anew in (since_ns, at_ns]; `boot_id` is of the life that ended, 0 where unknown."""

    since_ns: int
    at_ns: int
    boot_id: int = 0
    by_event: bool = False


@dataclass(frozen=True, slots=True)
class LostLink:
    """A link of the device that its other end told is down, from `down_ns` to `up_ns`, known at `told_ns`."""

    link_id: str
    down_ns: int
    up_ns: int
    told_ns: int
    flaps: bool = False
    """It came and went all that time."""


@dataclass(frozen=True, slots=True)
class DeviceEvidence:
    """All that is known of one device. `silences` are by source; `links` counts those that it has.

    `beyond` are the silences, by source, of the devices at the other ends of its links that ever were silent.
    """

    subject: Subject
    silences: dict[str, list[Silence]]
    restarts: list[Restart]
    lost: list[LostLink]
    links: int
    beyond: tuple[dict[str, list[Silence]], ...] = ()


@dataclass(frozen=True, slots=True)
class _Outage:
    """One time the device was gone."""

    begin_ns: int
    end_ns: int
    told_ns: int
    boot_id: int
    restarted: bool
    lost: int = 0
    of: int = 0
    """Its links whose other ends are read."""
    silent: bool = True


def step(
    params: DetectParams, state: PublishedEpisodes, signs: DeviceEvidence, watermark_ns: int
) -> tuple[PublishedEpisodes, list[Episode]]:
    """Conclude on one device from all signs of it; answers the new state and what changed."""
    conclusions = [_conclusion(params, signs, outage) for outage in _outages(params, signs)]
    return reconcile(state, conclusions, watermark_ns)


def _outages(params: DetectParams, signs: DeviceEvidence) -> list[_Outage]:
    """Restarts and disappearances in order; those that touch are one."""
    found = sorted([*_restarts(signs), *_gone(params, signs)], key=lambda outage: (outage.begin_ns, outage.end_ns))
    joined: list[_Outage] = []
    for outage in found:
        if joined and outage.begin_ns <= _later(joined[-1].end_ns, ns(params.device_down.merge_s)):
            joined[-1] = _join(joined[-1], outage)
        else:
            joined.append(outage)
    for outage in _lost_together(params, signs):
        _put(params, joined, outage)
    return sorted(joined, key=lambda outage: outage.begin_ns)


def _put(params: DetectParams, known: list[_Outage], outage: _Outage) -> None:
    """What the neighbours lost is told sooner than a restart or a silence, which date it better."""
    merge_ns = ns(params.device_down.merge_s)
    for place, other in enumerate(known):
        if outage.begin_ns <= _later(other.end_ns, merge_ns) and other.begin_ns <= _later(outage.end_ns, merge_ns):
            known[place] = replace(
                other, told_ns=min(other.told_ns, outage.told_ns), lost=max(other.lost, outage.lost),
                of=max(other.of, outage.of),
            )  # fmt: skip
            return
    known.append(outage)


def _later(at_ns: int, by_ns: int) -> int:
    return FOREVER if at_ns == FOREVER else at_ns + by_ns


def _join(first: _Outage, second: _Outage) -> _Outage:
    """A restart ends what seemed to last: the device is back."""
    restarted = first.restarted or second.restarted
    ends = [o.end_ns for o in (first, second) if o.end_ns != FOREVER] if restarted else [first.end_ns, second.end_ns]
    return _Outage(
        first.begin_ns, max(ends), min(first.told_ns, second.told_ns), first.boot_id or second.boot_id, restarted,
        max(first.lost, second.lost), max(first.of, second.of),
    )  # fmt: skip


def _restarts(signs: DeviceEvidence) -> list[_Outage]:
    return [
        _Outage(restart.since_ns or restart.at_ns, restart.at_ns, restart.at_ns, restart.boot_id, restarted=True)
        for restart in signs.restarts
        if not any(_dates_better(other, restart) for other in signs.restarts)
    ]


def _dates_better(fine: Restart, wide: Restart) -> bool:
    """Whether it is the same restart, told once a reading had come from between the two that told of it first."""
    if fine.by_event or wide.by_event or fine.boot_id != wide.boot_id or fine == wide:
        return False
    within = wide.since_ns <= fine.since_ns and fine.at_ns <= wide.at_ns
    return within and (fine.since_ns == wide.since_ns or fine.at_ns == wide.at_ns)


def _gone(params: DetectParams, signs: DeviceEvidence) -> list[_Outage]:
    """When all sources were silent while at least `links_down_ratio` of the links were down at their other ends.

    Of those links counts whose other ends are read, and at least half of all: where a collector is dead, a switch and
    its neighbours are silent together, and hosts still see their links to it go.
    """
    outages = []
    for begin, end in _all_silent(signs.silences):
        lost = [link for link in signs.lost if not link.flaps and begin <= link.up_ns and link.down_ns <= end]
        first_ns = max(begin, min((link.down_ns for link in lost if link.down_ns >= begin), default=begin))
        read = signs.links - sum(_unread_at(silences, first_ns) for silences in signs.beyond)
        needed = _at_least(params.device_down.links_down_ratio * max(read, signs.links / 2))
        if not signs.links or len({link.link_id for link in lost}) < needed:
            continue
        told = _covering(signs.silences, begin)
        last = _told_last(told)
        if last.others:
            continue
        told_ns = max(sorted(link.told_ns for link in lost)[needed - 1], last.detected_ns)
        boot_id = next((s.boot_id for s in told if s.boot_id), 0)
        begun_ns = _begun_ns(params, begin, sorted(link.down_ns for link in lost)[:needed])
        outages.append(
            _Outage(begun_ns, end, told_ns, boot_id, restarted=False, lost=len(lost), of=max(read, len(lost)))
        )
    return outages


def _at_least(count: float) -> int:
    """So many links, and one at least."""
    return max(1, -(-round(count * 1000) // 1000))


def _unread_at(silences: dict[str, list[Silence]], at_ns: int) -> bool:
    """Whether no source told of a device then."""
    covering = _covering(silences, at_ns)
    return len(covering) >= len(silences) > 0 and not _told_last(covering).others


def _covering(silences: dict[str, list[Silence]], at_ns: int) -> list[Silence]:
    """Those that lasted then."""
    return [s for own in silences.values() for s in own if s.since_ns <= at_ns < s.resumed_ns]


def _told_last(silences: list[Silence]) -> Silence:
    """That which knows best what else was heard."""
    return max(silences, key=lambda silence: silence.detected_ns)


def _begun_ns(params: DetectParams, silent_ns: int, downs_ns: list[int]) -> int:
    """When the device went: when it fell silent, unless the links that are needed went long after that."""
    near_ns = ns(params.device_down.merge_s)
    first_ns = min(at_ns for at_ns in downs_ns if at_ns >= downs_ns[-1] - near_ns)
    return first_ns if first_ns > silent_ns + near_ns else silent_ns


def _lost_together(params: DetectParams, signs: DeviceEvidence) -> list[_Outage]:
    """When nearly all links were lost, one shortly after the other, as their other ends tell.

    It lasts until so many are back that it would not have been told.
    """
    together = params.grouping
    needed = max(together.links, _at_least(signs.links * together.device_ratio))
    outages = []
    run: list[LostLink] = []
    for link in [*sorted(signs.lost, key=lambda link: link.down_ns), None]:
        if run and (link is None or link.down_ns - run[-1].down_ns > ns(together.links_s)):
            told = _first_told(run)
            if len(told) >= needed:
                up_ns: dict[str, int] = {}
                for lost in run:
                    up_ns[lost.link_id] = max(lost.up_ns, up_ns.get(lost.link_id, 0))
                end = sorted(up_ns.values())[len(told) - needed]
                told_ns = sorted(told.values())[needed - 1]
                outages.append(
                    _Outage(
                        run[0].down_ns, end, told_ns, 0, restarted=False, lost=len(told), of=signs.links, silent=False
                    )
                )  # fmt: skip
            run = []
        if link is not None:
            run.append(link)
    return outages


def _first_told(run: list[LostLink]) -> dict[str, int]:
    """By link, when it was told: one that flaps and stays down then is one link."""
    told: dict[str, int] = {}
    for link in run:
        told[link.link_id] = min(link.told_ns, told.get(link.link_id, FOREVER))
    return told


def _all_silent(silences: dict[str, list[Silence]]) -> list[Interval]:
    """The times at which every source that was ever silent is silent; `others` tells of those that never were."""
    spans: list[Interval] | None = None
    for source in silences.values():
        own = [(s.since_ns, s.resumed_ns) for s in source]
        if spans is None:
            spans = own
        else:
            spans = [(max(a, c), min(b, d)) for a, b in spans for c, d in own if max(a, c) < min(b, d)]
    return spans or []


def _conclusion(params: DetectParams, signs: DeviceEvidence, outage: _Outage) -> Conclusion:
    over = outage.end_ns != FOREVER
    device = signs.subject.a.device if signs.subject.a else ""
    finding = Finding(
        **finding_defaults(params, SLUG, VERSION),
        condition=Condition.DEVICE_DOWN,
        severity=Severity.WARNING,
        subject=signs.subject,
        started_at_ns=outage.begin_ns,
        observed_at_ns=outage.end_ns if over else outage.told_ns,
        resolved_at_ns=outage.end_ns if over else None,
        detected_at_ns=outage.told_ns,
        summary=f"{device} {'restarted' if outage.restarted else 'is down' if not over else 'was down'}",
        cause=Cause.REBOOT if outage.restarted else Cause.UNKNOWN,
        evidence=tuple(_evidence(device, signs, outage)),
        confidence=1.0 if outage.restarted else 0.9 if outage.silent else _NEIGHBOURS_ALONE,
        coverage=Coverage(seen=0, expected=len(signs.silences) or None),
    )
    final_at = outage.end_ns + ns(params.device_down.merge_s + params.lateness_s) if over else None
    anchor = f"boot/{outage.boot_id}" if outage.boot_id else str(outage.begin_ns)
    return Conclusion(outage.begin_ns, outage.end_ns, finding, anchor, final_at)


def _evidence(device: str, signs: DeviceEvidence, outage: _Outage) -> list[Evidence]:
    end = outage.end_ns if outage.end_ns != FOREVER else outage.told_ns
    evidence = []
    if outage.restarted:
        evidence.append(
            Evidence(
                f"{device} is in another boot than before",
                at=Endpoint(device),
                comparison="threshold",
                window_start_ns=outage.begin_ns,
                window_end_ns=end,
            )
        )
    if outage.lost:
        evidence.append(
            Evidence(
                f"{outage.lost} of {outage.of} links of {device}{_beyond(outage, signs)} {_SAID[outage.silent]}",
                metric="oper_up",
                at=Endpoint(device),
                observed=float(outage.lost),
                expected=0.0,
                comparison="both-ends",
                window_start_ns=outage.begin_ns,
                window_end_ns=end,
            )
        )
    return evidence


def _beyond(outage: _Outage, signs: DeviceEvidence) -> str:
    return f" whose other ends are read ({signs.links} in all)" if outage.of < signs.links else ""
