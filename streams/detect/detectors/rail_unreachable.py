"""rail/unreachable: detects a rail of a host that answers no prober while the host's other rails do.

Opens when `open_windows` consecutive windows lose nearly all probes from and to the rail, and resolves after `clear_s`
without one. A host that loses all rails is itself at fault (device/down); a link that is down or shut is link/down.
Without reports of the host nothing is concluded.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar

from streams.detect.detector import NOW, Context, Detector, Evaluation, JobDomain, Observed, Placement, PodSide, Scope
from streams.detect.evidence.episodes import PublishedEpisodes, has_open
from streams.detect.evidence.probe_verdicts import ProbeStatement, ProbeVerdict, Verdicts, probe_conclusion
from streams.detect.fabric_side import Cases, FabricSide, are_concurrent, rail_keys, takes_a_rail_from_a_job
from streams.detect.thresholds import Thresholds, ns
from streams.fabric.ids import Port, device_id
from streams.fabric.intervals import closed, overlaps_any
from streams.fabric.topology import Topology
from streams.wire.models import Cause, Condition, Coverage, Endpoint, Finding, RailProbes, Subject


class UnreachableParams(Thresholds):
    """`[detect.unreachable]`: when a rail answers no prober while the other rails of its host do."""

    unreached_ratio: ClassVar[float] = 0.9
    """Share of lost probes from and to the rail: all but those at the ends of a window."""
    others_ratio: ClassVar[float] = 0.5
    """The host's other rails lose less than this share; else the host is at fault (choice: most of them answer)."""
    peers: ClassVar[int] = 3
    """Other hosts whose probes to the rail are lost: `[collect.probe] tor_targets` are on its leaf."""
    open_windows: ClassVar[int] = 3
    """Consecutive windows: 30 s, as link/down waits. A link that trains or a route that changes takes less."""
    clear_s: ClassVar[float] = 60
    """Resolves after answering for this long; an intermittent rail is one finding (choice)."""


def _verdict(params: UnreachableParams, window: RailProbes, topology: Topology) -> ProbeVerdict:
    """Return the verdict on a window in which the rail is not reached."""
    name = f"{window.device}/{window.port}"
    link = topology.link_at(Port(window.device, window.port))
    behind = f" behind {link.upper.device}" if link is not None else ""
    statements = (
        ProbeStatement(
            f"{window.to_lost} of {window.to_sent} probes of {window.peers} hosts to {name}{behind} are lost",
            window.device, window.port, window.to_lost / max(1, window.to_sent), params.unreached_ratio,
        ),
        ProbeStatement(
            f"{window.own_lost} of {window.own_sent} probes from {name} are lost",
            window.device, window.port, window.own_lost / max(1, window.own_sent), params.unreached_ratio,
        ),
        ProbeStatement(
            f"{window.others_lost} of {window.others_sent} probes from the other rails of {window.device} are lost",
            window.device, "", window.others_lost / max(1, window.others_sent), params.others_ratio,
        ),
    )  # fmt: skip
    lost, sent = window.to_lost + window.own_lost, window.to_sent + window.own_sent
    summary = f"{name} answers no probe, while the other rails of {window.device} do"
    return ProbeVerdict(window.begin_ns, window.end_ns, window.end_ns, lost, sent, summary, statements)


@dataclass(frozen=True, slots=True)
class RailProbeState:
    """One rail: its windows that may still change, the verdicts on all windows, and its published episodes."""

    subject: Subject
    windows: dict[str, dict[str, RailProbes]] = field(default_factory=dict)
    """End of the window -> partition -> the window."""
    verdicts: Verdicts = field(default_factory=Verdicts)
    published: PublishedEpisodes = ()
    final_ns: int = 0


def _observe(
    _: UnreachableParams, state: RailProbeState | None, probes: RailProbes, context: Context
) -> Observed[RailProbeState]:
    """Add or replace a window of one partition; evaluate now, so that its time replaces no earlier schedule."""
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


def _evaluate(params: UnreachableParams, _: str, state: RailProbeState, context: Context) -> Evaluation[RailProbeState]:
    """Conclude from all windows of a rail."""
    now_ns, lateness_ns, clear_ns = context.watermark_ns, ns(context.settings.lateness_s), ns(params.clear_s)
    verdicts, width_ns = state.verdicts, 1
    for end, own in state.windows.items():
        window = _joined(own)
        width_ns = window.end_ns - window.begin_ns
        if window.end_ns <= now_ns:
            trained = context.training_intervals(Port(window.device, window.port))
            is_down = overlaps_any(trained, closed(window.begin_ns, window.end_ns))
            is_bad = not is_down and _is_unreached(params, window)
            verdict = _verdict(params, window, context.topology) if is_bad else None
            verdicts = verdicts.with_pending(int(end), verdict)
    periods = [one for one in verdicts.periods(params.open_windows, width_ns, clear_ns) if one.opened_ns]
    answering = Coverage(seen=1, expected=1)
    conclusions = [
        probe_conclusion(state.subject, period, params.clear_s, now_ns, Cause.UNKNOWN, answering) for period in periods
    ]
    published, episodes, due_ns = context.reconcile(state.published, conclusions)
    final_ns = max(state.final_ns, now_ns - lateness_ns)
    settled = verdicts.settled(final_ns, params.open_windows, width_ns, clear_ns)
    windows = {end: own for end, own in state.windows.items() if int(end) > final_ns}
    due = [int(end) if int(end) > now_ns else int(end) + lateness_ns for end in windows]
    if settled.period is not None and not has_open(published):
        due.append(settled.period.end_ns + clear_ns + lateness_ns)
    due_ns = min(due_ns, context.next_ns(*due))
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
    """Return whether a rail answers no prober and gets no answer, while the other rails of its host do."""
    return (
        window.own_sent > 0
        and window.own_lost >= params.unreached_ratio * window.own_sent
        and window.to_lost >= params.unreached_ratio * window.to_sent
        and window.peers >= params.peers
        and window.others_sent > 0
        and window.others_lost < params.others_ratio * window.others_sent
    )


def _explain(finding: Finding, cases: Cases) -> tuple[Finding, Finding | None]:
    """Return the finding, and the concurrent fault at its port or of the leaf behind it as its parent."""
    port = finding.subject.a
    if port is None:
        return finding, None
    link = cases.topology.link_at(Port(port.device, port.port))
    leaf = device_id(link.upper.device) if link is not None else ""
    lossy = (one for one in cases.findings_of(Condition.PATH_LOSS) if one.subject.id == leaf)
    faults = (*cases.link_faults_at(port), *lossy)
    return finding, next((fault for fault in faults if are_concurrent(fault, finding)), None)


DETECTOR = Detector(
    Condition.RAIL_UNREACHABLE,
    version="1",
    opens_when=(
        "no probe of and to one rail of a host is answered for 30 s while its link is up and its other rails answer"
    ),
    params=UnreachableParams,
    section="unreachable",
    placement=Placement.OUT,
    job_domain=JobDomain.NETWORK,
    lemon=None,
    hidden_in=dict.fromkeys(("snmp", "nic", "infiniband"), "its link is up, and no probes are sent"),
    fabric=FabricSide(group_keys=rail_keys, explain=_explain, is_critical=takes_a_rail_from_a_job),
    pod=PodSide(RailProbeState, Scope.PORT, _evaluate, (RailProbes,), _observe),
)
