"""rail/unreachable: detects a rail of a host that answers to no one while the host's other rails do.

Opens when `open_windows` windows in a row lose nearly all probes of and to the rail, and resolves after `clear_s`
without one. A host that loses all rails is at fault itself, and is left to device/down; a link that is down or shut
is left to link/down. Without reports of the host nothing is concluded.
"""

from dataclasses import dataclass, field, replace

from streams.detect.detector import NOW, Context, Evaluation, Observed
from streams.detect.detectors.rail_unreachable import report
from streams.detect.detectors.rail_unreachable.params import UnreachableParams
from streams.detect.evidence.episodes import PublishedEpisodes, has_open, next_final_ns, reconcile
from streams.detect.evidence.link_history import FOREVER
from streams.detect.evidence.probe_verdicts import Verdicts
from streams.detect.thresholds import ns
from streams.fabric.ids import Port
from streams.fabric.intervals import closed, overlaps_any
from streams.wire.models import Endpoint, RailProbes, Subject


@dataclass(frozen=True, slots=True)
class RailProbeState:
    """One rail: its windows that may still change, the verdicts on all, and its published episodes."""

    subject: Subject
    windows: dict[str, dict[str, RailProbes]] = field(default_factory=dict)
    """By the end of the window and by partition."""
    verdicts: Verdicts = field(default_factory=Verdicts)
    published: PublishedEpisodes = ()
    final_ns: int = 0


def observe(
    _: UnreachableParams, state: RailProbeState | None, probes: RailProbes, context: Context
) -> Observed[RailProbeState]:
    """Add a window of one partition, or replace it. Its time must not replace an earlier one: evaluate now."""
    final_ns = context.watermark_ns - ns(context.settings.lateness_s)
    if probes.end_ns <= (final_ns if state is None else state.final_ns):
        return Observed(state)
    state = state or RailProbeState(_subject(context, probes))
    shards = state.windows.get(str(probes.end_ns), {})
    if shards.get(str(probes.shard)) == probes:
        return Observed(state)
    windows = state.windows | {str(probes.end_ns): shards | {str(probes.shard): probes}}
    return Observed(replace(state, windows=windows), NOW)


def _subject(context: Context, probes: RailProbes) -> Subject:
    """Return the rail, at its port, with pod, site and team of its link."""
    link = context.subject_at(Port(probes.device, probes.port))
    return replace(
        link, id=f"rail:{probes.device}/{probes.port}", a=Endpoint(probes.device, probes.port), z=None, role="rail",
        former_ids=(),
    )  # fmt: skip


def evaluate(
    params: UnreachableParams, _: str, state: RailProbeState | None, context: Context
) -> Evaluation[RailProbeState]:
    """Conclude from all windows of a rail."""
    if state is None:
        return Evaluation(None)
    now_ns, lateness_ns, clear_ns = context.watermark_ns, ns(context.settings.lateness_s), ns(params.clear_s)
    verdicts, width_ns = state.verdicts, 1
    for end, own in state.windows.items():
        window = _joined(own)
        width_ns = window.end_ns - window.begin_ns
        if window.end_ns <= now_ns:
            is_bad = _is_unreached(params, window) and not _is_training(context, window)
            verdict = report.verdict(params, window, context.topology) if is_bad else None
            verdicts = verdicts.with_pending(int(end), verdict)
    periods = [one for one in verdicts.periods(params.open_windows, width_ns, clear_ns) if one.opened_ns]
    conclusions = [report.conclusion(params, context, state.subject, period) for period in periods]
    published, episodes = reconcile(state.published, conclusions, now_ns)
    final_ns = max(state.final_ns, now_ns - lateness_ns)
    settled = verdicts.settled(final_ns, params.open_windows, width_ns, clear_ns)
    windows = {end: own for end, own in state.windows.items() if int(end) > final_ns}
    due = [period.end_ns + clear_ns for period in periods]
    due += [int(end) if int(end) > now_ns else int(end) + lateness_ns for end in windows]
    if settled.period is not None and not has_open(published):
        due.append(settled.period.end_ns + clear_ns + lateness_ns)
    due_ns = min((at for at in due if at > now_ns), default=FOREVER)
    due_ns = min(due_ns, next_final_ns(conclusions, now_ns))
    if not windows and settled == Verdicts() and not has_open(published):
        return Evaluation(None, episodes)
    return Evaluation(RailProbeState(state.subject, windows, settled, published, final_ns), episodes, due_ns)


def _joined(shards: dict[str, RailProbes]) -> RailProbes:
    """Return the sums over all partitions."""
    one, *others = shards.values()
    for other in others:
        one = replace(
            one, own_sent=one.own_sent + other.own_sent, own_lost=one.own_lost + other.own_lost,
            others_sent=one.others_sent + other.others_sent, others_lost=one.others_lost + other.others_lost,
            to_sent=one.to_sent + other.to_sent, to_lost=one.to_lost + other.to_lost, peers=one.peers + other.peers,
        )  # fmt: skip
    return one


def _is_unreached(params: UnreachableParams, window: RailProbes) -> bool:
    """Return whether a rail answers to no one and gets no answer, while the other rails of its host do."""
    return (
        window.own_sent > 0
        and window.own_lost >= params.unreached_ratio * window.own_sent
        and window.to_lost >= params.unreached_ratio * window.to_sent
        and window.peers >= params.peers
        and window.others_sent > 0
        and window.others_lost < params.others_ratio * window.others_sent
    )


def _is_training(context: Context, window: RailProbes) -> bool:
    """Return whether the rail's link was down, trained or was administratively down meanwhile."""
    intervals = context.training_intervals(Port(window.device, window.port))
    return overlaps_any(intervals, closed(window.begin_ns, window.end_ns))
