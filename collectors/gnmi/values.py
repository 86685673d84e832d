"""What a device's value says: numbers that come as strings, bytes or decimals, states, speeds and times. Pure.

Absent is not zero: what cannot be read is None.
"""

import base64
import binascii
import contextlib
import math
import re
import struct

import orjson
from google.protobuf.message import DecodeError

from collectors.gnmi.v1 import gnmi_lite_pb2, gnmi_pb2

Scalar = int | float | str | bytes | bool | None
Json = dict[str, "Json"] | list["Json"] | Scalar


def typed_value(value: gnmi_lite_pb2.TypedValue) -> Json:
    """The value as Python has it; JSON of either kind is read, what is none of ours is None."""
    which = value.WhichOneof("value")
    match which:
        case "json_val" | "json_ietf_val":
            return _json(getattr(value, which))
        case "decimal_val":
            return _decimal(value.decimal_val)
        case "leaflist_val":
            return _leaf_list(value.leaflist_val)
        case None | "proto_bytes":
            return None
        case _:
            scalar: Scalar = getattr(value, which)
            return scalar


def _json(data: bytes) -> Json:
    found: Json = None
    with contextlib.suppress(orjson.JSONDecodeError):
        found = orjson.loads(data)
    return found


def _decimal(data: bytes) -> float | None:
    with contextlib.suppress(DecodeError):
        decimal = gnmi_pb2.Decimal64.FromString(data)
        return float(decimal.digits / 10 ** min(decimal.precision, 18))
    return None


def _leaf_list(data: bytes) -> list[Json] | None:
    with contextlib.suppress(DecodeError):
        items = gnmi_pb2.ScalarArray.FromString(data).element
        return [typed_value(gnmi_lite_pb2.TypedValue.FromString(item.SerializeToString())) for item in items]
    return None


def container(text: str) -> Json:
    """JSON that came as text; anything else is None."""
    return _json(text.encode()) if text[:1] in ("{", "[") else None


def only(value: Json) -> Scalar:
    """The one value of a list that holds one, as some devices send a leaf; what holds more or less is None."""
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    return None if isinstance(value, dict | list) else value


_LONGEST_NUMBER = 64
"""Characters; Python reads integers of thousands, which no column of ours can hold."""
_ABSENT = {"", "NA", "N/A", "NONE", "NULL", "UNKNOWN", "UNSPECIFIED", "INF", "_INF", "+INF", "NAN", "TESTING"}


def is_blank(value: Scalar) -> bool:
    """Whether the device says that there is nothing to say, which is no error: "NA", no light at all."""
    match value:
        case None:
            return True
        case str():
            return _lower_text(value) in _ABSENT
        case float():
            return not math.isfinite(value)
        case bytes():
            return len(value) == 4 and not math.isfinite(struct.unpack(">f", value)[0])
    return False


def number(value: Scalar) -> float | None:
    """A number, whatever it came as; integers stay integers. Four bytes are OpenConfig's ieeefloat32, big-endian."""
    match value:
        case bool():
            return int(value)
        case int():
            return value
        case float():
            return value if math.isfinite(value) else None
        case str() if len(value) <= _LONGEST_NUMBER:
            return _number_of_text(value.strip())
        case bytes() if len(value) == 4:
            return number(struct.unpack(">f", value)[0])
    return None


def _number_of_text(text: str) -> float | None:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        found = float(text)
    except ValueError:
        return _number_of_base64(text)
    return found if math.isfinite(found) else None


def _number_of_base64(text: str) -> float | None:
    """Four bytes as JSON carries bytes (RFC 7951 6.6)."""
    if len(text) != 8 or not text.endswith("=="):
        return None
    try:
        return number(base64.b64decode(text, validate=True))
    except binascii.Error:
        return None


def flag(value: Scalar) -> float | None:
    """1 for true, 0 for false, whichever way it is said."""
    match value:
        case bool() | int() if value in (0, 1):
            return int(value)
        case str():
            return {"TRUE": 1.0, "YES": 1.0, "1": 1.0, "FALSE": 0.0, "NO": 0.0, "0": 0.0}.get(_lower_text(value))
    return None


def text(value: Scalar) -> str | None:
    """The words, without a module before them."""
    return value if isinstance(value, str) else None if value is None else str(value)


_OPER = {
    "UP": 1.0, "DOWN": 0.0, "TESTING": 0.0, "DORMANT": 0.0, "NOT_PRESENT": 0.0, "LOWER_LAYER_DOWN": 0.0,
}  # fmt: skip
_ADMIN = {"UP": 1.0, "DOWN": 0.0, "ENABLE": 1.0, "DISABLE": 0.0}


def oper_up(value: Scalar) -> float | None:
    """1 up, 0 anything that carries nothing; UNKNOWN is None."""
    return _OPER.get(_lower_text(value))


def admin_up(value: Scalar) -> float | None:
    """1 enabled, 0 shut; TESTING is None."""
    return _ADMIN.get(_lower_text(value))


def _lower_text(value: Scalar) -> str:
    return value.rpartition(":")[2].strip().upper().replace("-", "_") if isinstance(value, str) else ""


_SPEED = re.compile(r"(?:SPEED_)?(\d+(?:\.\d+)?)(K|M|G|T)(?:B|BPS)?(?:_.*)?")
_SCALE = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def port_speed(value: Scalar) -> float | None:
    """OpenConfig's ETHERNET_SPEED (`SPEED_400GB`), or `400G`, in bit/s; SPEED_UNKNOWN is None."""
    found = _SPEED.fullmatch(_lower_text(value))
    return float(found[1]) * _SCALE[found[2]] if found else None


_STEPS = ((10**11, 10**9), (10**14, 10**6), (10**17, 10**3))
"""Below 1e11 a Unix time of this century is in seconds, below 1e14 in ms, below 1e17 in µs: devices send each."""


def unix_ns(value: Scalar) -> int | None:
    """A moment in ns, whichever unit the device's version of the model had."""
    found = number(value)
    if found is None or found <= 0:
        return None
    scale = next((scale for limit, scale in _STEPS if found < limit), 1)
    return int(found * scale) if found * scale < 2**63 else None
