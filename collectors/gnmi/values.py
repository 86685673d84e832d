"""Converts a device's values: numbers that arrive as strings, bytes or decimals, states, speeds and times. Pure.

Absent is not zero: a value that cannot be read is None.
"""

import base64
import binascii
import contextlib
import math
import re
import struct

import orjson
from google.protobuf.message import DecodeError

from collectors.core.device_share import json_elements
from collectors.gnmi.v1 import gnmi_lite_pb2, gnmi_pb2

Scalar = int | float | str | bytes | bool | None
Json = dict[str, "Json"] | list["Json"] | Scalar


def typed_value(value: gnmi_lite_pb2.TypedValue) -> Json:
    """Return the value as a Python object; JSON of either kind is parsed, an unsupported type is None."""
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


MOST_ELEMENTS = 200_000
"""Limit of members, items and containers of JSON that is parsed: the parser takes the event loop for 0.1 s for as many
empty lists, and for 0.9 s for the 2 million of 4 MiB (measured)."""


def _json(data: bytes) -> Json:
    found: Json = None
    if len(data) > MOST_ELEMENTS and json_elements(data) > MOST_ELEMENTS:
        return None
    with contextlib.suppress(orjson.JSONDecodeError):
        found = orjson.loads(data)
    return found


def _decimal(data: bytes) -> float | None:
    with contextlib.suppress(DecodeError):
        decimal = gnmi_pb2.Decimal64.FromString(data)
        return float(decimal.digits / 10 ** min(decimal.precision, 18))
    return None


_LONGEST_LEAF_LIST = 4096
"""Bytes. Only a list with one item is a value; each further item takes microseconds."""


def _leaf_list(data: bytes) -> list[Json] | None:
    if len(data) > _LONGEST_LEAF_LIST:
        return None
    with contextlib.suppress(DecodeError):
        items = gnmi_pb2.ScalarArray.FromString(data).element
        return [typed_value(gnmi_lite_pb2.TypedValue.FromString(item.SerializeToString())) for item in items]
    return None


def container(text: str) -> Json:
    """Return JSON that arrived as text, parsed; None for any other text."""
    return _json(text.encode()) if text[:1] in ("{", "[") else None


def only(value: Json) -> Scalar:
    """Return the only item of a list, because some devices send a leaf as a list; None for longer or empty lists."""
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    return None if isinstance(value, dict | list) else value


_LONGEST_NUMBER = 64
"""Characters; Python parses integers of thousands of digits, which no column can store."""
_ABSENT = {
    "", "_", "NA", "N/A", "NONE", "NULL", "UNKNOWN", "SPEED_UNKNOWN", "UNSPECIFIED", "NAN", "TESTING", "DORMANT",
    "INF", "_INF", "+INF", "INFINITY", "_INFINITY",
}  # fmt: skip


def is_blank(value: Scalar) -> bool:
    """Return True for a value that means "none" and is no error: "NA", or the power of absent light."""
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
    """Return a number of any type; integers stay integers. Four bytes are OpenConfig's ieeefloat32, big-endian."""
    match value:
        case bool():
            return int(value)
        case int():
            return value
        case float():
            return value if math.isfinite(value) else None
        case str() if len(value) <= _LONGEST_NUMBER and value.isascii() and "_" not in value:
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
    """Return the number in four bytes as JSON encodes bytes (RFC 7951 6.6)."""
    if len(text) != 8 or not text.endswith("=="):
        return None
    try:
        return number(base64.b64decode(text, validate=True))
    except binascii.Error:
        return None


def flag(value: Scalar) -> float | None:
    """Return 1 for true and 0 for false, in any of their spellings."""
    match value:
        case bool() | int() | float() if value in (0, 1):
            return int(value)
        case str():
            return {"TRUE": 1.0, "YES": 1.0, "1": 1.0, "FALSE": 0.0, "NO": 0.0, "0": 0.0}.get(_lower_text(value))
    return None


def text(value: Scalar) -> str | None:
    """Return the value as text."""
    return value if isinstance(value, str) else None if value is None else str(value)


_OPER = {
    "UP": 1.0, "DOWN": 0.0, "TESTING": 0.0, "NOT_PRESENT": 0.0, "LOWER_LAYER_DOWN": 0.0,
    "NOTPRESENT": 0.0, "LOWERLAYERDOWN": 0.0,
}  # fmt: skip
_ADMIN = {"UP": 1.0, "DOWN": 0.0, "ENABLE": 1.0, "DISABLE": 0.0}


def oper_up(value: Scalar) -> float | None:
    """Return 1 for up and 0 for a port that carries no traffic; None for UNKNOWN.

    DORMANT is no fault: the lower layers are up, and the port waits, as a standby member of a LAG does (RFC 2863).
    """
    return _OPER.get(_lower_text(value))


def admin_up(value: Scalar) -> float | None:
    """Return 1 for enabled and 0 for shut; None for TESTING."""
    return _ADMIN.get(_lower_text(value))


_SESSION = {
    "UP": 1.0, "DOWN": 0.0, "INIT": 0.0, "ESTABLISHED": 1.0, "IDLE": 0.0, "CONNECT": 0.0, "ACTIVE": 0.0,
    "OPENSENT": 0.0, "OPENCONFIRM": 0.0,
}  # fmt: skip


def session_up(value: Scalar) -> float | None:
    """Return 1 for a BFD or BGP session that is up, 0 for any other state; None for ADMIN_DOWN."""
    return _SESSION.get(_lower_text(value))


def stormed(value: Scalar) -> float | None:
    """Return 1 for a queue that SONiC's PFC watchdog holds, 0 for one that it does not hold."""
    return {"STORMED": 1.0, "OPERATIONAL": 0.0}.get(_lower_text(value))


def _lower_text(value: Scalar) -> str:
    return value.rpartition(":")[2].strip().upper().replace("-", "_") if isinstance(value, str) else ""


_SPEED = re.compile(r"(?:SPEED_)?(\d+(?:\.\d+)?)(K|M|G|T)(?:B|BPS)?(?:_.*)?")
_SCALE = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def port_speed(value: Scalar) -> float | None:
    """Convert OpenConfig's ETHERNET_SPEED (`SPEED_400GB`), or `400G`, to bit/s; None for SPEED_UNKNOWN."""
    found = _SPEED.fullmatch(_lower_text(value))
    return float(found[1]) * _SCALE[found[2]] if found else None


_STEPS = ((10**11, 10**9), (10**14, 10**6), (10**17, 10**3))
"""A Unix time of this century is in seconds below 1e11, in ms below 1e14, in µs below 1e17: devices send each."""


def unix_ns(value: Scalar) -> int | None:
    """Return a time in ns, from any unit that a version of the model uses."""
    found = number(value)
    if found is None or found <= 0:
        return None
    scale = next((scale for limit, scale in _STEPS if found < limit), 1)
    return int(found * scale) if found * scale < 2**63 else None
