"""Which links upwards of a device were broken when: those that are down, and those to devices that are gone.

Decides how many were at the same time, which is what redundancy is counted by. What is known of one device is put
together once, until something changes at it.
"""

import itertools
from collections.abc import Collection, Iterable

from streams.detect.attribute.case_index import CaseIndex
from streams.detect.evidence.link_history import FOREVER, Interval, merge_intervals
from streams.fabric.topology import Topology, TopologyLink
from streams.wire.models import Condition, Finding


def span_of(finding: Finding) -> Interval:
    """From when until when it was so."""
    return finding.started_at_ns, FOREVER if finding.resolved_at_ns is None else finding.resolved_at_ns


class Outages:
    """Over the cases of one moment; `changed` where those at a device are others."""

    def __init__(self, cases: CaseIndex, topology: Topology) -> None:
        self._cases = cases
        self._topology = topology
        self._made: dict[str, dict[str, list[Interval]]] = {}

    def changed(self, finding: Finding) -> tuple[str, ...]:
        """What it says of links was not so before; answers the devices whose links upwards these are."""
        lower: tuple[str, ...] = ()
        if finding.condition is Condition.LINK_DOWN:
            cable = self._topology.links.get(finding.subject.id)
            lower = (cable.lower.device,) if cable else ()
        elif finding.condition is Condition.DEVICE_DOWN and finding.subject.a is not None:
            cables = self._topology.links_of.get(finding.subject.a.device, ())
            lower = tuple(dict.fromkeys(cable.lower.device for cable in cables))
        for device in lower:
            self._made.pop(device, None)
        return lower

    def upwards(self, device: str) -> dict[str, list[Interval]]:
        """By link upwards of this device, when it was broken; those that never were are not there."""
        made = self._made.get(device)
        if made is None:
            made = self._made[device] = self._of(device)
        return made

    def _of(self, device: str) -> dict[str, list[Interval]]:
        found: dict[str, list[Interval]] = {}
        gone: dict[str, list[Interval]] = {}
        for finding in self._cases.findings_at(device):
            if finding.condition is Condition.LINK_DOWN:
                found.setdefault(finding.subject.id, []).append(span_of(finding))
            elif finding.condition is Condition.DEVICE_DOWN:
                gone.setdefault(device, []).append(span_of(finding))
        for cable in self._topology.uplinks_of.get(device, ()):
            above = cable.upper.device
            if above not in gone:
                gone[above] = [span_of(f) for f in self._cases.outages_at(above)]
            if spans := [*gone[above], *gone.get(device, ())]:
                found.setdefault(cable.id, []).extend(spans)
        own = {cable.id for cable in self._topology.uplinks_of.get(device, ())}
        return {identity: spans for identity, spans in found.items() if identity in own}

    def at_once(self, device: str, among: Collection[str], begin_ns: int, end_ns: int) -> int:
        """How many of these links upwards were broken at the same time, at most, in a span."""
        spans = self.upwards(device)
        changes: list[tuple[int, int]] = []
        for identity in among:
            if identity not in spans:
                continue
            for begin, end in merge_intervals(spans[identity]):  # broken for two reasons, it is broken once
                if begin < end_ns and begin_ns < end:
                    changes += [(max(begin, begin_ns), 1), (min(end, end_ns), -1)]
        most = count = 0
        for _, change in sorted(changes):
            count += change
            most = max(most, count)
        return most

    def broken(self, cables: Iterable[TopologyLink], at_ns: int) -> list[TopologyLink]:
        """Those of these links that were broken at a time."""
        return [
            cable
            for device, own in itertools.groupby(cables, key=lambda cable: cable.lower.device)
            if (spans := self.upwards(device))
            for cable in own
            if cable.id in spans and any(begin <= at_ns < end for begin, end in spans[cable.id])
        ]
