"""Turns the effects of a day into those of a fabric that relies on congestion control and never pauses.

Senders that a fabric with PFC would pause are slowed by congestion notifications (CNPs) instead, or by losses where
nothing marks packets, and a NIC that would pause its leaf drops. A port that pauses another one without end does not
exist there.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from lab.world.effects import CounterIncrement, Effect
from lab.world.ground_truth import InjectedFault
from streams.fabric.catalogue import Metric
from streams.wire.models import NO_INDEX, Condition

_MAX_CNP_PER_S = 20_000.0
"""Of one flow: DCQCN (SIGCOMM'15) sends one in 50 us at most."""
_MAX_TIMEOUTS_PER_S = 100.0
"""Of a NIC that loses nearly all: some ten queue pairs with timeouts of 0.1 s (choice)."""
_USECONDS_PER_S = 1e6
_BUFFERED = 0.1
"""A NIC's buffer absorbs what it would pause for a smaller share of the time (choice)."""
_DROPPED = 0.01
"""Share of the packets that it drops for each share of the time that it would pause: senders slow down (choice)."""
_PAUSES = frozenset(
    {
        Metric.PFC_RX_FRAMES, Metric.PFC_TX_FRAMES, Metric.PFC_RX_PAUSE_USECONDS, Metric.PFC_TX_PAUSE_USECONDS,
        Metric.PAUSE_RX_FRAMES, Metric.PAUSE_TX_FRAMES,
    }
)  # fmt: skip


def fault_without_pause(fault: InjectedFault) -> InjectedFault:
    """Return a fault as it shows without pause; a PFC storm has no effects."""
    if any(truth.condition is Condition.CONGESTION_PFC_STORM for truth in fault.truths):
        return replace(fault, effects=(), affected=())
    return replace(fault, effects=tuple(effects_without_pause(fault.effects)))


def effects_without_pause(effects: Iterable[Effect]) -> list[Effect]:
    """Return effects without pause: CNPs or timeouts in proportion to the time that a host is paused, drops where it
    pauses.
    """
    found: list[Effect] = []
    for effect in effects:
        if not isinstance(effect, CounterIncrement) or effect.metric not in _PAUSES:
            found.append(effect)
        else:
            found += _instead(effect)
    return found


def _instead(effect: CounterIncrement) -> Iterator[Effect]:
    """Yield what a NIC counts instead of its time of pause; nothing for frames, which count the same pause."""
    ratio = effect.per_s / _USECONDS_PER_S
    plain = replace(effect, index=NO_INDEX, per_s=0.0)
    if effect.metric is Metric.PFC_RX_PAUSE_USECONDS:
        if effect.interval.start_ns % 2:  # at random, and the same for all hosts of a fault
            yield replace(plain, metric=Metric.LOCAL_ACK_TIMEOUTS, per_s=_MAX_TIMEOUTS_PER_S * ratio)
        else:
            yield replace(plain, metric=Metric.CNP_HANDLED, per_s=_MAX_CNP_PER_S * ratio)
    elif effect.metric is Metric.PFC_TX_PAUSE_USECONDS and ratio >= _BUFFERED:
        yield replace(plain, metric=Metric.RX_DISCARDS, share=_DROPPED * ratio, of_metric=Metric.RX_PACKETS)
