"""The finding of congestion/pfc-storm: which end pauses the other, and for how long."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from streams.detect.detector import Context
from streams.detect.detectors.congestion_pfc_storm.params import StormParams
from streams.detect.evidence.confidence import BOTH_ENDS, ONE_END
from streams.detect.evidence.congestion_spells import Spell, ends_at_ns
from streams.detect.evidence.episodes import Conclusion, finding_defaults
from streams.detect.evidence.link_history import FOREVER
from streams.detect.evidence.subjects import subject_ends
from streams.detect.thresholds import ns
from streams.fabric.inventory_rows import HOST_LINK
from streams.wire.models import Cause, Condition, Coverage, Endpoint, Evidence, Finding, Severity, Subject
from streams.wire.symptoms import PauseBegan, PfcWatchdogStorm

SLUG = "congestion/pfc-storm"
VERSION = "1"

StormSpell = Spell[PauseBegan | PfcWatchdogStorm]


def conclusion(
    params: StormParams, context: Context, subject: Subject, origin: Endpoint, run: Sequence[StormSpell]
) -> Conclusion:
    """Return the episode of a group of spells in which `origin` pauses the other end."""
    begin_ns, end_ns = run[0].begin_ns, max(spell.end_ns for spell in run)
    free_ns = ends_at_ns(ns(params.quiet_s), run)
    resolved = free_ns <= context.watermark_ns
    reporters = list(dict.fromkeys(spell.reporter for spell in run))
    ends = subject_ends(subject)
    missing = tuple(f"{end.device}/{end.port}" for end in ends if end not in reporters) or (
        ("far end",) if len(ends) < 2 else ()
    )
    stalls = max(spell.stalls for spell in run)
    at_host = subject.role == HOST_LINK and subject.a is not None and origin == subject.a
    paused = next((end for end in ends if end != origin), None)
    victim = f"{paused.device}/{paused.port}" if paused is not None else "the far end"
    worst = max(run, key=_paused_ratio)
    queue = f" ({name})" if (name := _queue(worst.began)) else ""
    last_ns = max(spell.reported_ns if spell.end_ns == FOREVER else spell.end_ns for spell in run)
    finding = Finding(
        **finding_defaults(context.settings, SLUG, VERSION),
        condition=Condition.CONGESTION_PFC_STORM,
        severity=Severity.CRITICAL,
        subject=subject,
        started_at_ns=begin_ns,
        observed_at_ns=last_ns,
        resolved_at_ns=end_ns if resolved else None,
        detected_at_ns=min(spell.reported_ns for spell in run),
        summary=f"{origin.device}/{origin.port} pauses {victim}{queue} {_duration(worst)}, no traffic passes",
        cause=Cause.PCIE if stalls else Cause.NIC if at_host else Cause.SWITCH,
        evidence=tuple(replace(one, peer=paused) for one in _evidence(params, origin, run, worst, stalls, last_ns)),
        confidence=BOTH_ENDS if len(reporters) > 1 else ONE_END,
        coverage=Coverage(seen=len(reporters), expected=2, missing=missing),
    )
    final_at = None if free_ns == FOREVER else free_ns + ns(context.settings.lateness_s)
    return Conclusion(begin_ns, min(end_ns, FOREVER - 1), finding, f"{begin_ns}/{origin.device}", final_at)


def _paused_ratio(spell: StormSpell) -> float:
    """Return the share of the time; 0 where a watchdog reported it."""
    return spell.began.paused_ratio if isinstance(spell.began, PauseBegan) else 0.0


def _queue(began: PauseBegan | PfcWatchdogStorm) -> str:
    """Return the name of the queue or priority; empty where the whole port is paused."""
    if isinstance(began, PauseBegan):
        return "" if began.priority is None else f"priority {began.priority}"
    return began.report if began.queue is None else f"queue {began.queue}"


def _duration(worst: StormSpell) -> str:
    return "without end, by its watchdog" if worst.is_instant else f"{_paused_ratio(worst):.0%} of the time"


def _evidence(
    params: StormParams, origin: Endpoint, run: Sequence[StormSpell], worst: StormSpell, stalls: float, last_ns: int
) -> Iterator[Evidence]:
    """Yield the end that pauses first: the root is found by it."""
    if worst.is_instant:
        yield Evidence(
            statement=f"the PFC watchdog of {worst.reporter.device}/{worst.reporter.port} reports a pause without end",
            metric="pfc_watchdog_storms",
            at=origin,
            window_start_ns=run[0].begin_ns,
            window_end_ns=last_ns,
        )
        return
    reporters = {spell.reporter for spell in run}
    at = "both ends" if len(reporters) > 1 else f"{worst.reporter.device}/{worst.reporter.port}"
    yield Evidence(
        statement=f"{origin.device}/{origin.port} pauses the far end {_paused_ratio(worst):.0%} of the time, and "
        f"less than {params.traffic:.0%} of its speed arrives, by the counters of {at}",
        metric=("pfc" if _queue(worst.began) else "pause") + ("_rx_frames" if worst.is_paused else "_tx_frames"),
        at=origin,
        observed=_paused_ratio(worst),
        expected=params.paused,
        comparison="threshold",
        window_start_ns=run[0].begin_ns,
        window_end_ns=last_ns,
    )
    if stalls:
        yield Evidence(
            statement=f"the NIC at {origin.device}/{origin.port} waits for PCIe {stalls:.0%} of the time: "
            "its host is the cause, not the fabric",
            metric="pcie_stalled_write_seconds",
            at=origin,
            observed=stalls,
            expected=params.stalled,
            comparison="threshold",
            window_start_ns=run[0].begin_ns,
            window_end_ns=last_ns,
        )
