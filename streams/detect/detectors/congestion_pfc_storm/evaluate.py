"""congestion/pfc-storm: a port is paused nearly all the time while nothing goes the way that is paused.

One finding for each link and the end of it that pauses; the direction is the diagnosis. Which of many is the root,
the port whose device pauses without being paused, is for `attribute`, which sees all pods (attribute/storms.py).
"""

from collections.abc import Iterator, Sequence

from streams.detect.detectors.link_down.evaluate import BOTH_ENDS, ONE_END
from streams.detect.evidence.congestion_spells import LinkSpells, Spell, ends_at_ns, group_spells
from streams.detect.evidence.episodes import Conclusion, finding_defaults, next_final_ns, prune, reconcile
from streams.detect.evidence.link_history import FOREVER
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.inventory_rows import HOST_LINK
from streams.wire.models import (
    Cause,
    Condition,
    Coverage,
    Endpoint,
    Episode,
    Evidence,
    Finding,
    Severity,
)
from streams.wire.symptoms import CongestionState, PauseBegan, PfcWatchdogStorm

SLUG = "congestion/pfc-storm"
VERSION = "1"

STATES = (CongestionState.PAUSE_RECEIVED, CongestionState.PAUSE_SENT)


StormSpells = LinkSpells[PauseBegan | PfcWatchdogStorm]
StormSpell = Spell[PauseBegan | PfcWatchdogStorm]


def step(params: DetectParams, own: StormSpells, watermark_ns: int) -> tuple[list[Episode], int]:
    """Conclude from the spells; answers what changed, and the watermark at which to look again."""
    by_pauser: dict[Endpoint, list[StormSpell]] = {}
    for spell in own.spells:
        by_pauser.setdefault(own.pause_origin(spell), []).append(spell)
    quiet_ns = ns(params.storm.quiet_s)
    episodes: list[Episode] = []
    due_ns = FOREVER
    for pauser, spells in by_pauser.items():
        runs = list(group_spells(quiet_ns, spells))
        conclusions = [_conclusion(params, own, pauser, run, watermark_ns) for run in runs]
        state, said = reconcile(own.published.get(pauser.device, ()), conclusions, watermark_ns)
        episodes += said
        waits = [at_ns for run in runs if (at_ns := ends_at_ns(quiet_ns, run)) > watermark_ns]
        due_ns = min(due_ns, next_final_ns(conclusions, watermark_ns), *waits)
        over = [c for c in conclusions if c.final_at_ns is not None and c.final_at_ns <= watermark_ns]
        gone_ns = max((c.end_ns for c in over), default=0)
        own.spells = [s for s in own.spells if s not in spells or s.end_ns > gone_ns]
        own.published[pauser.device] = prune(state, gone_ns + 1)
    return episodes, due_ns


