"""congestion/pfc-storm: detects a port that is paused nearly all the time, without traffic in the paused direction.

Each link has one finding per end that pauses; the direction is the diagnosis. `attribute`, which receives all pods,
finds the root of several storms: the port whose device pauses without being paused.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from streams.detect.detector import NOW, Context, Detector, Evaluation, JobDomain, Observed, PodSide, Scope
from streams.detect.evidence.episodes import Conclusion, PublishedEpisodes, confidence_of, evidence_of, has_open, prune
from streams.detect.evidence.link_history import FOREVER
from streams.detect.evidence.spells import LinkSpells, Spell, SpellRun, group_spells
from streams.detect.evidence.subjects import link_coverage, subject_ends
from streams.detect.fabric_side import Cases, FabricSide, SeverityContext
from streams.detect.pfc_storm_tree import downstream, is_storm, paused_device, pausing_device, root_storm
from streams.detect.thresholds import Ratio, Seconds, Thresholds, ns
from streams.fabric.ids import Port
from streams.fabric.inventory_rows import HOST_LINK
from streams.fabric.topology import Topology
from streams.wire.models import (
    BlastRadius,
    Cause,
    Condition,
    Endpoint,
    Evidence,
    Finding,
    Severity,
    Source,
    Subject,
    Symptom,
    SymptomsReplaced,
)
from streams.wire.symptoms import CongestionState, PauseBegan, PfcWatchdogStorm


class StormParams(Thresholds):
    """`[detect.storm]`: pause without traffic, and for how long."""

    paused: Ratio = 0.8
    """Share of the time paused. SONiC requires continuous pause; the jitter of a reading is a part of seconds.

    If only frames are counted, each pauses for at most 65535 quanta of 512 bit times (IEEE 802.1Qbb).
    """
    traffic: ClassVar[float] = 0.01
    """Traffic in the paused direction, as a share of speed: an incast of 100 senders leaves each one hundredth."""
    transitions_per_s: ClassVar[float] = 1
    """Transitions between on and off, if counted: thousands per second in congestion, none in a storm."""
    sustained_s: Seconds = 3
    """Between the detection time of a switch's watchdog (SONiC: 0.2 s) and of a NIC's own guard (mlx5: 8 s)."""
    stalled: ClassVar[float] = 0.3
    """Share of the seconds in which the NIC waited for PCIe, from which its host is the cause (DETECTION 1)."""
    quiet_s: ClassVar[float] = 30
    """Closes when the port was free for this long; storms recur when the queue that caused them fills again."""


StormSpell = Spell[PauseBegan | PfcWatchdogStorm]
StormRun = SpellRun[PauseBegan | PfcWatchdogStorm]


def _conclusion(params: StormParams, context: Context, subject: Subject, origin: Endpoint, run: StormRun) -> Conclusion:
    """Return the episode of a group of spells in which `origin` pauses the other end."""
    begin_ns, end_ns, free_ns = run.begin_ns, run.end_ns, run.over_ns(ns(params.quiet_s))
    ends = subject_ends(subject)
    stalls = max(spell.stalls for spell in run)
    at_host = subject.role == HOST_LINK and subject.a is not None and origin == subject.a
    paused = next((end for end in ends if end != origin), None)
    victim = f"{paused.device}/{paused.port}" if paused is not None else "the far end"
    worst = max(run, key=_paused_ratio)
    queue = f" ({queue})" if (queue := _queue(worst.began)) else ""
    name = f"{origin.device}/{origin.port}"
    stuck = any(isinstance(spell.began, PfcWatchdogStorm) and spell.began.is_stuck for spell in run)
    return Conclusion(
        subject, begin_ns, min(end_ns, FOREVER - 1), opened_ns=run.reported_ns,
        seen_ns=run.seen_ns, resolved_ns=end_ns if free_ns <= context.watermark_ns else None, over_ns=free_ns,
        summary=f"the PFC watchdog of {victim}{queue} is stuck: it drops all traffic, and {name} does not pause it"
        if stuck
        else f"{name} {_verb(worst.began)} {victim}{queue} {_duration(worst)}, no traffic passes",
        cause=Cause.SWITCH if stuck else Cause.PCIE if stalls else Cause.NIC if at_host else Cause.SWITCH,
        evidence=(replace(one, peer=paused) for one in _evidence(params, origin, run, worst, stalls)),
        confidence=confidence_of(run.reporters),
        coverage=link_coverage(subject, run.reporters),
        severity=Severity.CRITICAL,
        anchor=f"{begin_ns}/{origin.device}",
    )  # fmt: skip


def _paused_ratio(spell: StormSpell) -> float:
    """Return the share of the time paused; 0 if a watchdog reported it."""
    return spell.began.paused_ratio if isinstance(spell.began, PauseBegan) else 0.0


def _verb(began: PauseBegan | PfcWatchdogStorm) -> str:
    return "frees no credits of" if isinstance(began, PauseBegan) and began.by_credits else "pauses"


def _queue(began: PauseBegan | PfcWatchdogStorm) -> str:
    """Return the name of the queue or priority; empty if the whole port is paused."""
    if isinstance(began, PauseBegan):
        kind = "virtual channel" if began.by_credits else "priority"
        return "" if began.priority is None else f"{kind} {began.priority}"
    return began.report if began.queue is None else f"queue {began.queue}"


def _duration(worst: StormSpell) -> str:
    return (
        "without end, by its watchdog"
        if isinstance(worst.began, PfcWatchdogStorm)
        else f"{_paused_ratio(worst):.0%} of the time"
    )


def _evidence(
    params: StormParams, origin: Endpoint, run: StormRun, worst: StormSpell, stalls: float
) -> Iterator[Evidence]:
    """Yield evidence, first of the end that pauses, by which the root is found."""
    span = run.begin_ns, run.seen_ns
    if isinstance(worst.began, PfcWatchdogStorm):
        name = f"{worst.reporter.device}/{worst.reporter.port}"
        statement = f"the PFC watchdog of {name} reports a pause without end"
        yield evidence_of(statement, "pfc_watchdog_storms", origin, span, comparison="")
        return
    if worst.began.by_credits:
        name = f"{worst.reporter.device}/{worst.reporter.port}"
        ratio, traffic = _paused_ratio(worst), f"{params.traffic:.0%}"
        statement = f"{origin.device}/{origin.port} frees no credits, and {name} sends less than {traffic} of its speed"
        if worst.source is Source.SOURCE_IB:
            statement = f"{name} waits for credits {ratio:.0%} of the time: {statement}"
        metric = "tx_wait_bytes" if worst.source is Source.SOURCE_IB else "credits_used"
        yield evidence_of(statement, metric, origin, span, ratio, params.paused)
        return
    at = "both ends" if len(run.reporters) > 1 else f"{worst.reporter.device}/{worst.reporter.port}"
    yield evidence_of(
        f"{origin.device}/{origin.port} pauses the far end {_paused_ratio(worst):.0%} of the time, and "
        f"less than {params.traffic:.0%} of its speed arrives, by the counters of {at}",
        ("pfc" if _queue(worst.began) else "pause") + ("_rx_frames" if worst.is_paused else "_tx_frames"),
        origin, span, _paused_ratio(worst), params.paused,
    )  # fmt: skip
    if stalls:
        yield evidence_of(
            f"the NIC at {origin.device}/{origin.port} waits for PCIe {stalls:.0%} of the time: "
            "its host is the cause, not the fabric",
            "pcie_stalled_write_seconds", origin, span, stalls, params.stalled,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class StormState:
    """The pause spells of one link, and the published episodes by the device that pauses."""

    link: LinkSpells[PauseBegan | PfcWatchdogStorm]
    published: dict[str, PublishedEpisodes] = field(default_factory=dict)


def _observe(
    _: StormParams, state: StormState | None, observed: Symptom | SymptomsReplaced, context: Context
) -> Observed[StormState]:
    """Add an observation to the spells."""
    state = state or StormState(LinkSpells(context.subject_at(Port(observed.device, observed.port))))
    link = state.link.observe(observed)
    if link is not state.link:
        return Observed(replace(state, link=link), NOW)
    return Observed(None if _is_closed(state) else state)


def _is_closed(state: StormState) -> bool:
    return not state.link.spells and not any(has_open(published) for published in state.published.values())


def _rebase(state: StormState, subject: Subject, context: Context) -> Observed[StormState]:
    """Adopt the subject of a new inventory; a link keeps its episodes."""
    return Observed(replace(state, link=replace(state.link, subject=subject)), context.watermark_ns)


def _merge(moved: StormState, existing: StormState) -> StormState:
    """Return the spells and episodes of both."""
    devices = {*moved.published, *existing.published}
    published = {device: (*moved.published.get(device, ()), *existing.published.get(device, ())) for device in devices}
    return StormState(replace(moved.link, spells=(*moved.link.spells, *existing.link.spells)), published)


def _evaluate(params: StormParams, _: str, state: StormState, context: Context) -> Evaluation[StormState]:
    """Conclude from the spells, for each end that pauses."""
    link, published, now_ns = state.link, dict(state.published), context.watermark_ns
    by_origin: dict[Endpoint, list[StormSpell]] = {}
    for spell in link.spells:
        by_origin.setdefault(link.pause_origin(spell), []).append(spell)
    episodes = []
    due_ns = FOREVER
    for origin, spells in by_origin.items():
        runs = group_spells(ns(params.quiet_s), spells)
        conclusions = [_conclusion(params, context, link.subject, origin, run) for run in runs]
        own, changed, own_due_ns = context.reconcile(published.get(origin.device, ()), conclusions)
        episodes += changed
        due_ns = min(due_ns, own_due_ns)
        final_ns = now_ns - ns(context.settings.lateness_s)
        gone_ns = max((c.end_ns for c in conclusions if c.over_ns <= final_ns), default=0)
        evaluated = set(spells)
        link = replace(link, spells=tuple(s for s in link.spells if s not in evaluated or s.end_ns > gone_ns))
        published[origin.device] = prune(own, gone_ns + 1)
    state = StormState(link, published)
    return Evaluation(None if _is_closed(state) else state, episodes, due_ns)


def _explain(storm: Finding, cases: Cases) -> tuple[Finding, Finding | None]:
    root = root_storm(cases, storm)
    if root is not None:
        return storm, root
    return _with_victims(cases.topology, storm, downstream(cases, storm)), None


def _affected_by(changed: Finding, cases: Cases) -> Iterable[str]:
    """Yield the storms downstream, and the root whenever the number of its storms has doubled."""
    if not is_storm(changed):
        return
    yield from (storm.id for storm in downstream(cases, changed))
    root = root_storm(cases, changed)
    if root is not None and _is_power_of_two(len(downstream(cases, root))):
        yield root.id


def _is_power_of_two(count: int) -> bool:
    return not count & (count - 1)


def _child_cause(parent: Finding, child: Finding) -> Cause | None:
    return parent.cause if is_storm(child) else None


def _with_victims(topology: Topology, root: Finding, children: Sequence[Finding]) -> Finding:
    """Return a root with the hosts and jobs that it pauses, and the jobs at the origin of the pause."""
    storms = (root, *children)
    paused = {paused_device(storm) for storm in storms}
    hosts = sorted(device for device in paused if (known := topology.devices.get(device)) and known.kind == "host")
    jobs = topology.jobs_on(hosts, root.started_at_ns)
    origin = pausing_device(root)
    origin_jobs = topology.jobs_on([origin], root.started_at_ns)
    pods = {pod for storm in storms if (pod := storm.subject.pod)}
    parts = [f"{origin} is not paused by any device"]
    if children:
        parts[0] += f": the root of {_count(len(children), 'more paused link')} in {_count(len(pods), 'pod')}"
    if origin_jobs:
        parts.append(f"job {', '.join(origin_jobs)} runs on it")
    if hosts:
        paused_hosts = f"{_count(len(hosts), 'host')} {'is' if len(hosts) == 1 else 'are'} paused"
        parts.append(paused_hosts + (f", of job {', '.join(jobs)}" if jobs else ""))
    evidence = Evidence(
        "; ".join(parts), comparison="peers", at=root.evidence[0].at if root.evidence else None, peers=len(children)
    )
    radius = root.blast_radius
    affected = sorted({*hosts, *(radius.hosts if radius is not None else ())})
    return replace(
        root,
        evidence=(*root.evidence, evidence),
        blast_radius=BlastRadius(
            hosts=tuple(affected),
            jobs=topology.jobs_on(affected, root.started_at_ns),
            gpus=sum(topology.devices[host].gpus for host in affected if host in topology.devices),
            capacity_lost_ratio=radius.capacity_lost_ratio if radius is not None else None,
        ),
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _is_critical(storm: Finding, context: SeverityContext) -> bool:
    """Rate a storm CRITICAL: at once for a host, for a switch only when the root would be known.

    A pausing switch may itself be paused by the root, which is detected later: its port is polled later, or traffic
    passed in the rest of the interval in which the storm began, unlike at an idle port.
    """
    return context.watermark_ns >= _root_known_ns(None, storm) or context.was_critical(storm)


def _root_known_ns(_params: object, storm: Finding) -> int:
    """Return the watermark by which the root of a storm has been reported; 0 for a host's storm, which is a root.

    The storm took one interval between two readings to be detected, and the root takes as long from then on. By that
    watermark all live sources have sent a reading.
    """
    origin = storm.evidence[0].at if storm.evidence else None
    if storm.subject.role == HOST_LINK and origin == storm.subject.a:
        return 0
    detected_ns = storm.detected_at_ns or storm.started_at_ns
    return 2 * detected_ns - storm.started_at_ns


DETECTOR = Detector(
    Condition.CONGESTION_PFC_STORM,
    version="1",
    opens_when="pause or stalled credits without traffic for 3 s; traced to the root port, which is not paused itself",
    params=StormParams,
    section="storm",
    placement=None,
    job_domain=JobDomain.NETWORK,
    lemon=None,
    hidden_in={"no-pause": "no port pauses another"},
    fabric=FabricSide(
        is_critical=_is_critical, severity_due_ns=_root_known_ns, explain=_explain, affected_by=_affected_by,
        child_cause=_child_cause,
    ),
    pod=PodSide(
        StormState, Scope.LINK, _evaluate,
        (CongestionState.PAUSE_RECEIVED, CongestionState.PAUSE_SENT, CongestionState.WATCHDOG_STORM), _observe,
        subject_of=lambda state: state.link.subject, rebase=_rebase, merge=_merge,
    ),
)  # fmt: skip
