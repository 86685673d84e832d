"""rail/degraded of a host: detects a host most of whose rails are slow together, unlike the other hosts of its job.

Evaluated over the whole fabric, because the hosts of a job are in many pods. Opens after three consecutive bad windows,
and closes after five good ones. A host that carried less from the first windows of its job on has another role in the
job, so its bytes alone do not count. A single slow rail is compared with the host's other rails (`compare_rails`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from streams.detect.detectors.rail_degraded.comparison import (
    MAD_TO_SIGMA,
    RailParams,
    RailReason,
    Values,
    median_of_others,
    spread_within,
)
from streams.detect.evidence.episodes import Conclusion, Ledger, evidence_of
from streams.detect.evidence.link_history import FOREVER
from streams.detect.evidence.params import SharedSettings
from streams.detect.evidence.subjects import device_subject
from streams.detect.evidence.windows import BadPeriod, Marks, conclude_all, watch_window
from streams.detect.thresholds import ns
from streams.fabric.topology import Topology
from streams.wire.models import Cause, Coverage, Endpoint, Episode, Evidence, HostRates, Message, Severity, Subject


@dataclass(frozen=True, slots=True)
class HostCells:
    """One host in one window; see `HostRates`."""

    source: int
    rate_bps: float
    speed_bps: float
    rails: int
    stalled: int
    retransmitting: int


@dataclass(frozen=True, slots=True)
class HostVerdict:
    """One host in one window; `reason` is NONE if it was like its peers."""

    begin_ns: int
    end_ns: int
    reason: RailReason = RailReason.NONE
    rails: int = 0
    """The number of rails with the reason; for SLOW all rails that were read."""
    read: int = 0
    rate_bps: float = 0.0
    usual_bps: float = 0.0
    """The median of the job's other hosts."""
    peers: int = 0
    is_busy: bool = False

    @property
    def is_bad(self) -> bool:
        return self.reason is not RailReason.NONE


def compare_hosts(
    params: RailParams, begin_ns: int, end_ns: int, hosts: Mapping[str, HostCells]
) -> dict[str, HostVerdict]:
    """Return the verdict on each host of a job; empty if too few of them were read with enough rails."""
    hosts = {host: one for host, one in hosts.items() if one.rails > params.other_rails}
    cells, peers = list(hosts.values()), len(hosts) - 1
    if peers < params.peers:
        return {}
    rate = np.array([one.rate_bps for one in cells])
    rails = np.array([one.rails for one in cells])
    busy = rate >= params.busy * np.array([one.speed_bps for one in cells])
    usual = median_of_others(rate[:, None])[:, 0]
    stalled, retransmitting = (
        busy & _is_apart(np.array(counts), rails)
        for counts in ([one.stalled for one in cells], [one.retransmitting for one in cells])
    )
    slow = _is_slow(params, rate, usual, busy)
    found = {}
    for n, (host, one) in enumerate(hosts.items()):
        reason, count = RailReason.NONE, 0
        if stalled[n]:
            reason, count = RailReason.PCIE, one.stalled
        elif retransmitting[n]:
            reason, count = RailReason.RETRANSMITS, one.retransmitting
        elif slow[n]:
            reason, count = RailReason.SLOW, one.rails
        found[host] = HostVerdict(
            begin_ns, end_ns, reason, count, one.rails, one.rate_bps, float(usual[n]), peers, bool(busy[n])
        )  # fmt: skip
    return found


