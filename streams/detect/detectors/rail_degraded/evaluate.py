"""rail/degraded: a rail that is up but slower than its peers.

Opens when three windows in a row are bad (one, where the rail trained below its speed), and closes after five good
ones. comparison.py decides whether a window is bad; it compares a window once the watermark has passed its end by the
lateness, when those of all hosts have arrived. A link that loses frames is also link/degrading.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from streams.detect.detector import Context, Evaluation, Observed
from streams.detect.detectors.rail_degraded import report
from streams.detect.detectors.rail_degraded.comparison import compare_rails
from streams.detect.detectors.rail_degraded.params import RailParams
from streams.detect.detectors.rail_degraded.screening import RailPort, RailVerdict
from streams.detect.evidence.episodes import PublishedEpisodes, has_open, next_final_ns, reconcile
from streams.detect.evidence.hysteresis import bad_periods, next_check_ns, watch_window
from streams.detect.evidence.link_history import FOREVER
from streams.detect.thresholds import ns
from streams.fabric.ids import Port
from streams.fabric.intervals import closed, overlaps_any
from streams.wire.models import Endpoint, Episode, PeerWindow, Subject

_CAPACITY = 64
"""Windows retained of a rail: an hour."""


@dataclass(frozen=True, slots=True)
class RailState:
    """One rail of a host: its windows since the first bad one, and its published episodes."""

    subject: Subject
    marks: tuple[RailVerdict, ...] = ()
    published: PublishedEpisodes = ()
    pruned_until_ns: int = 0

    @property
    def is_over(self) -> bool:
        """Nothing is retained that can change, and no new period has begun."""
        return not any(mark.reason for mark in self.marks[-_CAPACITY // 2 :]) and not has_open(self.published)


@dataclass(frozen=True, slots=True)
class PodRails:
    """The rails of one pod."""

    waiting: dict[int, dict[str, PeerWindow]] = field(default_factory=dict)
    """Begin of a window -> host -> its rails in it; by the first source by number."""
    compared_until_ns: int = 0
    """The end of the newest window that was compared: one before it arrives too late."""
    rails: dict[str, RailState] = field(default_factory=dict)
    """`host/rail` -> a rail that is or was bad."""


def observe(_: RailParams, state: PodRails | None, window: PeerWindow, context: Context) -> Observed[PodRails]:
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
    """Return when the next window can be compared."""
    ends = (next(iter(hosts.values())).end_ns for hosts in waiting.values())
    return min((end + ns(context.settings.lateness_s) for end in ends), default=FOREVER)


def evaluate(params: RailParams, key: str, state: PodRails | None, context: Context) -> Evaluation[PodRails]:
    """Compare the windows that are complete, and conclude on every rail that was bad."""
    if state is None:
        return Evaluation(None)
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
    episodes: list[Episode] = []
    due_ns = _complete_ns(waiting, context)
    for name, rail in list(rails.items()):
        concluded, changed, next_ns = _conclude(params, context, rail, read)
        episodes += changed
        due_ns = min(due_ns, next_ns)
        if concluded.is_over:
            del rails[name]
        else:
            rails[name] = concluded
    return Evaluation(PodRails(waiting, until_ns, rails), episodes, due_ns)


def _compare(
    params: RailParams,
    context: Context,
    windows: dict[str, PeerWindow],
    read: Sequence[str],
    rails: dict[str, RailState],
) -> None:
    """Add the verdicts of one window to the rails; one whose link trained meanwhile is not slow."""
    for rail, verdict in compare_rails(params, context.topology, windows, read, rails.keys()).values():
        port = Port(rail.host, rail.port)
        if overlaps_any(context.training_intervals(port), closed(windows[rail.host].since_ns, verdict.end_ns)):
            continue
        name = f"{rail.host}/{rail.rail}"
        known = rails.get(name) or RailState(_rail_subject(rail, context.subject_at(port)))
        rails[name] = _with_verdict(known, verdict)


def _with_verdict(state: RailState, verdict: RailVerdict) -> RailState:
    """Return the state with the verdict of the next window; windows come in order."""
    if state.marks and verdict.begin_ns <= state.marks[-1].begin_ns:
        return state
    marks = (*state.marks, verdict)
    if len(marks) <= _CAPACITY:
        return replace(state, marks=marks)
    return replace(state, marks=marks[-_CAPACITY:], pruned_until_ns=marks[-_CAPACITY - 1].end_ns)


def _rail_subject(rail: RailPort, link: Subject) -> Subject:
    """Return a rail of a host, at its port, with pod, site and team of its link."""
    return replace(
        link, id=f"rail:{rail.host}/{rail.rail}", a=Endpoint(rail.host, rail.port), z=None, role="rail", rail=rail.rail,
        former_ids=(),
    )  # fmt: skip


def _conclude(
    params: RailParams, context: Context, state: RailState, read: Sequence[str]
) -> tuple[RailState, list[Episode], int]:
    settings, now_ns = context.settings, context.watermark_ns
    host = state.subject.a.device if state.subject.a is not None else ""
    watch = watch_window(settings, now_ns, is_read=host in read)
    periods = list(
        bad_periods(
            state.marks,
            lambda mark: bool(mark.reason),
            lambda bad: report.is_case(params, bad),
            params.good_windows,
            watch,
        )
    )
    conclusions = [report.conclusion(params, context, state.subject, period) for period in periods]
    published, episodes = reconcile(state.published, conclusions, now_ns, state.pruned_until_ns)
    due_ns = min(next_check_ns(settings, periods, watch, now_ns), next_final_ns(conclusions, now_ns))
    return replace(state, published=published), episodes, due_ns
