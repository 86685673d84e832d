"""measure's windows: which are sent, and that neither order, batches nor restarts change them."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.detect.measure.stage import Measure
from streams.detect.params import DetectParams
from streams.fabric.catalogue import Metric
from streams.wire.models import ABSENT_COUNTER, Message, PeerWindow, Samples, Source, Window
from streams.wire.topics import SUMMARIES
from tests.worlds.arbitrary_windows import (
    A_MINUTE,
    BITS,
    CORRECTED,
    FCS,
    PORTS,
    POWER,
    T0_IN_WINDOW,
    ended,
    minutes,
)
from tests.worlds.measure_stage import stage
from tests.worlds.observations import after, samples

BER = Metric.PRE_FEC_BER
W = 60


def windows(own: Measure, messages: Sequence[Message], size: int = 1) -> list[Window]:
    """Return the windows that are sent when the messages come in batches."""
    outputs = [o for first in range(0, len(messages), size) for o in own.process(messages[first : first + size])]
    outputs = [o for o in outputs if isinstance(o.message, Window)]
    assert all(o.topic is SUMMARIES and o.key == "p1" for o in outputs)
    return [o.message for o in outputs if isinstance(o.message, Window)]


def counted(values: Sequence[float | None], metric: Metric = FCS, every: float = 30) -> list[Message]:
    """A counter or gauge of one port, read each `every` seconds from a window's begin on."""
    return [samples("p1-l0", -T0_IN_WINDOW + n * every, {metric: {"d1": v}}) for n, v in enumerate(values)]


def brief(found: Sequence[Window], metric: Metric = FCS) -> list[tuple[float | None, float | None]]:
    """Return (begin, value of a metric) of each window."""
    return [(after(w.begin_ns), dict(zip(w.metric, w.value, strict=True)).get(metric)) for w in found]


