"""The simulated fabric without pause: what a port with PFC counts becomes notifications, or nothing."""

from lab.world.effects import CounterIncrement, Interval
from lab.world.faults import FAULT_OF
from lab.world.scenario import ScenarioSpec, build, effects_without_pause
from streams.fabric.catalogue import Metric

_PAUSES = {metric for metric in Metric if metric.name.startswith(("PFC_", "PAUSE_"))}


def _increments(slug: str, *, has_pause: bool) -> list[CounterIncrement]:
    day = build(ScenarioSpec(gpus=256, each=2, seed=7, faults=(FAULT_OF[slug],), has_pause=has_pause))
    return [effect for fault in day.faults for effect in fault.effects if isinstance(effect, CounterIncrement)]


def test_no_fault_pauses_a_port() -> None:
    """With pause a collapse and a storm count it; without, no effect of any of them does."""
    for slug in ("congestion/collapse", "congestion/pfc-storm"):
        assert any(effect.metric in _PAUSES for effect in _increments(slug, has_pause=True))
        assert not any(effect.metric in _PAUSES for effect in _increments(slug, has_pause=False))


def test_a_paused_sender_is_notified_instead() -> None:
    """A port paused half of the time handles half of the 20,000 notifications a second that DCQCN sends at most.

    In the other half of the faults nothing marks packets, and it times out instead.
    """
    paused = [e for e in _increments("congestion/collapse", has_pause=True) if e.metric is Metric.PFC_RX_PAUSE_USECONDS]
    instead = [
        e
        for e in _increments("congestion/collapse", has_pause=False)
        if e.metric in (Metric.CNP_HANDLED, Metric.LOCAL_ACK_TIMEOUTS)
    ]
    assert [(e.port, e.interval) for e in paused] == [(e.port, e.interval) for e in instead] != []
    most = {Metric.CNP_HANDLED: 0.02, Metric.LOCAL_ACK_TIMEOUTS: 1e-4}
    assert [round(p.per_s * most[e.metric]) for p, e in zip(paused, instead, strict=True)] == [
        round(e.per_s) for e in instead
    ]
    assert all((e.interval.start_ns % 2 == 1) == (e.metric is Metric.LOCAL_ACK_TIMEOUTS) for e in instead)


def test_a_storm_has_no_effect() -> None:
    """Nothing pauses without end where nothing pauses."""
    day = build(ScenarioSpec(gpus=256, each=2, faults=(FAULT_OF["congestion/pfc-storm"],), has_pause=False))
    assert [(fault.effects, fault.affected) for fault in day.faults] == [((), ())] * 2


def test_a_nic_that_would_pause_for_long_drops() -> None:
    """Its drops are a share of what arrives; a short pause is absorbed."""
    for ratio, expected in ((0.3, [(Metric.RX_DISCARDS, 0.003)]), (0.02, [])):
        pause = CounterIncrement(1, Metric.PFC_TX_PAUSE_USECONDS, Interval(0, 1), per_s=1e6 * ratio, index=3)
        made = [effect for effect in effects_without_pause([pause]) if isinstance(effect, CounterIncrement)]
        assert [(effect.metric, effect.share) for effect in made] == expected
