"""The finding of link/miscabled: what is wrong with the cabling, by the inventory."""

from collections.abc import Sequence

from streams.detect.detector import Context
from streams.detect.evidence.confidence import BOTH_ENDS
from streams.detect.evidence.episodes import Conclusion, finding_defaults
from streams.detect.evidence.link_history import FOREVER
from streams.detect.evidence.subjects import link_name, subject_ends
from streams.fabric.ids import Port
from streams.fabric.lldp_verdict import NeighborMatch
from streams.fabric.topology import Topology, TopologyLink
from streams.wire.models import (
    CablingReport,
    Cause,
    Condition,
    Coverage,
    Endpoint,
    Evidence,
    Finding,
    Severity,
    Source,
    Subject,
)

SLUG = "link/miscabled"
VERSION = "1"

_ONE_END = 0.7
"""Confidence with the report of one end; the other may have no LLDP."""


def order(report: CablingReport) -> tuple[int, str, str, Source, NeighborMatch, str, str]:
    """Return the key by which reports are ordered."""
    return (
        report.at_ns, report.device, report.port, report.source, report.neighbor_match, report.remote_device,
        report.remote_port,
    )  # fmt: skip


def conclusion(
    context: Context, subject: Subject, wrong: Sequence[CablingReport], times: tuple[int, int, int], final_ns: int
) -> Conclusion:
    """Return the episode of a run; `times` are when it began, opened and ended (FOREVER while it lasts)."""
    begin_ns, opens_ns, run_end_ns = times
    over = run_end_ns != FOREVER
    reports = sorted(wrong, key=order)
    view = _InventoryView(subject, context.topology, reports)
    ends = subject_ends(subject)
    ports = {(report.device, report.port) for report in reports}
    missing = tuple(f"{end.device}/{end.port}" for end in ends if (end.device, end.port) not in ports)
    finding = Finding(
        **finding_defaults(context.settings, SLUG, VERSION),
        condition=Condition.LINK_MISCABLED,
        severity=Severity.WARNING,
        subject=subject,
        started_at_ns=begin_ns,
        observed_at_ns=run_end_ns if over else max(reports[-1].at_ns, opens_ns),
        resolved_at_ns=run_end_ns if over else None,
        detected_at_ns=opens_ns,
        summary=view.summary,
        cause=view.cause,
        evidence=tuple(view.evidence(report, run_end_ns) for report in reports),
        confidence=_ONE_END if missing else BOTH_ENDS,
        coverage=Coverage(seen=len(ends) - len(missing), expected=len(ends), missing=missing),
    )
    final_at = None if final_ns == FOREVER else final_ns
    end_ns = run_end_ns - 1 if over else FOREVER
    return Conclusion(begin_ns, end_ns, finding, str(begin_ns), final_at, related=view.related)


class _InventoryView:
    """Compares reports with the inventory."""

    def __init__(self, subject: Subject, topology: Topology, reports: Sequence[CablingReport]) -> None:
        self._subject, self._reports = subject, reports
        self._far = {(r.device, r.port): Port(r.remote_device, r.remote_port) for r in reports}
        self._own = topology.link_at(Port(reports[0].device, reports[0].port))
        self._cables = {port: topology.link_at(port) for port in self._far.values()}
        devices = {port.device for port in self._far.values()} & topology.devices.keys()
        self._plane_of = {name: topology.devices[name].plane for name in devices}
        self.related = tuple(sorted({cable.id for cable in self._cables.values() if cable is not None}))

    @property
    def _swapped(self) -> TopologyLink | None:
        """The link whose ends are the neighbors of both ends of this one."""
        others = [self._cables[far] for far in self._far.values()]
        first = others[0]
        both = len(self._far) == 2 and len(set(self._far.values())) == 2
        return first if both and first is not None and all(other == first for other in others) else None

    @property
    def cause(self) -> Cause:
        """The mistake, as far as the reports show it."""
        if self._swapped is not None:
            return Cause.CABLES_SWAPPED
        near, far = next(iter(self._far.items()))
        cable, own = self._cables[far], self._own
        if own is None:
            return Cause.WRONG_PORT
        if self._is_wrong_plane(far):
            return Cause.WRONG_PLANE
        if cable is not None and cable.rail is not None and cable.rail != own.rail:
            return Cause.WRONG_RAIL
        right = {own.lower.device, own.upper.device} - {near[0]}
        return Cause.WRONG_PORT if far.device in right else Cause.WRONG_DEVICE

    def _is_wrong_plane(self, far: Port) -> bool:
        plane = self._plane_of.get(far.device)
        own = self._own
        return plane is not None and own is not None and own.plane is not None and plane != own.plane

    @property
    def summary(self) -> str:
        """One line: the links that are swapped, or where this one leads."""
        own = link_name(self._subject)
        if (other := self._swapped) is not None:
            return f"{own} and {_ends(other)} are swapped"
        near, far = next(iter(self._far.items()))
        cable = self._cables[far]
        taken = f", where {_ends(cable)} should end" if cable is not None else ""
        return f"{own} is miscabled: {near[0]}/{near[1]} leads to {far.device}/{far.port}{taken}"

    def evidence(self, report: CablingReport, end_ns: int) -> Evidence:
        """Return the neighbor of one end."""
        near, far = Port(report.device, report.port), Port(report.remote_device, report.remote_port)
        expected = self._own.far_end(near) if self._own is not None else None
        cable = self._cables[far]
        detail = ""
        if self._own is not None and cable is not None and cable.rail != self._own.rail:
            detail = f" (rail {cable.rail} instead of {self._own.rail})"
        if self._is_wrong_plane(far):
            detail += f" (plane {self._plane_of[far.device]} instead of {self._own.plane if self._own else None})"
        instead = f" instead of {expected.device}/{expected.port}" if expected is not None else ""
        return Evidence(
            statement=f"{near.device}/{near.port} has the LLDP neighbor {far.device}/{far.port}{instead}{detail}",
            metric="lldp_neighbor",
            at=Endpoint(report.device, report.port),
            peer=Endpoint(report.remote_device, report.remote_port),
            comparison="inventory",
            window_start_ns=report.at_ns,
            window_end_ns=None if end_ns == FOREVER else end_ns,
        )


def _ends(cable: TopologyLink) -> str:
    return f"{cable.lower.device}/{cable.lower.port} -- {cable.upper.device}/{cable.upper.port}"