QUIET: dict[str, list[Message]] = {
    "one error": counted([7] * 4 + [8] * 40),
    "an error every eleven minutes": counted([7 + n // 22 for n in range(110)]),
    "errors that do not grow": counted([7] * 20),
    "a counter met for the first time": counted([0] * 0 + [900] * 20),
    "a counter that was reset": counted([900] * 4 + [0] * 20),
    "a counter that wrapped at 32 bits": counted([2**32 - 2] * 4 + [1] * 20),
    "an InfiniBand counter that sticks": counted([255] * 20, Metric.LINK_ERROR_RECOVERIES),
    "one symbol error a minute": counted([n // 2 for n in range(20)], Metric.RX_SYMBOL_ERRORS),
    "a counter that is not there": counted([None] * 20),
    "power that wanders by less than a step": counted([-3.0, -3.3, -2.8, -3.4] * 5, POWER),
    "a pre-FEC BER that is harmless": counted([1e-9, 9e-9, 1e-12, 0.0] * 5, BER),
    "growth over a restart": [samples("p1-l0", n * 30, {FCS: {"d1": 5 * (n > 9)}}, boot_id=1 + (n > 9))
                              for n in range(20)],
}  # fmt: skip


@pytest.mark.parametrize("messages", QUIET.values(), ids=QUIET)
def test_windows_that_are_not_sent(messages: Sequence[Message]) -> None:
    """Standing, first, reset, wrapped and saturated counters, and levels that move by less than a step."""
    assert windows(stage(), messages) == []


def test_two_minutes_with_errors_are_sent_and_the_ten_after_them() -> None:
    """The growth since the reading before each window; then windows in which nothing grew, and then no more."""
    found = windows(stage(), counted([3, 3, 3, 4] + [4] * 18 + [4, 6] + [6] * 40))
    assert brief(found) == [(20.0, 1.0), *((620.0 + W * n, 2.0 if n == 0 else 0.0) for n in range(11))]
    assert (after(found[0].since_ns), after(found[0].at_ns)) == (-10, 50)
    assert (found[0].device, found[0].port, found[0].source) == ("p1-l0", "d1", Source.SOURCE_GNMI)


def test_an_isolated_error_is_sent_with_a_level_that_moves() -> None:
    """Nine minutes before the power fell by half a decibel; one eleven minutes before is not."""
    for lag_min, expected in ((9, [(20.0, 1.0)]), (11, [])):
        readings: list[tuple[dict[str, float | None], dict[str, float | None]]] = [
            ({"d1": 3 + (n > 2)}, {"d1": -3.0 - 0.5 * (n > 2 * lag_min + 2)}) for n in range(40)
        ]
        found = windows(stage(), [
            samples("p1-l0", -T0_IN_WINDOW + 30 * n, {FCS: errors, POWER: power})
            for n, (errors, power) in enumerate(readings)
        ])  # fmt: skip
        assert [(begin, grown) for begin, grown in brief(found) if grown] == expected
        assert brief(found, POWER)[-1][1] == -3.5


def test_a_window_is_sent_once_a_reading_is_the_lateness_past_its_end() -> None:
    """Not before: until then a late reading may belong in it."""
    own = stage()
    assert windows(own, counted([2, 2, 3, 3, 3, 4, 4])) == []  # the last is at the second window's end
    assert len(windows(own, [samples("p1-l0", 169, {FCS: {"d1": 4}})])) == 0
    assert len(windows(own, [samples("p1-l0", 170, {FCS: {"d1": 4}})])) == 2


def test_a_late_reading_has_its_place_in_a_window_that_is_not_final() -> None:
    """It is the newest of its window, so the growth is the window's and not the next one's."""
    times = (-70, -10, 20, 50, 85, 79, 140, 200, 260)
    found = windows(stage(), [samples("p1-l0", t, {FCS: {"d1": 9 if t >= 79 else 3 if t > -70 else 2}}) for t in times])
    assert brief(found)[:2] == [(-40.0, 1.0), (20.0, 6.0)]


def test_a_level_is_sent_with_its_former_value_when_it_moved_by_a_step() -> None:
    """Half a decibel, against the level sent last and not against the minute before."""
    found = windows(stage(), counted([-3.0, -3.0, -3.2, -3.2, -3.4, -3.4, -3.6, -3.6, -3.6, -3.6], POWER))
    assert brief(found, POWER) == [(20.0 + 2 * W, -3.6)]
    assert found[0].before == (-3.0,)


def test_a_pre_fec_ber_is_a_ratio_of_two_counters_and_moves_in_decades() -> None:
    """Corrected over all bits of the window, sent as one gauge, whatever the link's speed."""
    rates = [1e-8, 1e-8, 1e-6, 1e-6]
    bits, corrected, messages = 0, 0, []
    for n in range(2 * len(rates) + 2):
        bits += A_MINUTE // 2
        corrected += round(A_MINUTE // 2 * rates[min(n // 2, 3)])
        t = -T0_IN_WINDOW + 30 * n
        messages.append(samples("p1-l0", t, {BITS: {"d1": bits}, CORRECTED: {"d1": corrected}}))
    (found, *_) = windows(stage(), messages)
    outputs = {
        metric: (value, before) for metric, value, before in zip(found.metric, found.value, found.before, strict=True)
    }
    assert outputs[BER][1] == pytest.approx(1e-8, rel=0.01)
    assert 5e-7 < outputs[BER][0] <= 1.01e-6


def test_a_link_that_is_bad_from_the_first_reading_is_sent_each_window() -> None:
    """Nothing moved, and no other window would show it."""
    found = windows(stage(), counted([3e-5] * 12, BER))
    assert len(found) == 5
    assert all(value == pytest.approx(3e-5) for _, value in brief(found, BER))


def test_a_telemetry_hole_is_one_growth_over_all_of_it() -> None:
    """A window counts from the last reading before it, however long ago."""
    read = (0, 0), (600, 5), (660, 6), (780, 6)
    found = windows(stage(), [samples("p1-l0", t, {FCS: {"d1": n}}) for t, n in read])
    assert brief(found)[:1] == [(560.0, 5.0)]
    assert (after(found[0].since_ns), after(found[0].at_ns)) == (0, 600)


@settings(max_examples=20)
@given(minutes(), st.randoms(use_true_random=False))
def test_order_within_the_lateness_and_repeats_change_nothing(messages: list[Samples], chance: Any) -> None:
    """Each reading up to 29 s late, and some twice: the same windows are sent."""
    late = sorted([*messages, *messages[:5]], key=lambda m: m.sampled_at_ns + chance.uniform(0, 29e9))
    assert windows(stage(), ended(late)) == windows(stage(), ended(messages))


@settings(max_examples=15)
@given(minutes(), st.integers(2, 9), st.integers(0, 16))
def test_batches_and_restarts_change_nothing(messages: list[Samples], size: int, cut: int) -> None:
    """In batches of any size, and restored from a snapshot between any two readings, the same windows are sent."""
    expected = windows(stage(), ended(messages))
    assert windows(stage(), ended(messages), size) == expected
    first, cut = stage(), min(cut, len(messages))
    found = windows(first, messages[:cut])
    second = stage()
    second.restore(first.snapshot())
    assert second.snapshot() == first.snapshot()
    assert [*found, *windows(second, ended(messages)[cut:])] == expected


@settings(max_examples=20)
@given(minutes(wander=0))
def test_errors_that_are_sent_are_those_of_a_plain_model(messages: list[Samples]) -> None:
    """The newest reading of each minute against that of the last minute that had one, where a port has two such."""
    expected: list[tuple[str, int, float]] = []
    newest = {m.sampled_at_ns // (W * 10**9): m.counters.values[0] for m in messages}
    for row, port in enumerate(PORTS):
        own: list[tuple[str, int, float]] = []
        before: int | None = None
        for number, values in sorted(newest.items()):
            value = int(values[row])
            if before is not None and value > before:
                own.append((port, number, float(value - before)))
            before = value
        expected += own if len(own) > 1 else []
    outputs = [
        (w.port, w.begin_ns // (W * 10**9), grown)
        for w in windows(stage(), ended(messages))
        if (grown := dict(zip(w.metric, w.value, strict=True)).get(FCS))
    ]
    assert sorted(outputs) == sorted(expected)


def test_a_window_is_no_shorter_than_the_lateness() -> None:
    """Else two windows of a device could be open at once, for which nothing is kept."""
    with pytest.raises(ValueError, match="lateness_s"):
        DetectParams(lateness_s=61)


def test_absent_is_not_zero() -> None:
    """A window in which a counter was not read does not show that it did not grow; nothing read is no window."""
    counts = [2, 2, 3, 3, 3, 4, None, None, None, None, 4, 4, 4, 4]
    assert brief(windows(stage(), counted(counts))) == [(20.0, 1.0), (80.0, 1.0), (260.0, 0.0)]
    beside = [samples("p1-l0", -T0_IN_WINDOW + n * 30, {FCS: {"d1": count}, POWER: {"d1": -3.0}})
              for n, count in enumerate(counts)]  # fmt: skip
    assert brief(windows(stage(), beside))[:4] == [(20.0, 1.0), (80.0, 1.0), (140.0, None), (200.0, None)]
    assert ABSENT_COUNTER == 2**64 - 1


@pytest.mark.parametrize("is_row_missing", [True, False])
@pytest.mark.parametrize(("metric", "bad"), [(FCS, [4, 8, 12, 16]), (BER, [1e-4] * 4)])
def test_a_port_that_is_not_read_beside_others_has_no_windows(
    metric: Metric, bad: Sequence[float], is_row_missing: bool
) -> None:
    """As of a walk that ends early: the last reading of d1 is neither a standstill nor one more bad minute."""
    unread: dict[str, float | None] = {} if is_row_missing else {"d1": None}
    cells: list[dict[str, float | None]] = [{"d1": value, "d2": 0} for value in bad]
    cells += [{**unread, "d2": 0}] * 16
    messages = [samples("p1-l0", -T0_IN_WINDOW + W * n, {metric: own}) for n, own in enumerate(cells)]
    found = [w for w in windows(stage(), messages) if w.port == "d1"]
    assert after(found[-1].begin_ns) == -T0_IN_WINDOW + W * (len(bad) - 1)
    assert all(metric in w.metric for w in found)


def _rails(rates: Sequence[float], turns: int = 40, far: float = 1.0) -> list[Message]:
    """p1-h1's two ports, read each 20 s; the second carries a share of the first from the 10th reading to the 12th."""
    sent = [0.0, 0.0]
    messages: list[Message] = []
    for n in range(turns):
        sent = [sent[0] + rates[0], sent[1] + rates[1] * (far if 10 <= n < 13 else 1.0)]
        cells: dict[str, float | None] = dict(zip(("e0", "e1"), sent, strict=True))
        messages.append(samples("p1-h1", 20 * n, {Metric.TX_BYTES: cells, Metric.SPEED_BPS: {"e0": 4e11, "e1": 4e11}}))
    return messages


def _compared(own: Measure, messages: Sequence[Message]) -> list[PeerWindow]:
    outputs = [o for message in messages for o in own.process([message])]
    return [o.message for o in outputs if isinstance(o.message, PeerWindow)]


def test_a_rail_that_is_not_read_beside_others_is_not_slow() -> None:
    """As of a read that ends early: its bytes are unknown, and it is not compared."""
    ports = [("e0",) if 10 <= n < 30 else ("e0", "e1") for n in range(40)]
    messages = [
        samples("p1-h1", 20 * n, {Metric.TX_BYTES: dict.fromkeys(own, 2e11 * n)}) for n, own in enumerate(ports)
    ]
    assert _compared(stage(), messages) == []


def test_a_host_is_sent_when_one_of_its_rails_is_slow_and_ten_windows_after() -> None:
    """All its ports, so that the others are there to compare with; nothing while they are alike or idle."""
    busy, idle = (2e11, 2e11), (2e8, 2e8)
    assert _compared(stage(), _rails(busy)) == []
    assert _compared(stage(), _rails(busy, far=0.95)) == []
    assert _compared(stage(), _rails(idle, far=0.5)) == []
    found = _compared(stage(), _rails(busy, turns=60, far=0.5))
    assert len(found) == 11
    first = found[0]
    assert (first.port, first.metric) == (("e0", "e1"), (Metric.TX_BYTES, Metric.SPEED_BPS))
    assert first.value[0] > 1.2 * first.value[1] > 0
    assert first.value[2:] == (4e11, 4e11)
