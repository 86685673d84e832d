"""rail/degraded of a host: most rails of it are slow together, beside the other hosts of its job.

Evaluated over the whole fabric, because the hosts of a job are in many pods. Opens when three windows in a row are bad,
and closes after five good ones. A host that carried less from the first windows of its job on has another part in the
job: its bytes alone do not count. A single slow rail is compared with the host's other rails (evaluate.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from streams.detect.detectors.rail_degraded import host_report
from streams.detect.detectors.rail_degraded.host_comparison import HostCells, HostVerdict, compare_hosts
from streams.detect.detectors.rail_degraded.params import RailParams
from streams.detect.detectors.rail_degraded.screening import RailReason
from streams.detect.evidence.episodes import PublishedEpisodes, has_open, next_final_ns, reconcile
from streams.detect.evidence.hysteresis import bad_periods, next_check_ns, watch_window
from streams.detect.evidence.link_history import FOREVER
from streams.detect.evidence.params import SharedSettings
from streams.detect.evidence.subjects import device_subject
from streams.detect.thresholds import ns
from streams.fabric.topology import Topology
from streams.wire.models import Episode, Finding, HostRates, Message, Subject

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


def add_message(state: HostsState, message: Message) -> None:
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


def evaluate(
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
    conclusions = [host_report.conclusion(params, settings, own.subject, period) for period in periods]
    published, episodes = reconcile(own.published, conclusions, watermark_ns, own.pruned_until_ns)
    due_ns = min(
        next_check_ns(settings, periods, watch, watermark_ns), next_final_ns(conclusions, watermark_ns)
    )  # fmt: skip
    state.due_ns = min(state.due_ns, due_ns)
    return replace(own, published=published), episodes
