"""rail/degraded of a host: most rails of it are slow together, beside the other hosts of its job.

Evaluated over the whole fabric, because the hosts of a job are in many pods. Opens when three windows in a row are bad,
and closes after five good ones. A host that carried less from the first windows of its job on has another part in the
job: its bytes alone do not count. A single slow rail is compared with the host's other rails (evaluate.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from streams.detect.detectors.rail_degraded.comparison import (
    MAD_TO_SIGMA,
    SLUG,
    VERSION,
    RailParams,
    RailReason,
    Values,
    median_of_others,
    spread_within,
)
from streams.detect.evidence.episodes import (
    Conclusion,
    PublishedEpisodes,
    finding_defaults,
    has_open,
    next_final_ns,
    reconcile,
)
from streams.detect.evidence.link_history import FOREVER
from streams.detect.evidence.params import SharedSettings
from streams.detect.evidence.subjects import device_subject
from streams.detect.evidence.windows import BadPeriod, bad_periods, next_check_ns, watch_window
from streams.detect.thresholds import ns
from streams.fabric.topology import Topology
from streams.wire.models import (
    Cause,
    Condition,
    Coverage,
    Endpoint,
    Episode,
    Evidence,
    Finding,
    HostRates,
    Message,
    Severity,
    Subject,
)


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
    """One host in one window; `reason` is NONE where it was as its peers."""

    begin_ns: int
    end_ns: int
    reason: RailReason = RailReason.NONE
    rails: int = 0
    """Rails for which the reason holds; of SLOW all that were read."""
    read: int = 0
    rate_bps: float = 0.0
    usual_bps: float = 0.0
    """The median of the job's other hosts."""
    peers: int = 0
    is_busy: bool = False


def compare_hosts(
    params: RailParams, begin_ns: int, end_ns: int, hosts: Mapping[str, HostCells]
) -> dict[str, HostVerdict]:
    """Return the verdict on each host of a job; nothing where too few of them were read, each with enough rails."""
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
    """Return which hosts have more than half of their rails counted, where less than half of the others have."""
    most = 2 * counts > rails
    others = np.count_nonzero(most) - most
    apart: npt.NDArray[np.bool_] = most & (2 * others < len(counts) - 1)
    return apart


