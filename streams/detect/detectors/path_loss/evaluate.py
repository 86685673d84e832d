"""path/loss: detects a link or a switch that drops packets silently, and a path that drops those of one 5-tuple.

Evaluates the active probes of the last minute each 10 s, of the whole fabric: localize.py finds the elements that
explain the losses. Opens with the first significant window, and resolves after `clear_s` without one. A rail that
answers to no one is rail/unreachable; a host that is down, stalled or slow to answer casts no votes.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from streams.detect.detectors.path_loss import report
from streams.detect.detectors.path_loss.flows import device_of
from streams.detect.detectors.path_loss.localize import Suspect, localize
from streams.detect.detectors.path_loss.params import PathParams
from streams.detect.evidence.episodes import PublishedEpisodes, has_open, next_final_ns, reconcile
from streams.detect.evidence.link_history import FOREVER
from streams.detect.evidence.params import SharedSettings
from streams.detect.evidence.probe_verdicts import Verdicts
from streams.detect.evidence.subjects import device_subject, port_subject
from streams.detect.thresholds import ns
from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from streams.wire.models import Episode, Finding, Message, ProbeWindow, Subject

_ENOUGH = 1
"""Verdicts that open a period: each is of several windows already."""


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
    """By the end of the window and by partition."""
    subjects: dict[str, LossState] = field(default_factory=dict)
    changed_ns: int = FOREVER
    """The end of the first window that is not evaluated with all that is known of it."""
    final_ns: int = 0
    due_ns: int = FOREVER
    """The watermark at which time alone changes a result."""


def add_message(state: PathState, message: Message) -> None:
    """Add a window of a partition, or replace it."""
    if isinstance(message, ProbeWindow) and message.at_ns > state.final_ns:
        state.windows.setdefault(str(message.at_ns), {})[str(message.shard)] = message
        state.changed_ns = min(state.changed_ns, message.at_ns)


def add_published(_state: PathState, _finding: Finding) -> None:
    """Do nothing: findings of others change no verdict."""


def evaluate(
    params: PathParams, settings: SharedSettings, state: PathState, topology: Topology, watermark_ns: int
) -> list[Episode]:
    """Evaluate the windows that changed, and conclude on every subject."""
    if watermark_ns < min(state.changed_ns, state.due_ns):
        return []
    ends = sorted(map(int, state.windows))
    for end_ns in ends:
        if state.changed_ns <= end_ns <= watermark_ns:
            _judge(params, state, topology, end_ns)
    state.changed_ns = next((end for end in ends if end > watermark_ns), FOREVER)
    episodes: list[Episode] = []
    state.due_ns = FOREVER
    final_ns = max(state.final_ns, watermark_ns - ns(settings.lateness_s))
    for key, own in list(state.subjects.items()):
        episodes += _conclude(params, settings, state, own, watermark_ns)
        own.verdicts = own.verdicts.settled(final_ns, _ENOUGH, ns(params.window_s), ns(params.clear_s))
        if own.verdicts == Verdicts() and not has_open(own.published):
            del state.subjects[key]
        pending = (int(end) + ns(settings.lateness_s) for end in own.verdicts.pending)
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
        verdict = report.verdict(params, own.subject, found, end_ns, cells) if found else None
        own.verdicts = own.verdicts.with_pending(end_ns, verdict)


def _subject(topology: Topology, element: str) -> Subject:
    """Return the link into a port, or the switch."""
    device = device_of(element)
    if device == element:
        return device_subject(topology, device)
    return port_subject(topology, Port(device, element[len(device) + 1 :]))


def _conclude(
    params: PathParams, settings: SharedSettings, state: PathState, own: LossState, watermark_ns: int
) -> Sequence[Episode]:
    periods = own.verdicts.periods(_ENOUGH, ns(params.window_s), ns(params.clear_s))
    conclusions = [report.conclusion(params, settings, own.subject, period, watermark_ns) for period in periods]
    own.published, episodes = reconcile(own.published, conclusions, watermark_ns)
    clears = (period.end_ns + ns(params.clear_s) for period in periods)
    due_ns = min((at for at in clears if at > watermark_ns), default=FOREVER)
    state.due_ns = min(state.due_ns, due_ns, next_final_ns(conclusions, watermark_ns))
    return episodes
