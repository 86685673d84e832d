"""Converts values as gnmic and Telegraf write them, by the readers of `collect gnmi`. Pure.

None is an absent value ("NA", an infinite power); Reject an invalid one. Absent is not zero.
"""

import math
from collections.abc import Callable
from datetime import datetime

from collectors.bridge.points import Scalar
from collectors.gnmi import values
from streams.wire.errors import Reject
from streams.wire.models import ABSENT_COUNTER

Reader = Callable[[Scalar], float | None]

_EXACT = 2**53
"""Above this, a float may differ from the device's integer."""
_CLAMPED = 2**63 - 1
"""Telegraf's value for larger unsigned numbers if its line protocol has no unsigned numbers."""
_SHOWN = 40


def strict(read: Callable[[Scalar], object]) -> Reader:
    """Return a reader that raises Reject for a value that `read` cannot read, unless it means "none"."""

    def strictly(value: Scalar) -> float | None:
        found = read(value)
        if isinstance(found, int | float):
            return float(found)
        if values.is_blank(value):
            return None
        raise Reject(f"not readable: {str(value)[:_SHOWN]}")

    return strictly


def counter(value: Scalar) -> int | None:
    """Return a 64-bit counter, from a float only if it is exact. Raises Reject."""
    found = None if isinstance(value, bool) else values.number(value)
    if found is None and values.is_blank(value) and value not in (math.inf, -math.inf):
        return None
    is_inexact = isinstance(found, float) and abs(found) > _EXACT
    if found is None or found % 1 or is_inexact or not 0 <= found < ABSENT_COUNTER or found == _CLAMPED:
        raise Reject(f"not a counter: {str(value)[:_SHOWN]}")
    return int(found)


def times(factor: float) -> Reader:
    """Return a reader of a counter in units of `factor`; it wraps at 64 bits."""

    def read(value: Scalar) -> float | None:
        found = counter(value)
        if found is None:
            return None
        scaled = int(found * factor) % 2**64
        return None if scaled == ABSENT_COUNTER else scaled

    return read


gauge = strict(values.number)
"""Reads a gauge; also from base64, in which gnmic writes a float of four bytes. Raises Reject."""


def scaled(factor: float) -> Reader:
    """Return a reader of a gauge in units of `factor`; 0 is absent (the speed of a port that is down)."""

    def read(value: Scalar) -> float | None:
        found = gauge(value)
        return found * factor if found and 0 < found < 2**32 - 1 else None

    return read


_IF_MIB = ("", "UP", "DOWN", "TESTING", "UNKNOWN", "DORMANT", "NOT_PRESENT", "LOWER_LAYER_DOWN")
"""The states by their number in ifOperStatus of IF-MIB; ifAdminStatus has the first three."""


def _state(read: Callable[[Scalar], float | None]) -> Reader:
    by_name = strict(read)

    def state(value: Scalar) -> float | None:
        if isinstance(value, str) and (found := read(value)) is not None:
            return found
        if isinstance(value, bool):
            return float(value)
        number = values.number(value)
        if number is not None and number in range(1, len(_IF_MIB)):
            value = _IF_MIB[int(number)]
        return by_name(value.partition("(")[0] if isinstance(value, str) else value)  # net-snmp's `up(1)`

    return state


oper_up = _state(values.oper_up)
"""Reads 1 for up and 0 for a port that carries no traffic, by name or number; None for UNKNOWN. Raises Reject."""
admin_up = _state(values.admin_up)
"""Reads 1 for enabled and 0 for shut, by name or number; None for TESTING. Raises Reject."""
is_set = strict(values.flag)
"""Reads 1 or 0, as in ethtool's `link`. Raises Reject."""


def _bits_per_second(value: Scalar) -> float | None:
    found = values.port_speed(value)
    return values.number(value) if found is None else found


port_speed = strict(_bits_per_second)
"""Reads OpenConfig's ETHERNET_SPEED (`SPEED_400GB`), or a number, in bit/s. Raises Reject."""

SECONDS = 10**11
"""A Unix time of this century is in seconds if it is below this."""
_NANOSECONDS = 10**17
"""A Unix time from this up to 2^63 is in ns."""


def unix_ns(value: Scalar) -> int:
    """Return the time in ns from a Unix time in any unit or from RFC 3339; raises Reject."""
    if isinstance(value, str):
        text = value.strip()
        if text.isdecimal() and len(text) < _SHOWN:
            value = int(text)
        elif values.number(text) is None:
            return _rfc3339(text)
    if type(value) is int and _NANOSECONDS <= value <= _CLAMPED:
        return value
    found = None if isinstance(value, bool) else values.unix_ns(value)
    if found is None:
        raise Reject(f"not a time: {str(value)[:_SHOWN]}")
    return found


def _rfc3339(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise Reject(f"not a time: {text[:_SHOWN]!r}")
    whole = moment.replace(microsecond=0)
    return int(whole.timestamp()) * 10**9 + moment.microsecond * 1000
