"""Turns the effects of a day into those of a fabric that relies on congestion control and never pauses.

Senders that a fabric with PFC would pause are slowed by congestion notifications (CNPs) instead. A port that pauses
another one without end does not exist there.
"""

from collections.abc import Iterable
from dataclasses import replace

from streams.fabric.catalogue import Metric
from streams.simulation.effects import CounterIncrement, Effect
from streams.simulation.ground_truth import InjectedFault
from streams.wire.models import NO_INDEX, Condition

_MAX_CNP_PER_S = 20_000.0
"""Of one flow: DCQCN (SIGCOMM'15) sends one in 50 us at most."""
_USECONDS_PER_S = 1e6
_PAUSES = frozenset(
    {
        Metric.PFC_RX_FRAMES, Metric.PFC_TX_FRAMES, Metric.PFC_TX_PAUSE_USECONDS, Metric.PAUSE_RX_FRAMES,
        Metric.PAUSE_TX_FRAMES,
    }
)  # fmt: skip


def fault_without_pause(fault: InjectedFault) -> InjectedFault:
    """Return a fault as it shows without pause; a PFC storm has no effects."""
    if any(truth.condition is Condition.CONGESTION_PFC_STORM for truth in fault.truths):
        return replace(fault, effects=(), affected=())
    return replace(fault, effects=tuple(effects_without_pause(fault.effects)))


def effects_without_pause(effects: Iterable[Effect]) -> list[Effect]:
    """Return effects without pause: the time that a host's port is paused becomes CNPs in proportion to it."""
    found: list[Effect] = []
    for effect in effects:
        metric = effect.metric if isinstance(effect, CounterIncrement) else None
        if isinstance(effect, CounterIncrement) and metric is Metric.PFC_RX_PAUSE_USECONDS:
            per_s = _MAX_CNP_PER_S * effect.per_s / _USECONDS_PER_S
            found.append(replace(effect, metric=Metric.CNP_HANDLED, index=NO_INDEX, per_s=per_s))
        elif metric not in _PAUSES:
            found.append(effect)
    return found
