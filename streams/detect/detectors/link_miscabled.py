"""link/miscabled: detects a link whose ends have other LLDP neighbors than the inventory records.

Opens after some minutes, or later if the inventory moved the link; closes when an end has the expected neighbor. A
missing neighbor is no evidence: it opens nothing, and closes an episode only after a day.
"""

from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from streams.detect.detector import NOW, Context, Detector, Evaluation, JobDomain, Observed, Placement, PodSide, Scope
from streams.detect.evidence.episodes import BOTH_ENDS, Conclusion, PublishedEpisodes, evidence_of, has_open, prune
from streams.detect.evidence.link_history import FOREVER
from streams.detect.evidence.subjects import link_name, subject_ends
from streams.detect.fabric_side import CapacityEffect, Cases, FabricSide, are_concurrent, closure, devices_of
from streams.detect.thresholds import Seconds, Thresholds, ns
from streams.fabric.ids import Port
from streams.fabric.lldp_verdict import NeighborMatch
from streams.fabric.topology import Topology, TopologyLink
from streams.wire.models import (
    CablingReport,
    Cause,
    Condition,
    Coverage,
    Endpoint,
    Episode,
    Evidence,
    Finding,
    Source,
    Status,
    Subject,
)


class MiscabledParams(Thresholds):
    """`[detect.miscabled]`: LLDP neighbors of a link's ends against the inventory."""

    hold_s: Seconds = 300
    """The least duration. IEEE 802.1AB retains a neighbor for 4 x 30 s after its last frame, so an entry from before a
    change stays for 120 s. This is twice that and a minute."""
    moved_s: ClassVar[float] = 7_800
    """The least duration after the inventory moved a link: two hourly readings of neighbors, and ten minutes to move
    the cable."""
    lost_s: ClassVar[float] = 86_400
    """Closes when no end has a neighbor for a day: a port out of use does not stay miscabled."""


_CAPACITY = 64
"""The most retained reports of a link; the neighbor of an end changes only when a cable is moved. The newest report of
each source is retained."""

_INVENTORY_LEAD_NS = ns(3600)
"""`measure` adopts an inventory up to this much earlier than this stage, and reports links by it."""

_ONE_END = 0.7
"""The confidence with the report of one end; the other end may have no LLDP."""


def _order(report: CablingReport) -> tuple[int, str, str, Source, NeighborMatch, str, str]:
    """Return the sort key of reports."""
    return (
        report.at_ns, report.device, report.port, report.source, report.neighbor_match, report.remote_device,
        report.remote_port,
    )  # fmt: skip


Reporter = tuple[str, Source]


@dataclass(frozen=True, slots=True)
class LinkCabling:
    """The cabling reports of one link with an unexpected neighbor at an end, and its published episodes."""

    subject: Subject
    reports: tuple[CablingReport, ...] = ()
    published: PublishedEpisodes = ()
    pruned_until_ns: int = 0
    closing: tuple[Episode, ...] = ()
    """Episodes to publish because the inventory moved the link."""


@dataclass(slots=True)
class MiscabledRun:
    """A run from the first unexpected neighbor until an end has the expected one, or no end has a neighbor for long."""

    begin_ns: int
    opens_ns: int
    """The time at which it has lasted long enough."""
    wrong: dict[Reporter, CablingReport] = field(default_factory=dict)
    lost: dict[Reporter, int] = field(default_factory=dict)
    """The time at which each reporter lost the unexpected neighbor."""
    end_ns: int = FOREVER

    @property
    def lost_ns(self) -> int:
        """Return the time since which no reporter has a neighbor; FOREVER while one does."""
        return max(self.lost.values()) if len(self.lost) == len(self.wrong) else FOREVER


