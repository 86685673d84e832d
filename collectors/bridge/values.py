"""Converts a source's values: numbers that arrive as strings or floats, states, speeds and times. Pure.

None is an absent value ("NA", an infinite power); Reject an invalid one. Absent is not zero.
"""

import base64
import binascii
import math
import struct
from collections.abc import Callable
from datetime import datetime

from collectors.bridge.points import Scalar
from streams.wire.errors import Reject
from streams.wire.models import ABSENT_COUNTER

Reader = Callable[[Scalar], float | None]

_NOT_THERE = {"", "na", "n/a", "none", "null", "nan", "-", "unknown", "inf", "+inf", "-inf", "infinity", "-infinity"}
_EXACT = 2**53
"""Above this a float may be another integer than the device's."""
_CLAMPED = 2**63 - 1
"""Telegraf's value for larger unsigned numbers if its line protocol has no unsigned numbers."""
_SHOWN = 40


def counter(value: Scalar) -> int | None:
    """Return a counter of 64 bits; a float if it is exact. Raises Reject."""
    match value:
        case bool():
            raise Reject(f"not a counter: {value}")
        case int():
            found: float = value
        case None:
            return None
        case str():
            text = value.strip()
            if text.lower() in _NOT_THERE:
                return None
            found = _number(text)
        case float():
            if math.isnan(value):
                return None
            found = value
    if isinstance(found, float):
        if not found.is_integer() or abs(found) > _EXACT:
            raise Reject(f"not an exact counter: {str(value)[:_SHOWN]}")
        found = int(found)
    if not 0 <= found < ABSENT_COUNTER or found == _CLAMPED:
        raise Reject(f"not a counter: {str(value)[:_SHOWN]}")
    return found


def times(factor: int) -> Reader:
    """Return a reader of a counter in units of `factor`; it wraps at 64 bits."""

    def read(value: Scalar) -> float | None:
        found = counter(value)
        if found is None:
            return None
        scaled = found * factor % 2**64
        return None if scaled == ABSENT_COUNTER else scaled

    return read


def gauge(value: Scalar) -> float | None:
    """Return a gauge; raises Reject."""
    match value:
        case None:
            return None
        case bool():
            return float(value)
        case str():
            text = value.strip()
            if text.lower() in _NOT_THERE:
                return None
            found = float(_number(text))
        case _:
            found = float(value)
    return found if math.isfinite(found) else None


def power(value: Scalar) -> float | None:
    """Return a gauge that may be base64 of a big-endian float32, as gnmic writes ieeefloat32. Raises Reject."""
    try:
        return gauge(value)
    except Reject:
        raw = _four_bytes(str(value))
        if raw is None:
            raise
        return gauge(float(struct.unpack(">f", raw)[0]))


def _four_bytes(text: str) -> bytes | None:
    if len(text) != 8 or not text.endswith("=="):
        return None
    try:
        raw = base64.b64decode(text, validate=True)
    except binascii.Error:
        return None
    return raw if len(raw) == 4 else None


def scaled(factor: float) -> Reader:
    """Return a reader of a gauge in units of `factor`; 0 is absent (the speed of a port that is down)."""

    def read(value: Scalar) -> float | None:
        found = gauge(value)
        return found * factor if found and 0 < found < 2**32 - 1 else None

    return read


_OPER = {
    "UP": 1.0, "DOWN": 0.0, "TESTING": 0.0, "DORMANT": 0.0, "NOT_PRESENT": 0.0, "NOTPRESENT": 0.0,
    "LOWER_LAYER_DOWN": 0.0, "LOWERLAYERDOWN": 0.0, "1": 1.0, "2": 0.0, "3": 0.0, "5": 0.0, "6": 0.0, "7": 0.0,
}  # fmt: skip
"""RFC 2863's states by name, as OpenConfig and net-snmp write them, and by ifOperStatus's number; 4 is unknown."""
_ADMIN = {"UP": 1.0, "DOWN": 0.0, "ENABLE": 1.0, "DISABLE": 0.0, "1": 1.0, "2": 0.0}
_BLANK = {"UNKNOWN", "4", "TESTING", "3"}


def _lower_text(value: Scalar) -> str:
    text = str(value) if not isinstance(value, float) else str(int(value)) if value.is_integer() else str(value)
    word = text.rpartition(":")[2].strip().upper().replace("-", "_")
    return word.partition("(")[0]  # net-snmp's `up(1)`


def _state(states: dict[str, float], value: Scalar) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return float(value)
    if (isinstance(value, float) and not math.isfinite(value)) or _lower_text(value).lower() in _NOT_THERE:
        return None
    word = _lower_text(value)
    if word in states:
        return states[word]
    if word in _BLANK:
        return None
    raise Reject(f"not a state: {str(value)[:_SHOWN]}")


def oper_up(value: Scalar) -> float | None:
    """Return 1 for up and 0 for a port that carries no traffic; None for UNKNOWN. Raises Reject."""
    return _state(_OPER, value)


def admin_up(value: Scalar) -> float | None:
    """Return 1 for enabled and 0 for shut; None for TESTING. Raises Reject."""
    return _state(_ADMIN, value)


def is_set(value: Scalar) -> float | None:
    """Return 1 or 0, as in ethtool's `link`. Raises Reject."""
    found = gauge(value)
    if found not in {None, 0.0, 1.0}:
        raise Reject(f"neither 0 nor 1: {str(value)[:_SHOWN]}")
    return found


_SCALE = {"KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}


def port_speed(value: Scalar) -> float | None:
    """Convert OpenConfig's ETHERNET_SPEED (`SPEED_400GB`) to bit/s; raises Reject."""
    word = _lower_text(value)
    if value is None or word in {"SPEED_UNKNOWN", "UNKNOWN", ""}:
        return None
    name, scale = word.removeprefix("SPEED_")[:-2], _SCALE.get(word[-2:])
    try:
        return float(name) * scale if scale and word.startswith("SPEED_") else float(word)
    except ValueError:
        raise Reject(f"not a speed: {str(value)[:_SHOWN]}") from None


SECONDS = 10**11
"""A Unix time of this century below it is in seconds."""
_STEPS = ((SECONDS, 10**9), (10**14, 10**6), (10**17, 10**3))
"""Below 1e14 it is in ms, below 1e17 in µs."""


def unix_ns(value: Scalar) -> int:
    """Return a time in ns, from any unit or RFC 3339; raises Reject."""
    if isinstance(value, str):
        text = value.strip()
        try:
            value = _number(text)
        except Reject:
            return _rfc3339(text)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 2**63:
        raise Reject(f"not a time: {str(value)[:_SHOWN]}")
    scale = next((scale for limit, scale in _STEPS if value < limit), 1)
    found = round(value * scale) if isinstance(value, float) else value * scale
    if found >= 2**63:
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


def _number(text: str) -> float:
    """Parse a number; an integer stays one. Raises Reject."""
    if len(text) <= _SHOWN and text.isascii() and "_" not in text:
        for convert in (int, float):
            try:
                return convert(text)
            except ValueError:
                continue
    raise Reject(f"not a number: {text[:_SHOWN]!r}")
