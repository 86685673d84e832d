"""rail/degraded: detects a rail that is up but slower than its peers.

Opens after three consecutive bad windows (one, if the rail trained below its speed), and closes after five good ones.
comparison.py decides whether a window is bad. It compares a window once the watermark has passed its end by the
lateness, when the windows of all hosts have arrived. A link that loses frames is also link/degrading.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from streams.detect.detector import (
    Context,
    Detector,
    Evaluation,
    FaultOf,
    JobDomain,
    Observed,
    Placement,
    PodSide,
    Scope,
)
from streams.detect.detectors.rail_degraded.comparison import (
    RailParams,
    RailPort,
    RailReason,
    RailVerdict,
    compare_rails,
)
from streams.detect.detectors.rail_degraded.hosts import HostsState, add_host_rates, evaluate_hosts
from streams.detect.evidence.episodes import Conclusion, evidence_of
from streams.detect.evidence.link_history import FOREVER
from streams.detect.evidence.port_faults import part_evidence
from streams.detect.evidence.windows import BadPeriod, Marks, conclude_all, watch_window
from streams.detect.fabric_side import (
    Cases,
    FabricEvaluator,
    FabricSide,
    are_concurrent,
    detection_order,
    device_at,
    under_a_job,
)
from streams.detect.thresholds import ns
from streams.fabric.ids import Port
from streams.fabric.intervals import closed, overlaps_any
from streams.wire.models import (
    Cause,
    Condition,
    Coverage,
    Endpoint,
    Episode,
    Evidence,
    Finding,
    PeerGroup,
    PeerWindow,
    Severity,
    Subject,
)
from streams.wire.symptoms import Fault

_CAUSES = {
    RailReason.SLOW: Cause.UNKNOWN, RailReason.TRAINED_LOW: Cause.NIC, RailReason.RETRANSMITS: Cause.UNKNOWN,
    RailReason.PCIE: Cause.PCIE,
}  # fmt: skip
_METRICS = {
    RailReason.SLOW: "tx_bytes", RailReason.TRAINED_LOW: "speed_bps", RailReason.RETRANSMITS: "local_ack_timeouts",
    RailReason.PCIE: "pcie_stalled_read_seconds",
}  # fmt: skip
_FAULTS = (Fault.RETRIES_EXCEEDED, Fault.CORRUPT_PACKETS, Fault.PCIE_SIGNAL, Fault.SLOT_POWER, Fault.NIC_FIRMWARE)
_ORDER = (RailReason.TRAINED_LOW, RailReason.PCIE, RailReason.SLOW, RailReason.RETRANSMITS)


def _is_case(params: RailParams, bad: Sequence[RailVerdict]) -> bool:
    """Return whether these bad windows suffice for an episode."""
    return len(bad) >= params.bad_windows or any(verdict.reason is RailReason.TRAINED_LOW for verdict in bad)


def _conclusion(params: RailParams, context: Context, subject: Subject, period: BadPeriod[RailVerdict]) -> Conclusion:
    """Return the episode of a bad period."""
    bad, ended_at_ns = period.bad, period.ended_at_ns
    span = begin_ns, end_ns = bad[0].begin_ns, bad[-1].end_ns
    worst = _worst(bad)
    subject = _at_port(context, subject, worst.port)
    opened = next(bad[n] for n in range(len(bad)) if _is_case(params, bad[: n + 1]))
    at = subject.a or Endpoint("")
    line = evidence_of(
        f"{at.device}/{at.port} {_headline(worst)}", _METRICS[worst.reason], at, span, worst.observed, worst.expected,
        "peers" if worst.peers else "threshold", worst.peers or None,
    )  # fmt: skip
    return Conclusion(
        subject, begin_ns, end_ns, opened_ns=opened.end_ns + ns(context.settings.lateness_s), seen_ns=end_ns,
        resolved_ns=None if ended_at_ns is None else end_ns, over_ns=ended_at_ns or FOREVER,
        summary=f"rail {subject.rail} of {at.device} {_headline(worst)}",
        cause=_CAUSES[worst.reason],
        evidence=(line, *part_evidence(context, at, span, _FAULTS)),
        confidence=0.9 if worst.peers >= 2 * params.peers or worst.reason is RailReason.TRAINED_LOW else 0.7,
        coverage=Coverage(seen=worst.peers + 1, expected=worst.peers + 1) if worst.peers else None,
    )  # fmt: skip


def _at_port(context: Context, subject: Subject, port: str) -> Subject:
    """Return the rail at this port; an earlier period may have been at its port of another plane."""
    if subject.a is None or port in ("", subject.a.port):
        return subject
    at = Port(subject.a.device, port)
    return replace(subject, a=Endpoint(at.device, at.port), plane=context.subject_at(at).plane)


def _worst(bad: Sequence[RailVerdict]) -> RailVerdict:
    """Return the reason that explains the others, and among those the window that deviates most from its peers."""
    return min(bad, key=lambda verdict: (_ORDER.index(verdict.reason), _distance(verdict), verdict.begin_ns))


def _distance(verdict: RailVerdict) -> float:
    sign = -1 if verdict.reason in (RailReason.PCIE, RailReason.RETRANSMITS) else 1
    return verdict.observed / verdict.expected * sign


def _headline(verdict: RailVerdict) -> str:
    if verdict.reason is RailReason.TRAINED_LOW:
        return f"trained at {verdict.observed / 1e9:.0f} instead of {verdict.expected / 1e9:.0f} Gb/s"
    if verdict.reason is RailReason.PCIE:
        return f"is slow: its NIC stalled on PCIe for {verdict.observed:.0%} of the time"
    if verdict.reason is RailReason.RETRANSMITS:
        return f"retransmits {verdict.observed:.1f} times the limit, which {verdict.peers} other hosts do not"
    share = verdict.observed / verdict.expected
    return (
        f"is slow: {verdict.observed / 1e9:.1f} Gb/s, {share:.0%} of the {verdict.expected / 1e9:.1f} Gb/s"
        f" of the host's other rails, unlike at {verdict.peers} other hosts"
    )


@dataclass(frozen=True, slots=True)
class PodRails:
    """The rails of one pod."""

    waiting: dict[int, dict[str, PeerWindow]] = field(default_factory=dict)
    """Start of a window -> host -> its rails in it, from the source with the lowest number."""
    compared_until_ns: int = 0
    """The end of the newest compared window; earlier windows arrive too late."""
    rails: dict[str, Marks[RailVerdict]] = field(default_factory=dict)
    """`host/rail` -> a rail that is or was bad."""


def _observe(_: RailParams, state: PodRails | None, window: PeerWindow, context: Context) -> Observed[PodRails]:
    """Add the window of a host; evaluate once it is complete."""
    state = state or PodRails()
    if window.end_ns > state.compared_until_ns:
        hosts = state.waiting.get(window.begin_ns, {})
        known = hosts.get(window.device)
        if known is None or window.source < known.source:
            waiting = state.waiting | {window.begin_ns: hosts | {window.device: window}}
            state = replace(state, waiting=waiting)
    due_ns = _complete_ns(state.waiting, context)
    return Observed(state, due_ns if due_ns != FOREVER else None)


def _complete_ns(waiting: dict[int, dict[str, PeerWindow]], context: Context) -> int:
    """Return the watermark at which the next window can be compared."""
    ends = (next(iter(hosts.values())).end_ns for hosts in waiting.values())
    return min((end + ns(context.settings.lateness_s) for end in ends), default=FOREVER)


def _evaluate(params: RailParams, key: str, state: PodRails, context: Context) -> Evaluation[PodRails]:
    """Compare the complete windows, and conclude on every rail that was bad."""
    now_ns, lateness_ns = context.watermark_ns, ns(context.settings.lateness_s)
    read = [host for host in context.hosts_by_pod.get(key, ()) if context.is_reporting(host)]
    waiting, rails, until_ns = dict(state.waiting), dict(state.rails), state.compared_until_ns
    for begin_ns in sorted(waiting):
        windows = waiting[begin_ns]
        end_ns = next(iter(windows.values())).end_ns
        if end_ns + lateness_ns > now_ns:
            break
        del waiting[begin_ns]
        until_ns = max(until_ns, end_ns)
        _compare(params, context, windows, read, rails)

    def conclude(rail: Marks[RailVerdict]) -> tuple[Marks[RailVerdict], list[Episode], int]:
        host = device_at(rail.subject)  # one that moved to another pod is compared there
        is_read = host in read or context.topology.pod_of(host) != key
        watch = watch_window(context.settings, now_ns, is_read=is_read)
        return rail.conclude(
            context.ledger, watch, lambda bad: _is_case(params, bad), params.good_windows, _worst,
            lambda subject, period: _conclusion(params, context, subject, period),
        )  # fmt: skip

    episodes, due_ns = conclude_all(rails, conclude)
    return Evaluation(PodRails(waiting, until_ns, rails), episodes, min(due_ns, _complete_ns(waiting, context)))


def _compare(
    params: RailParams,
    context: Context,
    windows: dict[str, PeerWindow],
    read: Sequence[str],
    rails: dict[str, Marks[RailVerdict]],
) -> None:
    """Add the verdicts of one window to the rails; a rail whose link trained meanwhile is not slow."""
    for rail, verdict in compare_rails(params, context.topology, windows, read, rails.keys()).values():
        port = Port(rail.host, rail.port)
        if overlaps_any(context.training_intervals(port), closed(windows[rail.host].since_ns, verdict.end_ns)):
            continue
        name = f"{rail.host}/{rail.rail}"
        known = rails.get(name) or Marks(_rail_subject(rail, context.subject_at(port)))
        if not known.marks or verdict.begin_ns > known.marks[-1].begin_ns:
            known = known.with_marks((*known.marks, verdict))
        rails[name] = known


def _rail_subject(rail: RailPort, link: Subject) -> Subject:
    """Return a rail of a host, at its port, with pod, site and team of its link."""
    return replace(
        link, id=f"rail:{rail.host}/{rail.rail}", a=Endpoint(rail.host, rail.port), z=None, role="rail", rail=rail.rail,
        former_ids=(),
    )  # fmt: skip


_FAULTS_OF_GPUS = (Condition.HOST_NVLINK_DEGRADED, Condition.HOST_POWER_CAPPED)
"""Faults that slow a GPU, and with it the rail that carries its traffic."""
_FAULTS_OF_HOSTS = (
    Condition.HOST_GPU_FAULT, Condition.HOST_PCIE_DEGRADED, Condition.HOST_THERMAL_THROTTLE, *_FAULTS_OF_GPUS,
)  # fmt: skip
"""Faults of a part of a host that slow the whole host: a job waits for the GPU that is reset or throttled."""

_TOGETHER = 3
"""The number of rails of a host that is no coincidence, as `[detect.grouping] links` of one device."""


def _explain(finding: Finding, cases: Cases) -> tuple[Finding, Finding | None]:
    """Return the finding, and the most severe fault at its port at that time as its parent.

    Without one, the first of the rails that trained low together is the parent, with all of them in its evidence.
    """
    port = finding.subject.a
    if port is None:
        return finding, None
    if _is_host(finding):
        return finding, _fault_of_host(finding, port.device, cases)
    fault = next((fault for fault in cases.link_faults_at(port) if are_concurrent(fault, finding)), None)
    together = [] if fault is not None else _trained_low_together(finding, cases)
    if len(together) < _TOGETHER:
        return finding, fault or _slow_host_of(finding, port.device, cases) or _slow_gpu_of(finding, port.device, cases)
    root = min(together, key=detection_order)
    if root.id != finding.id:
        return finding, root
    rails = ", ".join(sorted(str(one.subject.rail) for one in together))
    statement = f"{len(together)} rails of {port.device} trained low together: {rails}"
    evidence = Evidence(
        f"{statement}; this finding represents them", metric="group", at=port, observed=float(len(together)),
        expected=1.0, comparison="peers", peers=len(together),
    )  # fmt: skip
    summary = f"{statement}; first: {finding.summary}"
    return replace(finding, summary=summary, evidence=(*finding.evidence, evidence)), None


def _is_host(finding: Finding) -> bool:
    return finding.condition is Condition.RAIL_DEGRADED and finding.subject.role == "host"


def _fault_of_host(finding: Finding, host: str, cases: Cases) -> Finding | None:
    """Return the first fault of a part of the host, or rails that trained low, that explain all of its rails."""
    at_host = [other for other in cases.findings_at(host) if are_concurrent(other, finding)]
    faults = [other for other in at_host if other.condition in _FAULTS_OF_HOSTS]
    low = [other for other in at_host if _is_trained_low(other)]
    faults += low if len(low) >= _TOGETHER else ()
    if finding.severity is Severity.INFO:  # bytes alone: the congestion that throttles the host explains them
        faults += [other for other in cases.findings_of(Condition.CONGESTION_COLLAPSE) if _throttles(other, finding)]
    return min(faults, key=detection_order, default=None)


def _throttles(collapse: Finding, finding: Finding) -> bool:
    hosts = collapse.blast_radius.hosts if collapse.blast_radius is not None else ()
    return finding.subject.a is not None and finding.subject.a.device in hosts and are_concurrent(collapse, finding)


def _slow_host_of(finding: Finding, host: str, cases: Cases) -> Finding | None:
    """Return the finding of the rail's host if counters show its cause; a rail that trained low has its own."""
    if _is_trained_low(finding):
        return None
    hosts = (other for other in cases.findings_at(host) if _is_host(other) and other.severity > Severity.INFO)
    return next((other for other in hosts if are_concurrent(other, finding)), None)