def _conclusion(context: Context, subject: Subject, run: MiscabledRun, over_ns: int) -> Conclusion:
    """Return the episode of a run that has opened."""
    over = run.end_ns != FOREVER
    reports = sorted(run.wrong.values(), key=_order)
    view = _InventoryView(subject, context.topology, reports)
    ends = subject_ends(subject)
    ports = {(report.device, report.port) for report in reports}
    missing = tuple(f"{end.device}/{end.port}" for end in ends if (end.device, end.port) not in ports)
    return Conclusion(
        subject, run.begin_ns, run.end_ns - 1 if over else FOREVER, opened_ns=run.opens_ns,
        seen_ns=run.end_ns if over else max(reports[-1].at_ns, run.opens_ns),
        resolved_ns=run.end_ns if over else None, over_ns=over_ns,
        summary=view.summary,
        cause=view.cause,
        evidence=(view.evidence(report, run.end_ns) for report in reports),
        confidence=_ONE_END if missing else BOTH_ENDS,
        coverage=Coverage(seen=len(ends) - len(missing), expected=len(ends), missing=missing),
        related=view.related,
    )  # fmt: skip


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
        """Return the link whose ends are the neighbors of both ends of this one."""
        others = [self._cables[far] for far in self._far.values()]
        first = others[0]
        both = len(self._far) == 2 and len(set(self._far.values())) == 2
        return first if both and first is not None and all(other == first for other in others) else None

    @property
    def cause(self) -> Cause:
        """Return the mistake, if the reports show it."""
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
        """Return one line: the links that are swapped, or the place where this link leads."""
        own = link_name(self._subject)
        if (other := self._swapped) is not None:
            return f"{own} and {_ends(other)} are swapped"
        near, far = next(iter(self._far.items()))
        cable = self._cables[far]
        taken = f", where {_ends(cable)} should end" if cable is not None else ""
        return f"{own} is miscabled: {near[0]}/{near[1]} leads to {far.device}/{far.port}{taken}"

    def evidence(self, report: CablingReport, end_ns: int) -> Evidence:
        near, far = Port(report.device, report.port), Port(report.remote_device, report.remote_port)
        expected = self._own.far_end(near) if self._own is not None else None
        cable = self._cables[far]
        detail = ""
        if self._own is not None and cable is not None and cable.rail != self._own.rail:
            detail = f" (rail {cable.rail} instead of {self._own.rail})"
        if self._is_wrong_plane(far):
            detail += f" (plane {self._plane_of[far.device]} instead of {self._own.plane if self._own else None})"
        instead = f" instead of {expected.device}/{expected.port}" if expected is not None else ""
        line = evidence_of(
            f"{near.device}/{near.port} has the LLDP neighbor {far.device}/{far.port}{instead}{detail}",
            "lldp_neighbor", Endpoint(report.device, report.port),
            (report.at_ns, None if end_ns == FOREVER else end_ns), comparison="inventory",
        )  # fmt: skip
        return replace(line, peer=Endpoint(report.remote_device, report.remote_port))


def _ends(cable: TopologyLink) -> str:
    return f"{cable.lower.device}/{cable.lower.port} -- {cable.upper.device}/{cable.upper.port}"


def _observe(
    _: MiscabledParams, state: LinkCabling | None, cabling: CablingReport, context: Context
) -> Observed[LinkCabling]:
    """Add a report."""
    state = state or LinkCabling(context.subject_at(Port(cabling.device, cabling.port)))
    changed = _with_report(state, cabling)
    return Observed(changed, None if changed is state else NOW)


def _with_report(state: LinkCabling, cabling: CablingReport) -> LinkCabling:
    if cabling in state.reports:
        return state
    reports = list(state.reports)
    insort(reports, cabling, key=_order)
    if len(reports) <= _CAPACITY:
        return replace(state, reports=tuple(reports))
    newest = {(report.device, report.port, report.source): report for report in reports}
    place = next((n for n, report in enumerate(reports) if report not in newest.values()), 0)
    pruned_until_ns = max(state.pruned_until_ns, reports.pop(place).at_ns)
    return replace(state, reports=tuple(reports), pruned_until_ns=pruned_until_ns)


def _rebase(state: LinkCabling, subject: Subject, context: Context) -> Observed[LinkCabling]:
    """Adopt the subject of a new inventory.

    Only later reports evaluate a link that leads elsewhere now; its finding keeps its subject and is closed.
    """
    if subject.id == state.subject.id:
        return Observed(replace(state, subject=subject))
    now_ns = context.watermark_ns
    reports = tuple(r for r in state.reports if r.moved_ns > now_ns - _INVENTORY_LEAD_NS)
    over_ns = min((r.at_ns for r in reports), default=now_ns)
    closing = list(state.closing)
    for known in state.published:
        found = known.episode.finding
        if not found.final:
            end_ns = found.resolved_at_ns or max(over_ns, found.started_at_ns)
            found = replace(found, status=Status.RESOLVED, resolved_at_ns=end_ns, observed_at_ns=end_ns, final=True)
            closing.append(replace(known.episode, finding=found))
    return Observed(LinkCabling(subject, reports, (), state.pruned_until_ns, tuple(closing)), now_ns)


def _merge(moved: LinkCabling, existing: LinkCabling) -> LinkCabling:
    """Return the reports and episodes of both."""
    merged = moved
    for cabling in existing.reports:
        merged = _with_report(merged, cabling)
    return replace(
        merged, published=(*moved.published, *existing.published), closing=(*moved.closing, *existing.closing)
    )


def _evaluate(params: MiscabledParams, _: str, state: LinkCabling, context: Context) -> Evaluation[LinkCabling]:
    """Conclude from the neighbors."""
    now_ns, lateness_ns = context.watermark_ns, ns(context.settings.lateness_s)
    conclusions, waits = [], []
    for run in _runs(params, state.reports):
        if run.opens_ns > min(run.end_ns, run.lost_ns):
            continue
        waits.append(run.opens_ns)
        if run.opens_ns > now_ns:
            continue
        over_ns = run.end_ns
        if run.end_ns == FOREVER and run.lost_ns != FOREVER:
            lost_ns = run.lost_ns + ns(params.lost_s)
            waits.append(lost_ns)
            if lost_ns <= now_ns:
                run.end_ns, over_ns = run.lost_ns, lost_ns
        conclusions.append(_conclusion(context, state.subject, run, over_ns))
    published, episodes, due_ns = context.reconcile(state.published, conclusions, state.pruned_until_ns)
    published = prune(published, state.reports[0].at_ns if state.reports else now_ns)
    episodes = [*state.closing, *episodes]
    state = replace(state, published=published, closing=())
    due_ns = min(due_ns, context.next_ns(*waits))
    if due_ns != FOREVER:
        return Evaluation(state, episodes, due_ns)
    if _is_closed(params, state, lateness_ns, now_ns):
        return Evaluation(None, episodes)
    next_ns = (state.reports[-1].at_ns if state.reports else 0) + lateness_ns + 1
    return Evaluation(state, episodes, context.next_ns(next_ns if next_ns > now_ns else next_ns + ns(params.lost_s)))


