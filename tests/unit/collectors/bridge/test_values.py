"""Values of gnmic and Telegraf: numbers, states, speeds and times."""

import base64
import struct
from collections.abc import Callable

import pytest

from collectors.bridge import values
from collectors.bridge.points import Scalar
from streams.wire.errors import Reject


@pytest.mark.parametrize(
    ("result", "meant"),
    [
        (7, 7), ("7", 7), (" 7 ", 7), (7.0, 7), ("7.0", 7), (1.2e6, 1_200_000), (2**63, 2**63), (0, 0),
        ("18446744073709551614", 2**64 - 2), (None, None), ("NA", None), ("N/A", None), ("", None),
        (float("nan"), None),
    ],
)  # fmt: skip
def test_a_counter_is_taken_where_it_is_exact(result: Scalar, meant: int | None) -> None:
    """Texts and floats are taken where they are whole; what is not there is None, never 0."""
    assert values.counter(result) == meant


@pytest.mark.parametrize(
    "result",
    [7.5, "7.5", -1, "-1", True, 2.0**60, 2**64 - 1, 2**64, 2**63 - 1, "1_0", "0x10", "many", "9" * 50, float("inf")],
)
def test_a_counter_that_is_not_exact_is_refused(result: Scalar) -> None:
    """Halves, floats past 2^53, negatives, booleans, and 2^63-1, which Telegraf writes for whatever is larger."""
    with pytest.raises(Reject):
        values.counter(result)


@pytest.mark.parametrize(
    ("read", "result", "meant"),
    [
        (values.oper_up, "UP", 1.0),
        (values.oper_up, "openconfig-interfaces:LOWER_LAYER_DOWN", 0.0),
        (values.oper_up, "down", 0.0),
        (values.oper_up, 1, 1.0),
        (values.oper_up, 2, 0.0),
        (values.oper_up, 6.0, 0.0),
        (values.oper_up, "up(1)", 1.0),
        (values.oper_up, "UNKNOWN", None),
        (values.oper_up, 4, None),
        (values.oper_up, True, 1.0),
        (values.admin_up, "DISABLE", 0.0),
        (values.admin_up, 3, None),
        (values.port_speed, "SPEED_400GB", 4e11),
        (values.port_speed, "openconfig-if-ethernet:SPEED_2500MB", 2.5e9),
        (values.port_speed, "SPEED_UNKNOWN", None),
        (values.gauge, "-inf", None),
        (values.gauge, "NA", None),
        (values.gauge, "-2.5", -2.5),
        (values.is_set, 0, 0.0),
        (values.scaled(1e6), 400_000, 4e11),
        (values.scaled(1e6), 0, None),
        (values.scaled(1e6), -1, None),
        (values.times(4), 2**62 + 1, 4.0),
        (values.gauge, base64.b64encode(struct.pack(">f", -2.5)).decode(), -2.5),
    ],
)
def test_states_speeds_and_powers_in_every_shape(
    read: Callable[[Scalar], float | None], result: Scalar, meant: float | None
) -> None:
    """UP and up(1) and 1 are one; an unknown state and an infinite power are absent; bytes come as base64."""
    assert read(result) == meant


@pytest.mark.parametrize(
    ("read", "result"),
    [(values.oper_up, "sideways"), (values.admin_up, 9), (values.port_speed, "fast"), (values.is_set, 2),
     (values.gauge, "AAAA===="), (values.gauge, "1,5")],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(read: Callable[[Scalar], float | None], result: Scalar) -> None:
    """It is not taken for absent, so that it is counted."""
    with pytest.raises(Reject):
        read(result)


@pytest.mark.parametrize(
    ("result", "meant"),
    [
        (1_700_000_000, 1_700_000_000 * 10**9),
        (1_700_000_000_123, 1_700_000_000_123 * 10**6),
        (1_700_000_000_123_456, 1_700_000_000_123_456 * 10**3),
        (1_700_000_000_123_456_789, 1_700_000_000_123_456_789),
        (1_700_000_000.5, 1_700_000_000_500_000_000),
        ("1700000000", 1_700_000_000 * 10**9),
        ("2023-11-14T22:13:20.000001Z", 1_700_000_000_000_001_000),
    ],
)
def test_a_time_is_read_in_whichever_unit_it_has(result: Scalar, meant: int) -> None:
    """Seconds, milliseconds, microseconds and nanoseconds are distinguished by magnitude."""
    assert values.unix_ns(result) == meant


@pytest.mark.parametrize(
    "result", [0, -5, True, "soon", "2023-11-14T22:13:20", 2**63, float("nan"), None, 99_999_999_999]
)
def test_what_is_no_time_is_refused(result: Scalar) -> None:
    """Neither zero nor a time without a zone nor one past what 64 bits of nanoseconds hold."""
    with pytest.raises(Reject):
        values.unix_ns(result)
