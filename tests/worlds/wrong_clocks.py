"""The small fabric read live by brokers and workers with the right time, while devices or collectors have another."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from streams.detect.thresholds import ns
from streams.fabric.topology import Topology
from streams.runtime.event_time import dated_by_arrival, event_time_ns
from streams.wire.models import CollectorStatus, Event, Facts, Finding, Message, Samples, Status
from tests.worlds.live_stages import LiveStages
from tests.worlds.small_fabric import topology

Offset = Callable[[str, float], float]
"""(device, seconds after the first message): how far the clock is ahead, in seconds."""

DELAY_NS = ns(0.2)


@dataclass
class Played:
    """The stages at the end, and the last revision of each finding."""

    live: LiveStages
    findings: list[Finding]


def play_live(
    messages: Iterable[Message],
    offset: Offset,
    *,
    collector: Offset | None = None,
    top: Topology | None = None,
    take_over: tuple[float, int] | None = None,
    lose_state_at: float | None = None,
) -> Played:
    """Play messages in order of arrival; devices date their samples by their own clocks.

    Collectors have the right time unless given another; the first stage learns each second how late it is.
    `take_over` is the second at which a successor takes over a stage, by its number; at `lose_state_at` the first
    stage begins without state.
    """
    live = LiveStages(top or topology())
    first_ns = ticked_ns = 0
    for message in messages:
        at_ns = event_time_ns(message)
        assert at_ns is not None
        first_ns = first_ns or at_ns
        arrived_ns = at_ns + DELAY_NS
        while ticked_ns and ticked_ns + ns(1) < arrived_ns:
            ticked_ns += ns(1)
            live.tick(ticked_ns)
        ticked_ns = ticked_ns or arrived_ns
        t = (at_ns - first_ns) / 1e9
        if take_over is not None and t >= take_over[0]:
            live.take_over(take_over[1])
            take_over = None
        if lose_state_at is not None and t >= lose_state_at:
            live.lose_state(0)
            lose_state_at = None
        live.process(dated_by_arrival(_by_own_clocks(message, t, offset, collector), arrived_ns))
    newest = {one.id: one for one in live.published if isinstance(one, Finding)}
    return Played(live, [one for one in newest.values() if one.status is not Status.RETRACTED])


def _by_own_clocks(message: Message, t: float, offset: Offset, collector: Offset | None) -> Message:
    """Return a message as sent: with the times of wrong clocks."""
    match message:
        case Samples(device=device, sampled_at_ns=at, received_at_ns=received):
            by_collector = 0 if collector is None else ns(collector(device, t))
            return replace(message, sampled_at_ns=at + ns(offset(device, t)), received_at_ns=received + by_collector)
        case Event(device=device, at_ns=at):
            return replace(message, at_ns=at + ns(offset(device, t)))
        case Facts(device=device, observed_at_ns=at):
            return replace(message, observed_at_ns=at + ns(offset(device, t)))
        case CollectorStatus(device=device, at_ns=at):
            return replace(message, at_ns=at + (0 if collector is None else ns(collector(device, t))))
        case _:
            return message