def _is_closed(params: MiscabledParams, state: LinkCabling, lateness_ns: int, watermark_ns: int) -> bool:
    """Return whether no neighbor is unexpected, and no later input can change a conclusion."""
    if has_open(state.published):
        return False
    last_ns = state.reports[-1].at_ns if state.reports else 0
    return last_ns + lateness_ns < watermark_ns and all(
        run.end_ns != FOREVER or run.lost_ns + ns(params.lost_s) < watermark_ns for run in _runs(params, state.reports)
    )


def _runs(params: MiscabledParams, reports: Sequence[CablingReport]) -> Iterator[MiscabledRun]:
    run: MiscabledRun | None = None
    for cabling in reports:
        reporter = (cabling.device, cabling.source)
        if cabling.neighbor_match is NeighborMatch.UNEXPECTED:
            if run is not None and cabling.at_ns >= run.lost_ns + ns(params.lost_s):
                yield run
                run = None
            if run is None or (run.lost_ns != FOREVER and run.opens_ns > run.lost_ns):
                # The first report, or all reporters lost the neighbor before the run had lasted long enough.
                run = MiscabledRun(cabling.at_ns, _opens_ns(params, cabling))
            run.wrong[reporter] = cabling
            run.lost.pop(reporter, None)
        elif run is not None and cabling.neighbor_match is NeighborMatch.EXPECTED:
            run.end_ns = cabling.at_ns
            yield run
            run = None
        elif run is not None and reporter in run.wrong:
            run.lost.setdefault(reporter, cabling.at_ns)
    if run is not None:
        yield run


def _opens_ns(params: MiscabledParams, cabling: CablingReport) -> int:
    moved_ns = cabling.moved_ns + ns(params.moved_s) if cabling.moved_ns else 0
    return max(cabling.at_ns + ns(params.hold_s), moved_ns)


_MAX_CYCLE = 64
"""The most links that are followed in one cycle: mostly two, or all links of a trunk that was connected in reverse."""


def _explain(finding: Finding, cases: Cases) -> tuple[Finding, Finding | None]:
    """Return a finding with the cause that its swap cycle shows, and the root of the cycle as its parent."""
    cycle = swap_cycle(cases, finding)
    root = cycle[0]
    if len(cycle) == 2:
        one, other = (cases.related_subjects(member.id) for member in cycle)
        if cycle[1].subject.id in one and root.subject.id in other:
            finding = replace(finding, cause=Cause.CABLES_SWAPPED)
    return finding, root if root.id != finding.id else None


def _affected_by(changed: Finding, cases: Cases) -> Iterable[str]:
    if changed.condition is Condition.LINK_MISCABLED:
        yield from (finding.id for finding in swap_cycle(cases, changed))


def swap_cycle(cases: Cases, finding: Finding) -> list[Finding]:
    """Return the findings of the links that were swapped with each other, including this one, by subject."""

    def swapped_with(one: Finding) -> Iterator[Finding]:
        related = cases.related_subjects(one.id)
        devices = {*devices_of(one), *(device for subject in related for device in _link_devices(cases, subject))}
        for other in (other for device in sorted(devices) for other in cases.findings_at(device)):
            is_related = other.subject.id in related or one.subject.id in cases.related_subjects(other.id)
            if is_related and other.condition is Condition.LINK_MISCABLED and are_concurrent(one, other):
                yield other

    members = closure(finding, swapped_with, _MAX_CYCLE).values()
    return sorted(members, key=lambda member: (member.subject.id, member.id))


def _link_devices(cases: Cases, subject_id: str) -> list[str]:
    link = cases.topology.links.get(subject_id)
    return [] if link is None else [link.lower.device, link.upper.device]


DETECTOR = Detector(
    Condition.LINK_MISCABLED,
    version="1",
    opens_when="LLDP at an end advertises another neighbor than the inventory records; reports exchanged cables",
    params=MiscabledParams,
    section="miscabled",
    placement=Placement.DOUBTFUL,
    job_domain=JobDomain.NETWORK,
    lemon=None,
    hidden_in={"nic": "neighbors and versions are facts of gNMI and of the host's agent"},
    fabric=FabricSide(
        explained_by_outages=False, capacity=CapacityEffect.NONE, severity_by_detector=True, explain=_explain,
        affected_by=_affected_by,
    ),
    pod=PodSide(
        LinkCabling, Scope.LINK, _evaluate, (CablingReport,), _observe, subject_of=lambda state: state.subject,
        rebase=_rebase, merge=_merge,
    ),
)  # fmt: skip
