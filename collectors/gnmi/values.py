"""What a device's value says: numbers that come as strings, bytes or decimals, states, speeds and times. Pure.

Absent is not zero: what cannot be read is None.
"""

import contextlib
import math
import re
import struct

import orjson
from google.protobuf.message import DecodeError

from collectors.gnmi.v1 import gnmi_lite_pb2, gnmi_pb2

Scalar = int | float | str | bytes | bool | None
Json = dict[str, "Json"] | list["Json"] | Scalar


def of(value: gnmi_lite_pb2.TypedValue) -> Json:
    """The value as Python has it; JSON of either kind is read, what is none of ours is None."""
    which = value.WhichOneof("value")
    match which:
        case "json_val" | "json_ietf_val":
            return _json(getattr(value, which))
        case "decimal_val":
            return _decimal(value.decimal_val)
        case None | "leaflist_val" | "proto_bytes":
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


def number(value: Scalar) -> float | None:
    """A number, whatever it came as; integers stay integers. Four bytes are OpenConfig's ieeefloat32, big-endian."""
    match value:
        case bool():
            return int(value)
        case int():
            return value
        case float():
            return value if math.isfinite(value) else None
        case str():
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
        return None
    return found if math.isfinite(found) else None


def text(value: Scalar) -> str | None:
    """The words, without a module before them."""
    return value if isinstance(value, str) else None if value is None else str(value)


_OPER = {
    "UP": 1.0, "DOWN": 0.0, "TESTING": 0.0, "DORMANT": 0.0, "NOT_PRESENT": 0.0, "LOWER_LAYER_DOWN": 0.0,
}  # fmt: skip
_ADMIN = {"UP": 1.0, "DOWN": 0.0, "ENABLE": 1.0, "DISABLE": 0.0}


def oper_up(value: Scalar) -> float | None:
    """1 up, 0 anything that carries nothing; UNKNOWN is None."""
    return _OPER.get(_word(value))


def admin_up(value: Scalar) -> float | None:
    """1 enabled, 0 shut; TESTING is None."""
    return _ADMIN.get(_word(value))


def _word(value: Scalar) -> str:
    return value.rpartition(":")[2].strip().upper().replace("-", "_") if isinstance(value, str) else ""


_SPEED = re.compile(r"SPEED_(\d+(?:\.\d+)?)(K|M|G|T)B")
_SCALE = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def port_speed(value: Scalar) -> float | None:
    """OpenConfig's ETHERNET_SPEED (`SPEED_400GB`) in bit/s; SPEED_UNKNOWN is None."""
    found = _SPEED.search(_word(value))
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
