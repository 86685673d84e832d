"""Removes the faults that a fabric's sources cannot show from a score: they are neither found nor missed.

A finding at such a fault is not counted as false, because the fault exists: a reading may show it, or its effect is
visible and its cause is not. For example, a NIC whose PCIe link is not read is a slow rail, and a storm that no poll
shows pauses other ports.

The same applies to a link/down if a port was shut at the end that no source reads. The link is down, and the other end
receives no light, as after a failure. The finding has the confidence of one end, and calibration counts it as false.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from lab.bench.detection.fabrics import Fabric
from lab.world.ground_truth import InjectedFault
from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from streams.replay.score import Score, ScoredFinding, Truth
from streams.wire.models import Condition


class HiddenFault(NamedTuple):
    """A fault that the sources cannot show, and the other ports, as (device, port), that show its effect."""

    truth: Truth
    affected: frozenset[tuple[str, str]]

    def is_at(self, ends: Iterable[Port], start_ns: int) -> bool:
        """Return True if a finding with these ends and this start is at the fault's port, device, or affected ports."""
        truth = self.truth
        at = any(
            (end.device == truth.device and (not truth.port or not end.port or end.port == truth.port))
            or end in self.affected
            for end in ends
        )
        return at and truth.is_during(start_ns)


class ShownScore(NamedTuple):
    """The score of the faults that the sources can show, and the hidden faults with counts by condition and reason.

    `effects` counts by condition the findings that would be false without nearby hidden faults and shut ports. `shut`
    has the links that are down because a port was shut and no source reports it; `counts` includes them.
    """

    score: Score
    hidden: list[HiddenFault]
    shut: list[HiddenFault]
    counts: Counter[tuple[Condition, str]]
    effects: Counter[Condition]


def without_hidden(
    score: Score,
    truths: Iterable[tuple[InjectedFault, Truth]],
    fabric: Fabric,
    topology: Topology,
    shut_ports: Iterable[Truth] = (),
) -> ShownScore:
    """Return the score without the hidden faults; `truths` has all scored truths with their faults."""
    counts: Counter[tuple[Condition, str]] = Counter()
    hidden: list[HiddenFault] = []
    for injection, truth in truths:
        if reason := fabric.hidden(truth, injection.kind, topology):
            counts[truth.condition, reason] += 1
            hidden.append(HiddenFault(truth, frozenset(injection.affected)))
    shut = []
    for port in shut_ports:
        if reason := _shut_hidden(port, fabric, topology):
            counts[port.condition, reason] += 1
            shut.append(HiddenFault(port, frozenset()))
    effects = [finding for finding in score.invented if _is_effect(finding, hidden, shut)]
    shown = replace(
        score,
        found=tuple(match for match in score.found if not _is_one_of(match.truth, hidden)),
        missed=tuple(truth for truth in score.missed if not _is_one_of(truth, hidden)),
        invented=tuple(finding for finding in score.invented if finding not in effects),
    )
    return ShownScore(shown, hidden, shut, counts, Counter(finding.condition for finding in effects))


def _is_effect(finding: ScoredFinding, hidden: Iterable[HiddenFault], shut: Iterable[HiddenFault]) -> bool:
    """Return True if a finding is at a hidden fault, or is the link/down of a shut port."""
    places = (*hidden, *shut) if finding.condition is Condition.LINK_DOWN else hidden
    return any(one.is_at(finding.endpoints, finding.start_ns) for one in places)


def _shut_hidden(port: Truth, fabric: Fabric, topology: Topology) -> str:
    """Return why a shut port looks like a failure (only the far end is read); empty if its own end or none is read."""
    link = topology.link_at(Port(port.device, port.port))
    kinds = (
        {end.device: topology.devices[end.device].kind for end in (link.lower, link.upper)} if link is not None else {}
    )
    if port.device not in kinds or all(kind in fabric.shut_hidden for kind in kinds.values()):
        return ""
    return fabric.shut_hidden.get(kinds[port.device], "")


def _is_one_of(scored: Truth, faults: Iterable[HiddenFault]) -> bool:
    """Return True if a scored truth starts with one of these: the score merges consecutive truths of one place."""
    return any(_place(one.truth) == _place(scored) and one.truth.start_ns == scored.start_ns for one in faults)


def _place(truth: Truth) -> tuple[Condition, str, str]:
    return truth.condition, truth.device, truth.port
