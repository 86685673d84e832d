"""path/loss: detects a link or a switch that drops packets silently, and a path that drops the packets of one 5-tuple.

Evaluates the active probes of the last minute each 10 s, of the whole fabric; localize.py finds the elements that
explain the losses. Opens with the first significant window, and resolves after `clear_s` without one. A rail that
answers no prober is rail/unreachable. A host that is down, stalled or slow to answer casts no votes. On fabrics that
spray packets, retries.py concludes from the NICs' retransmits.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from streams.detect.detector import Context, Detector, Evaluation, JobDomain, Placement, follow_link, link_follower
from streams.detect.detectors.path_loss.flows import PathParams, device_of
from streams.detect.detectors.path_loss.localize import Suspect, localize
from streams.detect.detectors.path_loss.retries import METRIC as RETRIES
from streams.detect.detectors.path_loss.retries import RetryState, add_retries, evaluate_retries
from streams.detect.evidence.episodes import Conclusion, Ledger, PublishedEpisodes, confidence_of, has_open
from streams.detect.evidence.link_history import FOREVER, LinkHistory
from streams.detect.evidence.port_faults import fault_evidence, reported_faults, session_downs
from streams.detect.evidence.probe_verdicts import ProbeStatement, ProbeVerdict, Verdicts, probe_conclusion
from streams.detect.evidence.subjects import device_subject, link_coverage, link_name, port_subject
from streams.detect.fabric_side import (
    Cases,
    FabricEvaluator,
    FabricSide,
    are_concurrent,
    detection_order,
    devices_of,
    takes_a_rail_from_a_job,
)
from streams.detect.thresholds import ns
from streams.fabric.ids import Port
from streams.fabric.intervals import Interval, merge_intervals
from streams.fabric.inventory_rows import HOST_LINK
from streams.fabric.topology import Topology
from streams.wire.models import (
    Cause,
    Condition,
    Coverage,
    Episode,
    Finding,
    HostRates,
    Message,
    ProbeWindow,
    Subject,
)
from streams.wire.symptoms import SESSION_FAULTS, Fault

_CERTAIN, _NOT_DISTINGUISHED, _NOT_LOCATED = 0.9, 0.6, 0.5
"""Confidence in one element, in one of several with the same flows, and in a flow whose trace shows no place."""


def _verdict(
    params: PathParams, topology: Topology, subject: Subject, suspects: Sequence[Suspect], end_ns: int,
    cells: Sequence[ProbeWindow],
) -> ProbeVerdict:  # fmt: skip
    """Return the verdict on a subject: its suspects are both directions of a link, or several flows."""
    whole = [one for one in suspects if one.flow is None]
    lost, sent = sum(one.lost for one in suspects), sum(one.sent for one in suspects)
    confidence = min(
        _NOT_LOCATED if not one.is_located else _NOT_DISTINGUISHED if one.equal else _CERTAIN for one in suspects
    )
    width_ns = ns(params.window_s)
    return ProbeVerdict(
        min(one.begin_ns for one in suspects) - width_ns, max(one.last_ns for one in suspects), end_ns, lost, sent,
        _summary(subject, whole, suspects),
        (*(line for one in suspects for line in _statements(params, one)), *_limits(topology, suspects),
         _coverage(cells)), confidence,
        is_switch=any("/" not in one.element for one in suspects),
    )  # fmt: skip


def _limits(topology: Topology, suspects: Sequence[Suspect]) -> list[ProbeStatement]:
    """Return what these probes do not show: where packets are sprayed, RoCE takes other paths than a 5-tuple."""
    devices = (topology.devices.get(device_of(one.element)) for one in suspects)
    sprayed = next((device for device in devices if device is not None and device.is_sprayed), None)
    if sprayed is None:
        return []
    how = f"packets are sprayed at {sprayed.name} (load_balancing {sprayed.load_balancing})"
    return [ProbeStatement(f"{how}: probes show their own paths, not those of RoCE", sprayed.name)]


def _summary(subject: Subject, whole: Sequence[Suspect], suspects: Sequence[Suspect]) -> str:
    name = link_name(subject) if subject.z is not None else subject.id.partition(":")[2]
    if whole:
        ratio = sum(one.lost for one in whole) / max(1, sum(one.sent for one in whole))
        return f"{name} loses {ratio:.1%} of the probes that cross it"
    hosts = suspects[0].flow.hosts if suspects[0].flow is not None else ("", "")
    if not suspects[0].is_located:
        return f"a path from {hosts[0]} to {hosts[1]} loses all probes of one 5-tuple"
    count = "one 5-tuple" if len(suspects) == 1 else f"{len(suspects)} 5-tuples"
    return f"{name} loses all probes of {count} (first: {hosts[0]} to {hosts[1]})"


def _statements(params: PathParams, suspect: Suspect) -> list[ProbeStatement]:
    device = device_of(suspect.element)
    port = suspect.element[len(device) + 1 :]
    if suspect.flow is not None:
        flow = suspect.flow
        where = (
            f"beyond the last hop that answers: into {suspect.element}" if suspect.is_located else "place not traced"
        )
        text = (
            f"{suspect.lost} of {suspect.sent} probes from {flow.source} to {flow.target}, source port"
            f" {flow.source_port}, are lost; of those of other flows over a same link or host at most"
            f" {suspect.others:.1%}; {where}"
        )
        return [ProbeStatement(text, device, port, suspect.lost / max(1, suspect.sent), suspect.others)]
    where = f"into {suspect.element}" if port else f"through {device}"
    text = f"{suspect.lost} of {suspect.sent} probes {where} are lost, of {suspect.flows} flows"
    lines = [ProbeStatement(text, device, port, suspect.lost / max(1, suspect.sent), params.noise)]
    if suspect.votes:
        text = f"{suspect.votes:.2f} votes of these flows for {suspect.element}"
        if suspect.next_element:
            text += f"; next: {suspect.next_votes:.2f} for {suspect.next_element}"
        lines.append(ProbeStatement(text, device, port, suspect.votes, suspect.next_votes))
    if suspect.equal:
        text = f"the same flows cross {', '.join(suspect.equal)}: probes cannot distinguish these"
        lines.append(ProbeStatement(text, device, port, 1.0 + len(suspect.equal), 1.0))
    return lines


def _coverage(cells: Sequence[ProbeWindow]) -> ProbeStatement:
    """Return the number of counted probers; the sum over the partitions of the newest window."""
    newest_ns = max(cell.at_ns for cell in cells)
    newest = [cell for cell in cells if cell.at_ns == newest_ns]
    probers, left_out = sum(cell.probers for cell in newest), sum(cell.left_out for cell in newest)
    text = f"{probers} probers reported, {left_out} more stalled and cast no votes"
    return ProbeStatement(text, "", "", probers, probers + left_out)


_ENOUGH = 1
"""The number of verdicts that open a period; each already covers several windows."""


@dataclass(slots=True)
class LossState:
    """One subject with losses."""

    subject: Subject
    verdicts: Verdicts = field(default_factory=Verdicts)
    published: PublishedEpisodes = ()


@dataclass(slots=True)
class PathState:
    """The windows of the last minute and those that may still change, and the subjects with losses."""

    windows: dict[str, dict[str, ProbeWindow]] = field(default_factory=dict)
    """End of the window -> partition -> the window."""
    subjects: dict[str, LossState] = field(default_factory=dict)
    changed_ns: int = FOREVER
    """The end of the first window with unevaluated input."""
    final_ns: int = 0
    due_ns: int = FOREVER
    """The watermark at which a result changes without input."""
    retries: RetryState = field(default_factory=RetryState)


def add_message(state: PathState, message: Message) -> None:
    """Add a window of a partition, or replace it; add the ports of hosts that retransmit."""
    if isinstance(message, HostRates):
        add_retries(state.retries, message)
    elif isinstance(message, ProbeWindow) and message.at_ns > state.final_ns:
        state.windows.setdefault(str(message.at_ns), {})[str(message.shard)] = message
        state.changed_ns = min(state.changed_ns, message.at_ns)


def _evaluate(params: PathParams, ledger: Ledger, state: PathState, topology: Topology) -> list[Episode]:
    """Evaluate the windows that changed, and conclude on every subject."""
    return [*evaluate_retries(ledger, state.retries, topology), *_evaluate_probes(params, ledger, state, topology)]


def _evaluate_probes(params: PathParams, ledger: Ledger, state: PathState, topology: Topology) -> list[Episode]:
    watermark_ns, lateness_ns = ledger.watermark_ns, ns(ledger.settings.lateness_s)
    if watermark_ns < min(state.changed_ns, state.due_ns):
        return []
    ends = sorted(map(int, state.windows))
    for end_ns in ends:
        if state.changed_ns <= end_ns <= watermark_ns:
            _judge(params, state, topology, end_ns)
    state.changed_ns = next((end for end in ends if end > watermark_ns), FOREVER)
    episodes: list[Episode] = []
    state.due_ns = FOREVER
    final_ns = max(state.final_ns, watermark_ns - lateness_ns)
    for key, own in list(state.subjects.items()):
        episodes += _conclude(params, ledger, state, own)
        own.verdicts = own.verdicts.settled(final_ns, _ENOUGH, ns(params.window_s), ns(params.clear_s))
        if own.verdicts == Verdicts() and not has_open(own.published):
            del state.subjects[key]
        pending = (int(end) + lateness_ns for end in own.verdicts.pending)
        state.due_ns = min(state.due_ns, *pending, FOREVER)
    state.final_ns = final_ns
    oldest_ns = final_ns - params.windows * ns(params.window_s)
    state.windows = {end: own for end, own in state.windows.items() if int(end) > oldest_ns}
    return episodes


def _judge(params: PathParams, state: PathState, topology: Topology, end_ns: int) -> None:
    """Set the verdicts on the windows up to an end."""
    begin_ns = end_ns - params.windows * ns(params.window_s)
    cells = [
        window for end, own in sorted(state.windows.items()) if begin_ns < int(end) <= end_ns for window in own.values()
    ]
    suspects: dict[str, list[Suspect]] = defaultdict(list)
    for suspect in localize(params, cells):
        subject = _subject(topology, suspect.element)
        state.subjects.setdefault(subject.id, LossState(subject))
        suspects[subject.id].append(suspect)
    for key, own in state.subjects.items():
        found = suspects.get(key)
        verdict = _verdict(params, topology, own.subject, found, end_ns, cells) if found else None
        own.verdicts = own.verdicts.with_pending(end_ns, verdict)


def _subject(topology: Topology, element: str) -> Subject:
    """Return the link into a port, or the switch."""
    device = device_of(element)
    if device == element:
        return device_subject(topology, device)
    return port_subject(topology, Port(device, element[len(device) + 1 :]))


def _conclude(params: PathParams, ledger: Ledger, state: PathState, own: LossState) -> list[Episode]:
    conclusions = []
    for period in own.verdicts.periods(_ENOUGH, ns(params.window_s), ns(params.clear_s)):
        probers = period.worst.statements[-1]
        coverage = Coverage(seen=round(probers.observed), expected=round(probers.expected))
        cause = Cause.SWITCH if period.worst.is_switch else Cause.UNKNOWN
        conclusions.append(probe_conclusion(own.subject, period, params.clear_s, ledger.watermark_ns, cause, coverage))
    own.published, episodes, due_ns = ledger.reconcile(own.published, conclusions)
    state.due_ns = min(state.due_ns, due_ns)
    return episodes


# Sessions: a BFD or BGP session is down although its link is up; no prober is needed. Such a session fails if the link
# drops packets silently. It also fails while a port trains, while its device restarts or is shut, and with all sessions
# of a device when its routing ends; none of these is a fault of the link. Opens after `session_hold_s`, if the session
# was up before. `attribute` joins it with the evidence of probes.

_NAMES = {Fault.BFD_SESSION_DOWN: "BFD", Fault.BGP_SESSION_DOWN: "BGP"}


def _session_conclusion(params: PathParams, context: Context, history: LinkHistory, span: Interval) -> Conclusion:
    """Return the episode of an interval in which a session is down and the link is up."""
    begin, end = span
    faults = [one for one in reported_faults(history, span) if one.fault in SESSION_FAULTS and one.end_ns > begin]
    reporters = list(dict.fromkeys(one.end for one in faults))
    sessions = " and ".join(_NAMES[fault] for fault in SESSION_FAULTS if any(one.fault is fault for one in faults))
    is_over = end <= context.watermark_ns
    return Conclusion(
        history.subject, begin, end, opened_ns=begin + ns(params.session_hold_s), seen_ns=end if is_over else begin,
        resolved_ns=end if is_over else None, over_ns=end,
        summary=f"{link_name(history.subject)} is up, but its {sessions} session is down",
        cause=Cause.UNKNOWN,
        evidence=fault_evidence(faults, span),
        confidence=confidence_of(reporters),
        coverage=link_coverage(history.subject, reporters),
        anchor=f"session {begin}",
    )  # fmt: skip


def _evaluate_sessions(
    params: PathParams, key: str, state: PublishedEpisodes | None, context: Context
) -> Evaluation[PublishedEpisodes]:
    """Conclude from the history of the link."""
    history, now_ns = context.evidence.links[key], context.watermark_ns
    hold_ns = ns(params.session_hold_s)
    spans = [span for span in _silent_spans(params, context, history) if span[1] - span[0] >= hold_ns]
    opened = [span for span in spans if span[0] + hold_ns <= now_ns]
    if not (state and has_open(state)) and not all(context.is_reporting(end.device) for end in history.ends()):
        opened = []  # an unread device may restart
    conclusions = [_session_conclusion(params, context, history, span) for span in opened]
    return follow_link(context, history, state, conclusions, (begin + hold_ns for begin, _ in spans))


def _silent_spans(params: PathParams, context: Context, history: LinkHistory) -> Iterator[Interval]:
    """Yield the downs of a session without an explanation at the ends of the link."""
    downs = merge_intervals(session_downs(history))
    excused = list(_excuses(params, context, history)) if downs else []
    for span in downs:
        if not _is_of_device(context, history, span):
            yield from _without(span, excused)


def _excuses(params: PathParams, context: Context, history: LinkHistory) -> Iterator[Interval]:
    """Yield intervals in which a session may be down: the link trains, a device restarts, or sessions start."""
    settle_ns = ns(params.session_settle_s)
    for end in history.ends():
        trained = context.training_intervals(Port(end.device, end.port))
        for begin, until in (*trained, *context.restarts(end.device)):
            yield begin - settle_ns, until if until == FOREVER else until + settle_ns


def _is_of_device(context: Context, history: LinkHistory, span: Interval) -> bool:
    """Return whether another link of one of the devices lost its session at about the same time."""
    near_ns = ns(context.settings.grouping.links_s)
    keys = {key for end in history.ends() for key in context.evidence.links_of_device(end.device)}
    others = (context.evidence.links[key] for key in keys - {history.subject.id})
    return any(abs(begin - span[0]) <= near_ns for other in others for begin, _ in session_downs(other))


def _without(span: Interval, excused: list[Interval]) -> Iterator[Interval]:
    """Yield the rest of an interval."""
    begin, end = span
    for off, on in sorted(excused):
        if on <= begin or off >= end:
            continue
        if off > begin:
            yield begin, off
        begin = max(begin, on)
    if begin < end:
        yield begin, end


_SESSIONS = ("bfd_session_up", "bgp_session_up")


def _explain(finding: Finding, cases: Cases) -> tuple[Finding, Finding | None]:
    """Return the finding with the sessions that failed with it, and its parent. The parent is the most severe
    concurrent fault at its ports, or for a session the probes' finding on its link or switches.
    """
    if _is_of_retries(finding):
        return _explain_retries(finding, cases)
    for port in (finding.subject.a, finding.subject.z):
        for fault in cases.link_faults_at(port) if port is not None else ():
            if fault.condition is not finding.condition and are_concurrent(fault, finding):
                return finding, fault
    others = [
        other
        for device in devices_of(finding)
        for other in cases.findings_at(device)
        if other.condition is finding.condition
        and are_concurrent(other, finding)
        and _is_of_session(other) is not _is_of_session(finding)
    ]
    if _is_of_session(finding):
        probed = [other for other in others if other.subject.id == finding.subject.id or other.subject.z is None]
        return finding, min(probed, key=detection_order, default=None)
    sessions = [line for other in others if other.subject.id == finding.subject.id for line in other.evidence]
    return replace(finding, evidence=(*finding.evidence, *dict.fromkeys(sessions))), None


def _is_of_session(finding: Finding) -> bool:
    return any(evidence.metric in _SESSIONS for evidence in finding.evidence[:1])


_FAULTS = (Condition.LINK_DEGRADING, Condition.LINK_FLAP, Condition.LINK_DOWN, Condition.PATH_LOSS)
"""Faults of a link of a plane for which NICs retransmit."""


def _explain_retries(finding: Finding, cases: Cases) -> tuple[Finding, Finding | None]:
    """Return the finding with the paths that switches avoid, and its parent: the fault of a link of the plane.

    A host's link explains only the retransmits of its host.
    """
    near = [
        other
        for condition in (*_FAULTS, Condition.CONGESTION_IMBALANCE)
        for other in cases.findings_of(condition)
        if other.id != finding.id and _is_near(other, finding) and are_concurrent(other, finding)
    ]
    avoided = [line for one in near if one.condition is Condition.CONGESTION_IMBALANCE for line in one.evidence[:1]]
    faults = [one for one in near if one.condition in _FAULTS and not _is_of_retries(one)]
    finding = replace(finding, evidence=(*finding.evidence, *avoided))
    return finding, min(faults, key=detection_order, default=None)


def _is_near(other: Finding, finding: Finding) -> bool:
    if other.subject.role == HOST_LINK:
        return False
    if finding.subject.a is not None and finding.subject.a.device in devices_of(other):
        return True
    return finding.subject.a is None and other.subject.plane == finding.subject.plane


def _is_of_retries(finding: Finding) -> bool:
    return finding.condition is Condition.PATH_LOSS and any(line.metric == RETRIES for line in finding.evidence[:1])


def _affected_by(changed: Finding, cases: Cases) -> Iterator[str]:
    """Yield the findings at the devices of another finding: sessions are evidence for losses of probes."""
    if changed.condition in (*_FAULTS, Condition.CONGESTION_IMBALANCE) and changed.subject.role != HOST_LINK:
        for other in cases.findings_of(Condition.PATH_LOSS):
            if _is_of_retries(other) and other.id != changed.id and _is_near(changed, other):
                yield other.id
    if changed.condition is Condition.PATH_LOSS:
        for device in devices_of(changed):
            for other in cases.findings_at(device):
                if other.condition is Condition.PATH_LOSS and other.id != changed.id:
                    yield other.id


DETECTOR = Detector(
    Condition.PATH_LOSS,
    version="1",
    opens_when=(
        "active probes are lost at a link or switch that counts no drops, or on one 5-tuple while others over the "
        "same links are not, or NICs below a leaf or in a plane retransmit where packets are sprayed"
    ),
    params=PathParams,
    section="path",
    placement=Placement.DOUBTFUL,
    job_domain=JobDomain.NETWORK,
    lemon=None,
    hidden_in=dict.fromkeys(("snmp", "nic", "infiniband"), "no counter shows the loss, and no probes are sent"),
    fabric=FabricSide(
        link_fault_rank=5,
        explain=_explain,
        affected_by=_affected_by,
        is_critical=takes_a_rail_from_a_job,
        evaluator=FabricEvaluator(PathState, add_message, _evaluate),
    ),
    pod=link_follower(_evaluate_sessions),
)
