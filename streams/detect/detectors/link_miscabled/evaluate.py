"""link/miscabled: a link whose ends have other LLDP neighbors than the inventory names.

Opens when that has lasted some minutes, longer after the inventory moved the link; closes when an end has the expected
neighbor. A missing neighbor is no evidence either way: it opens nothing, and closes an episode only after a day.
"""

from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from streams.detect.detector import NOW, Context, Evaluation, Observed
from streams.detect.detectors.link_miscabled import report
from streams.detect.detectors.link_miscabled.params import MiscabledParams
from streams.detect.evidence.episodes import PublishedEpisodes, has_open, next_final_ns, prune, reconcile
from streams.detect.evidence.link_history import FOREVER
from streams.detect.thresholds import ns
from streams.fabric.ids import Port
from streams.fabric.lldp_verdict import NeighborMatch
from streams.wire.models import CablingReport, Episode, Source, Status, Subject

_CAPACITY = 64
"""Reports retained of a link; the neighbor of an end changes only when a cable is moved."""

_INVENTORY_LEAD_NS = ns(3600)
"""`measure` adopts an inventory up to this long before this stage, and reports links by it."""

Reporter = tuple[str, Source]


@dataclass(frozen=True, slots=True)
class LinkCabling:
    """The cabling reports of one link of which an end had an unexpected neighbor, and its published episodes."""

    subject: Subject
    reports: tuple[CablingReport, ...] = ()
    published: PublishedEpisodes = ()
    pruned_until_ns: int = 0
    closing: tuple[Episode, ...] = ()
    """Episodes to publish because the inventory moved the link."""


@dataclass(slots=True)
class MiscabledRun:
    """From the first unexpected neighbor until an end has the expected one, or no end has a neighbor for long."""

    begin_ns: int
    opens_ns: int
    """The time at which it has lasted long enough."""
    wrong: dict[Reporter, CablingReport] = field(default_factory=dict)
    lost: dict[Reporter, int] = field(default_factory=dict)
    """The time at which each reporter lost the unexpected neighbor."""
    end_ns: int = FOREVER

    @property
    def lost_ns(self) -> int:
        """The time since which no reporter has a neighbor; FOREVER while one does."""
        return max(self.lost.values()) if len(self.lost) == len(self.wrong) else FOREVER


def observe(
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
    insort(reports, cabling, key=report.order)
    pruned_until_ns = reports.pop(0).at_ns if len(reports) > _CAPACITY else state.pruned_until_ns
    return replace(state, reports=tuple(reports), pruned_until_ns=pruned_until_ns)


def rebase(state: LinkCabling, subject: Subject, context: Context) -> Observed[LinkCabling]:
    """Take over the subject of a new inventory.

    A link that leads elsewhere now is evaluated by later reports only; its finding keeps its subject and is closed.
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


def merge(moved: LinkCabling, existing: LinkCabling) -> LinkCabling:
    """Return the reports and episodes of both."""
    merged = moved
    for cabling in existing.reports:
        merged = _with_report(merged, cabling)
    return replace(
        merged, published=(*moved.published, *existing.published), closing=(*moved.closing, *existing.closing)
    )


def evaluate(params: MiscabledParams, _: str, state: LinkCabling | None, context: Context) -> Evaluation[LinkCabling]:
    """Conclude from the neighbors."""
    if state is None:
        return Evaluation(None)
    now_ns, lateness_ns = context.watermark_ns, ns(context.settings.lateness_s)
    conclusions, due_ns = [], FOREVER
    for run in _runs(params, state.reports):
        if run.opens_ns > min(run.end_ns, run.lost_ns):
            continue
        if run.opens_ns > now_ns:
            due_ns = min(due_ns, run.opens_ns)
            continue
        final_ns = FOREVER if run.end_ns == FOREVER else run.end_ns + lateness_ns
        if run.end_ns == FOREVER and run.lost_ns != FOREVER:
            lost_ns = run.lost_ns + ns(params.lost_s)
            if lost_ns > now_ns:
                due_ns = min(due_ns, lost_ns)
            else:
                run.end_ns, final_ns = run.lost_ns, lost_ns + lateness_ns
        wrong = list(run.wrong.values())
        conclusions.append(
            report.conclusion(context, state.subject, wrong, (run.begin_ns, run.opens_ns, run.end_ns), final_ns)
        )
    published, episodes = reconcile(state.published, conclusions, now_ns, state.pruned_until_ns)
    published = prune(published, state.reports[0].at_ns if state.reports else now_ns)
    episodes = [*state.closing, *episodes]
    state = replace(state, published=published, closing=())
    due_ns = min(due_ns, next_final_ns(conclusions, now_ns))
    if due_ns != FOREVER:
        return Evaluation(state, episodes, due_ns)
    if _is_closed(params, state, lateness_ns, now_ns):
        return Evaluation(None, episodes)
    next_ns = (state.reports[-1].at_ns if state.reports else 0) + lateness_ns + 1
    if next_ns <= now_ns:
        next_ns += ns(params.lost_s)
    return Evaluation(state, episodes, next_ns if next_ns > now_ns else FOREVER)


def _is_closed(params: MiscabledParams, state: LinkCabling, lateness_ns: int, watermark_ns: int) -> bool:
    """Return whether no neighbor is unexpected, and nothing can change any more."""
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