def _conclusion(
    params: DetectParams, own: StormSpells, pauser: Endpoint, run: Sequence[StormSpell], watermark_ns: int
) -> Conclusion:
    begin_ns, end_ns = run[0].begin_ns, max(spell.end_ns for spell in run)
    free_ns = ends_at_ns(ns(params.storm.quiet_s), run)
    resolved = free_ns <= watermark_ns
    tellers = list(dict.fromkeys(spell.reporter for spell in run))
    ends = [end for end in (own.subject.a, own.subject.z) if end is not None]
    missing = tuple(f"{end.device}/{end.port}" for end in ends if end not in tellers) or (
        ("far end",) if len(ends) < 2 else ()
    )
    stalls = max(spell.stalls for spell in run)
    at_host = own.subject.role == HOST_LINK and own.subject.a is not None and pauser == own.subject.a
    paused = next((end for end in ends if end != pauser), None)
    victim = f"{paused.device}/{paused.port}" if paused is not None else "the far end"
    worst = max(run, key=_paused_ratio)
    of = f" ({queue})" if (queue := _queue(worst.began)) else ""
    last_ns = max(spell.reported_ns if spell.end_ns == FOREVER else spell.end_ns for spell in run)
    finding = Finding(
        **finding_defaults(params, SLUG, VERSION),
        condition=Condition.CONGESTION_PFC_STORM,
        severity=Severity.CRITICAL,
        subject=own.subject,
        started_at_ns=begin_ns,
        observed_at_ns=last_ns,
        resolved_at_ns=end_ns if resolved else None,
        detected_at_ns=min(spell.reported_ns for spell in run),
        summary=f"{pauser.device}/{pauser.port} pauses {victim}{of} {_how_long(worst)}, nothing gets in",
        cause=Cause.PCIE if stalls else Cause.NIC if at_host else Cause.SWITCH,
        evidence=tuple(_evidence(params, pauser, run, worst, stalls, last_ns)),
        confidence=BOTH_ENDS if len(tellers) > 1 else ONE_END,
        coverage=Coverage(seen=len(tellers), expected=2, missing=missing),
    )
    final_at = None if free_ns == FOREVER else free_ns + ns(params.lateness_s)
    return Conclusion(begin_ns, min(end_ns, FOREVER - 1), finding, f"{begin_ns}/{pauser.device}", final_at)


def _paused_ratio(spell: StormSpell) -> float:
    """Return the share of the time; 0 where a watchdog reported it."""
    return spell.began.paused_ratio if isinstance(spell.began, PauseBegan) else 0.0


def _queue(began: PauseBegan | PfcWatchdogStorm) -> str:
    """Return the name of the queue or priority; empty where the whole port is paused."""
    if isinstance(began, PauseBegan):
        return "" if began.priority is None else f"priority {began.priority}"
    return began.report if began.queue is None else f"queue {began.queue}"


def _how_long(worst: StormSpell) -> str:
    return "without end, as its watchdog says" if worst.is_instant else f"{_paused_ratio(worst):.0%} of the time"


def _watchdog(pauser: Endpoint, teller: Endpoint, run: Sequence[StormSpell], last_ns: int) -> Evidence:
    return Evidence(
        statement=f"the PFC watchdog of {teller.device}/{teller.port} finds it held without end",
        metric="pfc_watchdog_storms",
        at=pauser,
        window_start_ns=run[0].begin_ns,
        window_end_ns=last_ns,
    )


def _evidence(
    params: DetectParams, pauser: Endpoint, run: Sequence[StormSpell], worst: StormSpell, stalls: float, last_ns: int
) -> Iterator[Evidence]:
    """The end that pauses comes first: it is what the root is followed by."""
    if worst.is_instant:
        yield _watchdog(pauser, worst.reporter, run, last_ns)
        return
    tellers = {spell.reporter for spell in run}
    told = "both ends count it" if len(tellers) > 1 else f"{worst.reporter.device}/{worst.reporter.port} counts it"
    yield Evidence(
        statement=f"{pauser.device}/{pauser.port} pauses the far side {_paused_ratio(worst):.0%} of the time and "
        f"less than {params.storm.traffic:.0%} of its speed comes in; {told}",
        metric=("pfc" if _queue(worst.began) else "pause") + ("_rx_frames" if worst.is_paused else "_tx_frames"),
        at=pauser,
        observed=_paused_ratio(worst),
        expected=params.storm.paused,
        comparison="threshold",
        window_start_ns=run[0].begin_ns,
        window_end_ns=last_ns,
    )
    if stalls:
        yield Evidence(
            statement=f"the NIC at {pauser.device}/{pauser.port} waits for PCIe {stalls:.0%} of the time: "
            "its host is the cause, not the fabric",
            metric="pcie_stalled_write_seconds",
            at=pauser,
            observed=stalls,
            expected=params.storm.stalled,
            comparison="threshold",
            window_start_ns=run[0].begin_ns,
            window_end_ns=last_ns,
        )