def _slow_gpu_of(finding: Finding, host: str, cases: Cases) -> Finding | None:
    """Return the first fault of a GPU of the rail's host that began before it; a rail that trained low has its own."""
    if _is_trained_low(finding):
        return None
    gpus = (other for other in cases.findings_at(host) if other.condition in _FAULTS_OF_GPUS)
    return min((other for other in gpus if are_concurrent(other, finding)), key=detection_order, default=None)


def _is_trained_low(finding: Finding) -> bool:
    return finding.condition is Condition.RAIL_DEGRADED and finding.cause is Cause.NIC


def _trained_low_together(finding: Finding, cases: Cases) -> list[Finding]:
    """Return the rails of the finding's host that trained low in the same window, including its own."""
    if not _is_trained_low(finding) or finding.subject.a is None:
        return []
    return [
        other
        for other in cases.findings_at(finding.subject.a.device)
        if _is_trained_low(other) and other.started_at_ns == finding.started_at_ns
    ]


def _affected_by(finding: Finding, cases: Cases) -> Iterator[str]:
    """Yield the other rails of a host with a rail that trained low, of a slow host, and of a host with faulty parts."""
    if finding.condition is Condition.CONGESTION_COLLAPSE:
        yield from (one.id for one in cases.findings_of(Condition.RAIL_DEGRADED) if _is_host(one))
    if finding.subject.a is None:
        return
    if _is_trained_low(finding) or _is_host(finding) or finding.condition in _FAULTS_OF_HOSTS:
        for other in cases.findings_at(finding.subject.a.device):
            if other.condition is Condition.RAIL_DEGRADED:
                yield other.id


DETECTOR = Detector(
    Condition.RAIL_DEGRADED,
    version="1",
    opens_when="a rail is up but slower than its peers, trained below its speed, or limited by PCIe",
    params=RailParams,
    section="rail",
    placement=Placement.DOUBTFUL,
    job_domain=JobDomain.NETWORK,
    lemon=FaultOf.HOST,
    hidden_in={"snmp": "rails are compared by the counters of NICs"},
    fabric=FabricSide(
        explain=_explain,
        affected_by=_affected_by,
        is_critical=under_a_job,
        evaluator=FabricEvaluator(HostsState, add_host_rates, evaluate_hosts),
    ),
    pod=PodSide(PodRails, Scope.POD, _evaluate, (PeerGroup.HOST_RAILS,), _observe),
)