def _is_apart(counts: npt.NDArray[np.int64], rails: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return the hosts with more than half of their rails counted, while less than half of the others have that."""
    most = 2 * counts > rails
    others = np.count_nonzero(most) - most
    apart: npt.NDArray[np.bool_] = most & (2 * others < len(counts) - 1)
    return apart


def _is_slow(params: RailParams, rate: Values, usual: Values, busy: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return the hosts that carry less than their peers; an idle host is not slow."""
    behind = busy & (rate < params.slow * usual)
    limit = (usual - rate) / max(params.sigmas * MAD_TO_SIGMA, 1e-9)
    own = np.arange(len(rate))
    within = spread_within(rate[:, None], own, usual[:, None], limit[:, None], behind[:, None])[:, 0]
    slow: npt.NDArray[np.bool_] = behind & within
    return slow


_METRICS = {
    RailReason.SLOW: "tx_bytes", RailReason.RETRANSMITS: "local_ack_timeouts",
    RailReason.PCIE: "pcie_stalled_read_seconds",
}  # fmt: skip
_ORDER = (RailReason.PCIE, RailReason.RETRANSMITS, RailReason.SLOW)


def _conclusion(
    params: RailParams, settings: SharedSettings, subject: Subject, period: BadPeriod[HostVerdict]
) -> Conclusion:
    """Return the episode of a bad period; INFO while only bytes show it, because a host that waits carries less too."""
    bad, ended_at_ns = period.bad, period.ended_at_ns
    span = begin_ns, end_ns = bad[0].begin_ns, bad[-1].end_ns
    worst, at = _worst(bad), subject.a or Endpoint("")
    has_reason = worst.reason is not RailReason.SLOW
    return Conclusion(
        subject, begin_ns, end_ns,
        opened_ns=bad[params.bad_windows - 1].end_ns + ns(settings.lateness_s), seen_ns=end_ns,
        resolved_ns=None if ended_at_ns is None else end_ns, over_ns=ended_at_ns or FOREVER,
        summary=f"{at.device} {_headline(worst)}",
        cause=Cause.PCIE if worst.reason is RailReason.PCIE else Cause.HOST,
        evidence=_evidence(at, worst, span),
        confidence=0.9 if has_reason and worst.peers >= 2 * params.peers else 0.7,
        coverage=Coverage(seen=worst.peers + 1, expected=worst.peers + 1),
        severity=Severity.WARNING if has_reason else Severity.INFO,
    )  # fmt: skip


def _worst(bad: Sequence[HostVerdict]) -> HostVerdict:
    """Return the reason that explains the others, and among those the window that deviates most from its peers."""
    return min(bad, key=lambda one: (_ORDER.index(one.reason), _share(one), one.begin_ns))


def _share(verdict: HostVerdict) -> float:
    return verdict.rate_bps / verdict.usual_bps if verdict.usual_bps > 0 else 1.0


def _headline(verdict: HostVerdict) -> str:
    others = f"unlike {verdict.peers} other hosts"
    if verdict.reason is RailReason.PCIE:
        return f"stalls on PCIe at {verdict.rails} of its {verdict.read} rails, {others}"
    if verdict.reason is RailReason.RETRANSMITS:
        return f"retransmits on {verdict.rails} of its {verdict.read} rails, {others}"
    return f"is slow on all rails: {_rates(verdict)}, {others}"


def _rates(verdict: HostVerdict) -> str:
    usual = verdict.usual_bps / 1e9
    return f"{verdict.rate_bps / 1e9:.1f} Gb/s a rail, {_share(verdict):.0%} of the {usual:.1f} Gb/s of the others"


def _evidence(at: Endpoint, worst: HostVerdict, span: tuple[int, int]) -> list[Evidence]:
    """Return evidence of the reason, then of the host's traffic."""
    rates = evidence_of(
        f"{at.device} carries {_rates(worst)}", "tx_bytes", at, span, worst.rate_bps, worst.usual_bps, "peers",
        worst.peers,
    )  # fmt: skip
    if worst.reason is RailReason.SLOW:
        return [rates]
    reason = evidence_of(
        f"{at.device} {_headline(worst)}", _METRICS[worst.reason], at, span, float(worst.rails), worst.read / 2,
        "peers", worst.peers,
    )  # fmt: skip
    return [reason, rates]


_COUNTED = (RailReason.PCIE, RailReason.RETRANSMITS)


@dataclass(frozen=True, slots=True)
class HostState(Marks[HostVerdict]):
    """One host: its windows since the first bad one, and its published episodes."""

    marks: tuple[HostVerdict, ...] = ()
    bad: tuple[HostVerdict, ...] = ()
    is_read: bool = True
    """True if the host was read in the newest window."""


@dataclass(frozen=True, slots=True)
class JobState:
    """The comparison of the hosts of a job since its start."""

    compared: int = 0
    """Windows since the first in which its hosts were compared, up to `start_windows`."""
    unlike: tuple[str, ...] = ()
    """Hosts that carried less in one of them."""


@dataclass(slots=True)
class HostsState:
    """The incomplete windows, the running jobs, and the hosts that are or were bad."""

    windows: dict[str, dict[str, HostCells]] = field(default_factory=dict)
    """Start of the window -> host -> its values, from the source with the lowest number."""
    ends_ns: dict[str, int] = field(default_factory=dict)
    jobs: dict[str, JobState] = field(default_factory=dict)
    hosts: dict[str, HostState] = field(default_factory=dict)
    compared_until_ns: int = 0
    due_ns: int = FOREVER
    """The watermark at which a result changes without input."""


def add_host_rates(state: HostsState, message: Message) -> None:
    """Add the rates of hosts in a window."""
    if not isinstance(message, HostRates) or message.end_ns <= state.compared_until_ns:
        return
    known = state.windows.setdefault(str(message.begin_ns), {})
    state.ends_ns[str(message.begin_ns)] = message.end_ns
    of_hosts = zip(
        message.host, message.rate_bps, message.speed_bps, message.rails, message.stalled, message.retransmitting,
        strict=True,
    )  # fmt: skip
    for host, *values in of_hosts:
        if host not in known or message.source.value < known[host].source:
            known[host] = HostCells(message.source.value, *values)


def evaluate_hosts(params: RailParams, ledger: Ledger, state: HostsState, topology: Topology) -> list[Episode]:
    """Compare the complete windows, and conclude on every host that was bad."""
    settings, watermark_ns = ledger.settings, ledger.watermark_ns
    lateness_ns = ns(settings.lateness_s)
    complete = [begin for begin, end_ns in state.ends_ns.items() if end_ns + lateness_ns <= watermark_ns]
    if not complete and watermark_ns < state.due_ns:
        return []
    for begin in sorted(complete, key=int):
        end_ns = state.ends_ns.pop(begin)
        _compare(params, state, topology, (int(begin), end_ns), state.windows.pop(begin))
        state.compared_until_ns = max(state.compared_until_ns, end_ns)
    reported_ns = min(watermark_ns, state.compared_until_ns + lateness_ns)

    def conclude(own: HostState) -> tuple[HostState, list[Episode], int]:
        return own.conclude(
            ledger, watch_window(settings, reported_ns, is_read=own.is_read),
            lambda bad: len(bad) >= params.bad_windows, params.good_windows, _worst,
            lambda subject, period: _conclusion(params, settings, subject, period),
        )  # fmt: skip

    episodes, state.due_ns = conclude_all(state.hosts, conclude)
    return episodes


def _compare(
    params: RailParams, state: HostsState, topology: Topology, window: tuple[int, int], cells: Mapping[str, HostCells]
) -> None:
    """Add the verdicts of one window to the hosts; hosts without a job have no peers."""
    jobs: dict[str, dict[str, HostCells]] = {}
    for host in sorted(cells):
        if job := next(iter(topology.jobs_on([host], window[0])), ""):
            jobs.setdefault(job, {})[host] = cells[host]
    for host, known in state.hosts.items():
        state.hosts[host] = replace(known, is_read=host in cells)
    running = (job for job in state.jobs if job in jobs or topology.placement.hosts_of(job, window[0]))
    state.jobs = {job: state.jobs[job] for job in running}  # also while none of its hosts is read
    everywhere = compare_hosts(params, *window, {host: one for own in jobs.values() for host, one in own.items()})
    for job, own in jobs.items():
        verdicts = compare_hosts(params, *window, own)
        if not verdicts:  # too few hosts to compare bytes; counters single out a host by themselves
            verdicts = {host: one for host in own if (one := everywhere.get(host)) and one.reason in _COUNTED}
        _add_job(params, state, job, verdicts)
        for host, verdict in verdicts.items():
            known_host = state.hosts.get(host)
            mark = verdict
            if verdict.reason is RailReason.SLOW and host in state.jobs[job].unlike:
                mark = replace(verdict, reason=RailReason.NONE)
            if mark.reason or known_host is not None:
                known_host = known_host or HostState(device_subject(topology, host))
                state.hosts[host] = known_host.with_marks((*known_host.marks, mark))


def _add_job(params: RailParams, state: HostsState, job: str, verdicts: Mapping[str, HostVerdict]) -> None:
    """Count a window since the hosts of a job first carried traffic; record those that carry less from the start.

    A window in which too few of them were read counts too: what begins later is no part of the job.
    """
    known = state.jobs.setdefault(job, JobState())
    has_begun = known.compared or any(verdict.is_busy for verdict in verdicts.values())
    if known.compared >= params.start_windows or not has_begun:
        return
    slow = (host for host, verdict in verdicts.items() if verdict.reason is RailReason.SLOW)
    state.jobs[job] = JobState(known.compared + 1, tuple(sorted({*known.unlike, *slow})))
