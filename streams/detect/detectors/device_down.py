"""device/down: detects a device that restarted, or that neither its sources nor its neighbors reach any more.

A restart is one finding with the cause REBOOT, identified by the boot that ended, and resolved when the device is up.
Without a known restart, a device is down when all its sources are silent and enough of its links are down at their
other ends, or when nearly all of its links were lost there together, whether or not any source reads it. Silence alone
is telemetry/stale. Concurrent faults at the device become its children in `attribute`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from streams.detect.detector import Detector, FaultOf, JobDomain, Placement
from streams.detect.evidence.device_evidence import DeviceEvidence, LostLink, Restart, Silence
from streams.detect.evidence.episodes import Conclusion, Ledger, PublishedEpisodes, evidence_of
from streams.detect.evidence.link_history import FOREVER
from streams.detect.evidence.params import GroupingParams
from streams.detect.fabric_side import (
    DeviceEvaluation,
    FabricSide,
    GroupKey,
    Loss,
    SeverityContext,
    device_at,
    evaluate_whole,
    location_keys,
)
from streams.detect.thresholds import Thresholds, ns
from streams.fabric.intervals import Interval, split_at_gaps
from streams.fabric.topology import Topology
from streams.wire.models import Cause, Condition, Coverage, Endpoint, Evidence, Finding


class DeviceDownParams(Thresholds):
    """`[detect.device_down]`: a silent device that its neighbors lost as well."""

    links_down_ratio: ClassVar[float] = 0.5
    """The least share of its links that are down at their other ends. Half, because a line card can take a quarter."""
    merge_s: ClassVar[float] = 60
    """Two signs of a restart closer than this are one restart."""


@dataclass(frozen=True, slots=True)
class Outage:
    """One interval in which the device was down."""

    begin_ns: int
    end_ns: int
    detected_ns: int
    boot_id: int
    is_restart: bool
    lost_links: int = 0
    of_links: int = 0
    """The number of its links whose other ends are read."""
    is_silent: bool = True


def find_outages(params: DeviceDownParams, grouping: GroupingParams, evidence: DeviceEvidence) -> list[Outage]:
    """Return the outages of a device by time; merges outages closer than `merge_s`."""
    found = sorted([*_restarts(evidence), *_silent_outages(params, evidence)], key=lambda o: (o.begin_ns, o.end_ns))
    merged: list[Outage] = []
    for outage in found:
        if merged and outage.begin_ns <= _later(merged[-1].end_ns, ns(params.merge_s)):
            merged[-1] = _merge(merged[-1], outage)
        else:
            merged.append(outage)
    for outage in _joint_losses(grouping, evidence):
        _add_joint_loss(params, merged, outage)
    return sorted(merged, key=lambda outage: outage.begin_ns)


def _add_joint_loss(params: DeviceDownParams, outages: list[Outage], loss: Outage) -> None:
    """Add a joint loss of links, or complete the outage to which it belongs.

    Neighbors report a loss before a restart or a silence is detected, but the latter date the outage better.
    """
    merge_ns = ns(params.merge_s)
    for index, outage in enumerate(outages):
        if loss.begin_ns <= _later(outage.end_ns, merge_ns) and outage.begin_ns <= _later(loss.end_ns, merge_ns):
            outages[index] = replace(
                outage,
                detected_ns=min(outage.detected_ns, loss.detected_ns),
                lost_links=max(outage.lost_links, loss.lost_links),
                of_links=max(outage.of_links, loss.of_links),
            )
            return
    outages.append(loss)


def _later(at_ns: int, by_ns: int) -> int:
    return FOREVER if at_ns == FOREVER else at_ns + by_ns


def _merge(first: Outage, second: Outage) -> Outage:
    """Merge two outages; a restart ends an open outage, because the device is up again."""
    is_restart = first.is_restart or second.is_restart
    ends_ns = [first.end_ns, second.end_ns]
    if is_restart:
        ends_ns = [end_ns for end_ns in ends_ns if end_ns != FOREVER]
    return Outage(
        begin_ns=first.begin_ns,
        end_ns=max(ends_ns),
        detected_ns=min(first.detected_ns, second.detected_ns),
        boot_id=first.boot_id or second.boot_id,
        is_restart=is_restart,
        lost_links=max(first.lost_links, second.lost_links),
        of_links=max(first.of_links, second.of_links),
    )


def _restarts(evidence: DeviceEvidence) -> list[Outage]:
    return [
        Outage(_restarted_after_ns(evidence, restart), restart.at_ns, restart.at_ns, restart.boot_id, is_restart=True)
        for restart in evidence.restarts
        if not any(_is_refinement(other, restart) for other in evidence.restarts)
    ]


def _restarted_after_ns(evidence: DeviceEvidence, restart: Restart) -> int:
    """Return the newest reading of the boot that ended, by any source: one that polls rarely dates it too early."""
    known = (
        other.since_ns
        for other in evidence.restarts
        if restart.boot_id and other.boot_id == restart.boot_id and other.since_ns < restart.at_ns
    )
    return max((restart.since_ns, *known)) or restart.at_ns


def _is_refinement(narrow: Restart, wide: Restart) -> bool:
    """Return whether two intervals are of one restart, narrowed by a late reading between both ends."""
    if narrow.by_event or wide.by_event or narrow.boot_id != wide.boot_id or narrow == wide:
        return False
    is_within = wide.since_ns <= narrow.since_ns and narrow.at_ns <= wide.at_ns
    return is_within and (narrow.since_ns == wide.since_ns or narrow.at_ns == wide.at_ns)


def _silent_outages(params: DeviceDownParams, evidence: DeviceEvidence) -> list[Outage]:
    """Return the outages with all sources silent and at least `links_down_ratio` of the links down at other ends.

    The ratio is of the links whose other ends are read, and at least of half of all links: if a collector fails, a
    switch and its neighbors are silent together, and hosts still report that their links to it went down. A silent
    collector of a switch shows nothing about the switch.
    """
    outages = []
    own = {name: [one for one in silences if not one.is_of_collector] for name, silences in evidence.silences.items()}
    for begin_ns, end_ns in _silent_intervals({name: silences for name, silences in own.items() if silences}):
        lost = [
            link
            for link in evidence.lost
            if not link.is_intermittent and begin_ns <= link.up_ns and link.down_ns <= end_ns
        ]
        first_ns = max(begin_ns, min((link.down_ns for link in lost if link.down_ns >= begin_ns), default=begin_ns))
        read = evidence.links - sum(_is_unread_at(silences, first_ns) for silences in evidence.neighbor_silences)
        needed = _at_least_one(params.links_down_ratio * max(read, evidence.links / 2))
        if not evidence.links or len({link.link_id for link in lost}) < needed:
            continue
        silences = _silences_at(own, begin_ns)
        last = max(silences, key=_detection)
        if last.live_sources:
            continue
        outages.append(
            Outage(
                begin_ns=_begin_ns(params, begin_ns, sorted(link.down_ns for link in lost)[:needed]),
                end_ns=end_ns,
                detected_ns=max(sorted(link.reported_ns for link in lost)[needed - 1], last.detected_ns),
                boot_id=next((silence.boot_id for silence in silences if silence.boot_id), 0),
                is_restart=False,
                lost_links=len(lost),
                of_links=max(read, len(lost)),
            )
        )
    return outages


def _at_least_one(count: float) -> int:
    """Round a number of links up, to at least one."""
    return max(1, -(-round(count * 1000) // 1000))


def _is_unread_at(silences: dict[str, list[Silence]], at_ns: int) -> bool:
    """Return whether no source of a device delivered data at a time."""
    current = _silences_at(silences, at_ns)
    return len(current) >= len(silences) > 0 and not max(current, key=_detection).live_sources


def _silences_at(silences: dict[str, list[Silence]], at_ns: int) -> list[Silence]:
    return [silence for own in silences.values() for silence in own if silence.since_ns <= at_ns < silence.resumed_ns]


def _detection(silence: Silence) -> int:
    """Return the sort key whose last silence has the current number of live sources."""
    return silence.detected_ns


def _begin_ns(params: DeviceDownParams, silent_ns: int, downs_ns: list[int]) -> int:
    """Return the time of the silence, or of the loss of the required links if that was long after."""
    near_ns = ns(params.merge_s)
    first_ns = min(at_ns for at_ns in downs_ns if at_ns >= downs_ns[-1] - near_ns)
    return first_ns if first_ns > silent_ns + near_ns else silent_ns


def _joint_losses(grouping: GroupingParams, evidence: DeviceEvidence) -> list[Outage]:
    """Return the outages in which nearly all links were lost in quick succession, by their other ends' reports.

    Such an outage lasts until enough links recovered that it would not have been detected.
    """
    needed = max(grouping.links, _at_least_one(evidence.links * grouping.device_ratio))
    ordered = sorted(evidence.lost, key=lambda link: link.down_ns)
    clusters = split_at_gaps(ordered, lambda link: (link.down_ns, link.down_ns), ns(grouping.links_s))
    return [loss for cluster in clusters if (loss := _joint_loss(needed, evidence, cluster)) is not None]


def _joint_loss(needed: int, evidence: DeviceEvidence, cluster: list[LostLink]) -> Outage | None:
    """Return the outage of a cluster of losses; a link that is intermittent and then stays down counts once."""
    reported_ns: dict[str, int] = {}
    up_ns: dict[str, int] = {}
    for link in cluster:
        reported_ns[link.link_id] = min(link.reported_ns, reported_ns.get(link.link_id, FOREVER))
        up_ns[link.link_id] = max(link.up_ns, up_ns.get(link.link_id, 0))
    if len(reported_ns) < needed:
        return None
    return Outage(
        begin_ns=cluster[0].down_ns,
        end_ns=sorted(up_ns.values())[len(reported_ns) - needed],
        detected_ns=sorted(reported_ns.values())[needed - 1],
        boot_id=0,
        is_restart=False,
        lost_links=len(reported_ns),
        of_links=evidence.links,
        is_silent=False,
    )


def _silent_intervals(silences: dict[str, list[Silence]]) -> list[Interval]:
    """Return the intervals in which all sources that were ever silent are; `live_sources` counts the others."""
    intervals: list[Interval] | None = None
    for source in silences.values():
        own = [(silence.since_ns, silence.resumed_ns) for silence in source]
        if intervals is None:
            intervals = own
        else:
            intervals = [(max(a, c), min(b, d)) for a, b in intervals for c, d in own if max(a, c) < min(b, d)]
    return intervals or []


_NEIGHBORS_ONLY = 0.8
"""The confidence if only neighbors report it: the ports or their cables may be at fault instead of the device."""


def _evaluate(
    params: DeviceDownParams, ledger: Ledger, published: Mapping[str, PublishedEpisodes], evidence: DeviceEvidence
) -> DeviceEvaluation:
    """Conclude on one device from all evidence on it."""
    outages = find_outages(params, ledger.settings.grouping, evidence)
    return evaluate_whole(ledger, published, [_conclusion(params, evidence, outage) for outage in outages])


def _conclusion(params: DeviceDownParams, evidence: DeviceEvidence, outage: Outage) -> Conclusion:
    is_over = outage.end_ns != FOREVER
    device = device_at(evidence.subject)
    state = "restarted" if outage.is_restart else "was down" if is_over else "is down"
    return Conclusion(
        evidence.subject, outage.begin_ns, outage.end_ns, opened_ns=outage.detected_ns,
        seen_ns=outage.end_ns if is_over else outage.detected_ns, resolved_ns=outage.end_ns if is_over else None,
        over_ns=_later(outage.end_ns, ns(params.merge_s)),
        summary=f"{device} {state}",
        cause=Cause.REBOOT if outage.is_restart else Cause.UNKNOWN,
        evidence=_evidence(device, evidence.links, outage),
        confidence=1.0 if outage.is_restart else 0.9 if outage.is_silent else _NEIGHBORS_ONLY,
        coverage=Coverage(seen=0, expected=len(evidence.silences) or None),
        anchor=f"boot/{outage.boot_id}" if outage.boot_id else "",
    )  # fmt: skip


def _evidence(device: str, links: int, outage: Outage) -> Iterator[Evidence]:
    span = outage.begin_ns, outage.end_ns if outage.end_ns != FOREVER else outage.detected_ns
    if outage.is_restart:
        yield evidence_of(f"{device} has another boot id than before", "", Endpoint(device), span)
    if outage.lost_links:
        statement, lost = _lost_links_statement(device, links, outage), float(outage.lost_links)
        yield evidence_of(statement, "oper_up", Endpoint(device), span, lost, 0.0, "both-ends")


def _lost_links_statement(device: str, links: int, outage: Outage) -> str:
    count = f"{outage.lost_links} of {outage.of_links} links of {device}"
    if outage.of_links < links:
        count += f" whose other ends are read ({links} in all)"
    if outage.is_silent:
        return f"{count} are down at their other ends, and it is silent"
    return f"{count} were lost together at their other ends, whatever it reports itself"


def _is_critical(finding: Finding, context: SeverityContext) -> bool:
    """Rate a switch CRITICAL while it is down, if a neighbor is below its floor or a host has lost a rail."""
    return finding.resolved_at_ns is None and context.isolates_neighbor(device_at(finding.subject), finding)


def _group_keys(finding: Finding, topology: Topology) -> tuple[GroupKey, ...]:
    known = topology.devices.get(device_at(finding.subject))
    return location_keys(known.pod, known.plane) if known else ()


def _child_cause(parent: Finding, child: Finding) -> Cause | None:
    """Return DEVICE for missing data, and REBOOT for all else that a restart explains."""
    if child.condition is Condition.TELEMETRY_STALE:
        return Cause.DEVICE
    return Cause.REBOOT if parent.cause is Cause.REBOOT else None


DETECTOR = Detector(
    Condition.DEVICE_DOWN,
    version="1",
    opens_when="a new boot; or all sources silent and its neighbors' links down",
    params=DeviceDownParams,
    section="device_down",
    placement=Placement.OUT,
    job_domain=JobDomain.NETWORK,
    lemon=FaultOf.HOST,
    hidden_in={},
    fabric=FabricSide(
        loss=Loss.DEVICE, ends_with_parent=True, explained_by_outages=False, group_keys=_group_keys,
        is_critical=_is_critical, child_cause=_child_cause, evaluate_device=_evaluate,
    ),
)  # fmt: skip
