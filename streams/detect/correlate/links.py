"""The links of some pods: what was observed of each, which detectors conclude on it, and when it is let go of."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from streams.detect.detectors.link_degrading import evaluate as link_degrading
from streams.detect.detectors.link_down import evaluate as link_down
from streams.detect.detectors.link_flap import evaluate as link_flap
from streams.detect.detectors.link_flap.params import FLAP_PRESETS
from streams.detect.evidence.episodes import PublishedEpisodes, prune
from streams.detect.evidence.link_history import FOREVER, Interval, LinkHistory
from streams.detect.evidence.window_history import WindowHistory
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from streams.wire.models import Episode, Subject

_Restarts = Mapping[str, list[Interval]]


@dataclass(slots=True)
class LinkState:
    """One link: what was observed, and what each detector has said."""

    history: LinkHistory
    flap: PublishedEpisodes = ()
    down: PublishedEpisodes = ()
    minutes: WindowHistory = field(default_factory=WindowHistory)
    degrading: PublishedEpisodes = ()

    def join(self, other: "LinkState") -> None:
        """What was known of it under another name, too."""
        for symptom in other.history.symptoms:
            self.history.add(symptom)
        self.history.down_since |= other.history.down_since
        self.history.disabled_since |= other.history.disabled_since
        self.history.pruned_until_ns = max(self.history.pruned_until_ns, other.history.pruned_until_ns)
        self.flap, self.down = (*other.flap, *self.flap), (*other.down, *self.down)
        for window in other.minutes.windows:
            self.minutes.add(window)
        self.minutes.pruned_until_ns = max(self.minutes.pruned_until_ns, other.minutes.pruned_until_ns)
        self.degrading = (*other.degrading, *self.degrading)

    def look(
        self, params: DetectParams, restarts: _Restarts, worked_on_ns: int, watermark_ns: int
    ) -> tuple[list[Episode], int]:
        """Let each detector conclude; answers what changed, and when to look again."""
        history, minutes = self.history, self.minutes
        old_ns = remember_ns(params)
        horizon = watermark_ns - old_ns
        history.prune_before(horizon)
        self.flap, flaps, flap_due = link_flap.step(
            params, prune(self.flap, horizon), history, restarts, watermark_ns, worked_on_ns
        )
        self.down, downs, down_due = link_down.step(params, prune(self.down, horizon), history, watermark_ns)
        since_ns = min(horizon, minutes.windows[0].begin_ns) if minutes.windows else horizon
        self.degrading, worse, degrading_due = link_degrading.step(
            params, prune(self.degrading, since_ns), history, minutes, restarts, watermark_ns
        )
        due = min(flap_due, down_due, degrading_due)
        if due == FOREVER and history.symptoms:
            due = history.symptoms[0].at_ns + old_ns + 1
        return [*flaps, *downs, *worse], min(due, minutes.next_downsample_ns(watermark_ns))

    @property
    def is_blank(self) -> bool:
        """Nothing is known of it that could begin or prolong an episode."""
        return not (self.history.down_since or self.history.disabled_since or self.minutes.windows)


Links = dict[str, LinkState]
"""Subject id -> what is known of it."""


def remember_ns(params: DetectParams) -> int:
    """What is older than the longest window of a flap, its end and the lateness changes no conclusion."""
    windows = (FLAP_PRESETS[name].window_s for name in params.flap.presets)
    return ns(max(*windows, params.flap.quiet_s) + params.flap.quiet_s + 2 * params.lateness_s)


def state_of(links: Links, subject: Subject) -> LinkState:
    """What is known of a link, if only from now on."""
    return links.get(subject.id) or links.setdefault(subject.id, LinkState(LinkHistory(subject)))


def look(
    params: DetectParams, links: Links, name: str, topology: Topology, restarts: _Restarts, watermark_ns: int
) -> tuple[list[Episode], int]:
    """Conclude on one link, and let go of it when nothing is left."""
    state = links.get(name)
    if state is None:
        return [], FOREVER
    worked_on_ns = topology.maintenance_until_ns(end.device for end in state.history.ends())
    episodes, due_ns = state.look(params, restarts, worked_on_ns, watermark_ns)
    if due_ns == FOREVER and state.is_blank:
        del links[name]
    return episodes, due_ns


def ending_at(links: Links, device: str) -> list[str]:
    """The links that have an end at a device: what a restart of it concerns."""
    return [name for name, state in links.items() if any(end.device == device for end in state.history.ends())]


def rename(links: Links, subject_at: Callable[[Port], Subject]) -> list[str]:
    """Links keep their episodes under another inventory; answers those that have another name, which are looked at.

    The new subject lists the old id.
    """
    renamed = []
    for name in list(links):
        state = links[name]
        end = state.history.ends()[0]
        now = subject_at(Port(end.device, end.port))
        former_ids = state.history.subject.former_ids
        if now.id == name:
            state.history.subject = replace(now, former_ids=former_ids)
            continue
        del links[name]
        state_of(links, replace(now, former_ids=(*former_ids, name))).join(state)
        renamed.append(now.id)
    return renamed