def _is_slow(params: RailParams, rate: Values, usual: Values, busy: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return which hosts carry less than their peers; an idle one is not slow."""
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


def conclusion(
    params: RailParams, settings: SharedSettings, subject: Subject, period: BadPeriod[HostVerdict]
) -> Conclusion:
    """Return the episode of a bad period. INFO while bytes alone show it: a host that waits carries less too."""
    bad, ended_at_ns = period.bad, period.ended_at_ns
    first, last, worst = bad[0], bad[-1], _worst(bad)
    at, lateness_ns = subject.a or Endpoint(""), ns(settings.lateness_s)
    has_reason = worst.reason is not RailReason.SLOW
    finding = Finding(
        **finding_defaults(settings, SLUG, VERSION),
        condition=Condition.RAIL_DEGRADED,
        severity=Severity.WARNING if has_reason else Severity.INFO,
        subject=subject,
        started_at_ns=first.begin_ns,
        observed_at_ns=last.end_ns,
        resolved_at_ns=None if ended_at_ns is None else last.end_ns,
        detected_at_ns=bad[params.bad_windows - 1].end_ns + lateness_ns,
        summary=f"{at.device} {_headline(worst)}",
        cause=Cause.PCIE if worst.reason is RailReason.PCIE else Cause.HOST,
        evidence=tuple(_evidence(at, worst, (first.begin_ns, last.end_ns))),
        confidence=0.9 if has_reason and worst.peers >= 2 * params.peers else 0.7,
        coverage=Coverage(seen=worst.peers + 1, expected=worst.peers + 1),
    )
    final_at = None if ended_at_ns is None else ended_at_ns + lateness_ns
    return Conclusion(first.begin_ns, last.end_ns, finding, str(first.begin_ns), final_at, is_continuous=True)


def _worst(bad: Sequence[HostVerdict]) -> HostVerdict:
    """Return the reason that explains the others first, then the window that is furthest from its peers."""
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


def _evidence(at: Endpoint, worst: HostVerdict, interval: tuple[int, int]) -> list[Evidence]:
    """Return the reason first, and what the host carried."""
    begin_ns, end_ns = interval
    rates = Evidence(
        f"{at.device} carries {_rates(worst)}", metric="tx_bytes", at=at, observed=worst.rate_bps,
        expected=worst.usual_bps, comparison="peers", peers=worst.peers, window_start_ns=begin_ns,
        window_end_ns=end_ns,
    )  # fmt: skip
    if worst.reason is RailReason.SLOW:
        return [rates]
    reason = Evidence(
        f"{at.device} {_headline(worst)}", metric=_METRICS[worst.reason], at=at, observed=float(worst.rails),
        expected=worst.read / 2, comparison="peers", peers=worst.peers, window_start_ns=begin_ns, window_end_ns=end_ns,
    )  # fmt: skip
    return [reason, rates]


_COUNTED = (RailReason.PCIE, RailReason.RETRANSMITS)

_CAPACITY = 64
"""Windows retained of a host: an hour."""


@dataclass(frozen=True, slots=True)
class HostState:
    """One host: its windows since the first bad one, and its published episodes."""

    subject: Subject
    marks: tuple[HostVerdict, ...] = ()
    published: PublishedEpisodes = ()
    pruned_until_ns: int = 0
    is_read: bool = True
    """The host was read in the newest window."""

    @property
    def is_over(self) -> bool:
        """Return whether nothing is retained that can change, and no new period has begun."""
        return not any(mark.reason for mark in self.marks[-_CAPACITY // 2 :]) and not has_open(self.published)


@dataclass(frozen=True, slots=True)
class JobState:
    """The comparison of the hosts of a job since its beginning."""

    compared: int = 0
    """Windows in which its hosts were compared, up to `start_windows`."""
    unlike: tuple[str, ...] = ()
    """Hosts that carried less in one of them."""


@dataclass(slots=True)
class HostsState:
    """The windows that are not complete yet, the running jobs, and the hosts that are or were bad."""

    windows: dict[str, dict[str, HostCells]] = field(default_factory=dict)
    """By the begin of the window and by host; of the first source by number."""
    ends_ns: dict[str, int] = field(default_factory=dict)
    jobs: dict[str, JobState] = field(default_factory=dict)
    hosts: dict[str, HostState] = field(default_factory=dict)
    compared_until_ns: int = 0
    due_ns: int = FOREVER
    """The watermark at which time alone changes a result."""


def add_host_rates(state: HostsState, message: Message) -> None:
    """Add what hosts carried in a window."""
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


def add_published(_state: HostsState, _finding: Finding) -> None:
    """Do nothing: findings of others change no verdict."""


def evaluate_hosts(
    params: RailParams, settings: SharedSettings, state: HostsState, topology: Topology, watermark_ns: int
) -> list[Episode]:
    """Compare the windows that are complete, and conclude on every host that was bad."""
    lateness_ns = ns(settings.lateness_s)
    complete = [begin for begin, end_ns in state.ends_ns.items() if end_ns + lateness_ns <= watermark_ns]
    if not complete and watermark_ns < state.due_ns:
        return []
    for begin in sorted(complete, key=int):
        end_ns = state.ends_ns.pop(begin)
        _compare(params, state, topology, (int(begin), end_ns), state.windows.pop(begin))
        state.compared_until_ns = max(state.compared_until_ns, end_ns)
    episodes: list[Episode] = []
    state.due_ns = FOREVER
    for host, own in list(state.hosts.items()):
        concluded, changed = _conclude(params, settings, state, own, watermark_ns)
        episodes += changed
        if concluded.is_over:
            del state.hosts[host]
        else:
            state.hosts[host] = concluded
    return episodes


def _compare(
    params: RailParams, state: HostsState, topology: Topology, window: tuple[int, int], cells: Mapping[str, HostCells]
) -> None:
    """Add the verdicts of one window to the hosts; those without a job have no peers."""
    jobs: dict[str, dict[str, HostCells]] = {}
    for host in sorted(cells):
        if job := next(iter(topology.jobs_on([host], window[0])), ""):
            jobs.setdefault(job, {})[host] = cells[host]
    for host, known in state.hosts.items():
        state.hosts[host] = replace(known, is_read=host in cells)
    state.jobs = {job: known for job, known in state.jobs.items() if job in jobs}
    everywhere = compare_hosts(params, *window, {host: one for own in jobs.values() for host, one in own.items()})
    for job, own in jobs.items():
        verdicts = compare_hosts(params, *window, own)
        if not verdicts:  # too few hosts to compare bytes; counters separate a host by themselves
            verdicts = {host: one for host in own if (one := everywhere.get(host)) and one.reason in _COUNTED}
        _add_job(params, state, job, verdicts)
        for host, verdict in verdicts.items():
            known_host = state.hosts.get(host)
            mark = verdict
            if verdict.reason is RailReason.SLOW and host in state.jobs[job].unlike:
                mark = replace(verdict, reason=RailReason.NONE)
            if mark.reason or known_host is not None:
                state.hosts[host] = _with_mark(known_host or HostState(device_subject(topology, host)), mark)


def _add_job(params: RailParams, state: HostsState, job: str, verdicts: Mapping[str, HostVerdict]) -> None:
    """Count a window in which the hosts of a job carried traffic; record those that carry less from the start."""
    known = state.jobs.setdefault(job, JobState())
    if known.compared >= params.start_windows or not any(verdict.is_busy for verdict in verdicts.values()):
        return
    slow = (host for host, verdict in verdicts.items() if verdict.reason is RailReason.SLOW)
    state.jobs[job] = JobState(known.compared + 1, tuple(sorted({*known.unlike, *slow})))


def _with_mark(state: HostState, mark: HostVerdict) -> HostState:
    """Return the state with the verdict on the next window; windows come in order."""
    marks = (*state.marks, mark)
    if len(marks) <= _CAPACITY:
        return replace(state, marks=marks)
    return replace(state, marks=marks[-_CAPACITY:], pruned_until_ns=marks[-_CAPACITY - 1].end_ns)


def _conclude(
    params: RailParams, settings: SharedSettings, state: HostsState, own: HostState, watermark_ns: int
) -> tuple[HostState, list[Episode]]:
    reported_ns = min(watermark_ns, state.compared_until_ns + ns(settings.lateness_s))
    watch = watch_window(settings, reported_ns, is_read=own.is_read)
    periods = list(
        bad_periods(
            own.marks,
            lambda mark: bool(mark.reason),
            lambda bad: len(bad) >= params.bad_windows,
            params.good_windows,
            watch,
        )
    )
    conclusions = [conclusion(params, settings, own.subject, period) for period in periods]
    published, episodes = reconcile(own.published, conclusions, watermark_ns, own.pruned_until_ns)
    due_ns = min(
        next_check_ns(settings, periods, watch, watermark_ns), next_final_ns(conclusions, watermark_ns)
    )  # fmt: skip
    state.due_ns = min(state.due_ns, due_ns)
    return replace(own, published=published), episodes
