"""path/loss of a link whose BFD or BGP session is down although the link is up; no prober is needed.

A session over a link that is up fails if the link drops packets silently. It fails as well while a port trains, its
device restarts or is shut, and with all sessions of a device when its routing ends: none of these is a fault of the
link. Opens after `session_hold_s`, if the session was up before. `attribute` joins it with what probes show.
"""

from collections.abc import Iterator

from streams.detect.detector import Context, Evaluation
from streams.detect.detectors.path_loss import session_report
from streams.detect.detectors.path_loss.params import PathParams
from streams.detect.evidence.episodes import PublishedEpisodes, has_open, next_final_ns, prune, reconcile
from streams.detect.evidence.link_history import FOREVER, LinkHistory
from streams.detect.evidence.session_downs import session_downs
from streams.detect.thresholds import ns
from streams.fabric.ids import Port
from streams.fabric.intervals import Interval, merge_intervals


def evaluate(
    params: PathParams, key: str, state: PublishedEpisodes | None, context: Context
) -> Evaluation[PublishedEpisodes]:
    """Conclude from the history of the link."""
    history, now_ns = context.evidence.links[key], context.watermark_ns
    hold_ns = ns(params.session_hold_s)
    spans = [span for span in _silent_spans(params, context, history) if span[1] - span[0] >= hold_ns]
    opened = [span for span in spans if span[0] + hold_ns <= now_ns]
    if not (state and has_open(state)) and not all(context.is_reporting(end.device) for end in history.ends()):
        opened = []  # a device that is not read may restart
    conclusions = [session_report.conclusion(params, context, history, span) for span in opened]
    published, episodes = reconcile(
        prune(state or (), context.retained_since_ns), conclusions, now_ns, history.pruned_until_ns
    )
    times = (begin + hold_ns for begin, _ in spans)
    due_ns = min((at for at in times if at > now_ns), default=FOREVER)
    return Evaluation(published or None, episodes, min(due_ns, next_final_ns(conclusions, now_ns)))


def _silent_spans(params: PathParams, context: Context, history: LinkHistory) -> Iterator[Interval]:
    """Yield when a session was down although nothing at the ends of the link explains it."""
    ends = history.ends()
    devices = {end.device for end in ends}
    downs = merge_intervals(one.span for one in session_downs(history))
    if not downs or context.topology.maintenance_until_ns(devices) > downs[-1][0]:
        return
    excused = list(_excuses(params, context, history))
    for span in downs:
        if not _is_of_device(context, history, span):
            yield from _without(span, excused)


def _excuses(params: PathParams, context: Context, history: LinkHistory) -> Iterator[Interval]:
    """Yield when a session may be down: while the link trains or a device restarts, and until sessions are set up."""
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
    return any(abs(one.span[0] - span[0]) <= near_ns for other in others for one in session_downs(other))


def _without(span: Interval, excused: list[Interval]) -> Iterator[Interval]:
    """Yield what is left of an interval."""
    begin, end = span
    for off, on in sorted(excused):
        if on <= begin or off >= end:
            continue
        if off > begin:
            yield begin, off
        begin = max(begin, on)
    if begin < end:
        yield begin, end
