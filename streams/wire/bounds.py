"""Bounds every field of every message; the codec rejects a message with a value beyond its bound.

A stage may store any value that the codec accepts, and its snapshot must restore it. JSON has no infinity and no
integer of more than 64 bits, and sums of times near 2^63 ns overflow. The bounds leave room for arithmetic. A bound
follows from the type and the name of a field; `_OF_FIELD` has the exceptions. Control characters, which a terminal
would execute, are removed from strings.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from streams.instrument.text import clean
from streams.wire.errors import Reject
from streams.wire.models import IDLE_NS

MAX_TIME_NS = 7_258_118_400 * 10**9
"""2200-01-01. int64 ends in 2262, so that sums with 62 years do not overflow."""

MAX_NUMBER = 1e24
"""The largest number of a message. A counter of 64 bits has 1.8e19; squares of sums stay far below 1e308."""

MAX_ITEMS = 1 << 16
_MAX_NORM = MAX_NUMBER * 256
"""The root of the sum of the squares of MAX_ITEMS numbers of MAX_NUMBER."""

MAX_ROWS = 1 << 14
"""Rows of Samples: a switch has up to 1,024 ports with breakouts."""

MAX_COLUMNS = 1 << 12
"""The metrics of the catalogue times 32 lanes are fewer."""

MAX_INDEX = 1 << 10
NAME_CHARACTERS = 256
ID_CHARACTERS = 2048
"""A subject id contains up to four names."""

TEXT_CHARACTERS = 1 << 14


@dataclass(frozen=True, slots=True)
class Bound:
    """The accepted values of a field, or of each item of a repeated field: a range, or a number of characters."""

    least: float = 0
    most: float = 0
    characters: int = 0
    """The most characters of a string."""
    clamps: bool = False
    """True if a value beyond the range is replaced by the nearest bound instead of rejected."""


TIME = Bound(0, MAX_TIME_NS)
NUMBER = Bound(-MAX_NUMBER, MAX_NUMBER)
_INTEGERS = {
    "int32": Bound(-(2**31), 2**31 - 1),
    "uint32": Bound(0, 2**31 - 1),  # a stage may add to a number
    "int64": Bound(-(2**63), 2**63 - 1),
    "uint64": Bound(0, 2**64 - 1),
}
_SHORT_TIME = Bound(0, 2**32 - 1)
"""The bound of a duration in 32 bits, up to 4.3 s."""
_NAME, _ID, _TEXT = (Bound(characters=most) for most in (NAME_CHARACTERS, ID_CHARACTERS, TEXT_CHARACTERS))
_IDS = frozenset(
    {"id", "former_ids", "parent_id", "finding_ids", "remediation_id", "subject_id", "related", "target_id",
     "missing", "nearest"}
)  # fmt: skip
_TEXTS = frozenset(
    {"detail", "error", "collector_error", "message", "report", "statement", "summary", "reason", "repair_hint",
     "runbook_url", "dashboard_url", "memory", "location"}
)  # fmt: skip
_SHORTENED = frozenset(
    {"vendor", "model", "os_version", "serial", "kind", "part_number", "firmware", "remote_device", "remote_port",
     "error"}
)  # fmt: skip
"""Descriptions that a device or an operating system supplies. A longer one is truncated, and the message stays valid.
"""
_WATERMARK = Bound(0, IDLE_NS)
_OF_FIELD: Mapping[tuple[str, str], Bound] = {
    # The year 9999 means "without end" to an operator; if a kill switch were rejected for it, none would apply.
    ("Control", "until_ns"): Bound(0, MAX_TIME_NS, clamps=True),
    # A decision near the latest time expires at that time.
    ("Remediation", "expires_at_ns"): Bound(0, MAX_TIME_NS, clamps=True),
    ("GpuXid", "xid"): Bound(0, 2**32 - 1),
    ("CollectorStatus", "clock_offset_ns"): Bound(-MAX_TIME_NS, MAX_TIME_NS),
    ("ClockOffset", "offset_ns"): Bound(-MAX_TIME_NS, MAX_TIME_NS),
    ("CollectorStatus", "cadence_ns"): Bound(0, 7 * 86_400 * 10**9),
    ("StateTransfer", "epoch"): Bound(0, 2**31 - 1),  # revisions are epoch << 32
    ("SourceSilence", "cadence_ns"): Bound(0, 7 * 86_400 * 10**9),
    ("SourceSilence", "live_sources"): Bound(0, 2**20),
    ("CounterGrowth", "growth"): Bound(0, 2**53),
    ("CnpThrottledBegan", "cnp_per_s"): Bound(0, 2**53),
    ("SlowedByCnpBegan", "notified_per_s"): Bound(0, 2**53),
    ("SlowedByLossBegan", "retransmits_per_s"): Bound(0, 2**53),
    # Sums over partitions and windows stay below 64 bits.
    ("ProbeWindow", "sent"): Bound(0, 2**53),
    ("ProbeWindow", "element_sent"): Bound(0, 2**53),
    **{
        ("RailProbes", name): Bound(0, 2**53)
        for name in ("own_sent", "own_lost", "others_sent", "others_lost", "to_sent", "to_lost")
    },
    ("RailDelays", "delay_ns"): Bound(0, 2**53),
    ("Snapshot", "upstream_watermark_ns"): _WATERMARK,
}


def bound_of(model: str, field: str, kind: str) -> Bound | None:
    """Return the bound of a field, or None if it has none; `kind` is "time", "float", "str" or an integer type."""
    if (bound := _OF_FIELD.get((model, field))) is not None:
        return bound
    if kind == "str":
        return _ID if field in _IDS else _TEXT if field in _TEXTS else _NAME
    if kind == "float":
        return NUMBER
    if field == "watermark_ns":
        return _WATERMARK
    if kind in _INTEGERS and field.endswith("_ns"):
        return TIME if "64" in kind else _SHORT_TIME
    return TIME if kind == "time" else _INTEGERS.get(kind)


def cleaned(what: str, text: str, characters: int = NAME_CHARACTERS) -> str:
    """Return a clean string; raises Reject if it is too long."""
    if len(text) > characters:
        raise Reject(f"{what} has {len(text)} characters, more than {characters}")
    return clean(text)


def shortened(_what: str, text: str, characters: int = NAME_CHARACTERS) -> str:
    """Return a clean string, truncated to a number of characters."""
    return clean(text[:characters])


def cleaned_names(what: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return clean names; raises Reject if one is too long."""
    if max(map(len, names), default=0) <= NAME_CHARACTERS and "".join(names).isprintable():
        return names
    return tuple(cleaned(what, name) for name in names)


@dataclass(frozen=True, slots=True)
class BoundedField:
    """A bounded field, by its index among the values of a message."""

    place: int
    name: str
    bound: Bound
    is_repeated: bool = False
    is_float: bool = False


class ModelBounds:
    """The bounds of the fields of one model; `apply` checks all strings of a valid message at once."""

    def __init__(self, model: str, fields: Sequence[BoundedField]) -> None:
        self._model = model
        self._names = {field.place: field.name for field in fields}
        texts = [field for field in fields if field.bound.characters and not field.is_repeated]
        self._texts = tuple(
            (field.place, field.bound.characters, shortened if field.name in _SHORTENED else cleaned) for field in texts
        )
        self._joined: Callable[[Any], Any] | None = itemgetter(*(field.place for field in texts)) if texts else None
        self._short = min((field.bound.characters for field in texts), default=0)
        numbers = [field for field in fields if not field.bound.characters]
        self._ranges = tuple((f.place, f.bound.least, f.bound.most) for f in numbers if not f.is_repeated)
        self._floats = tuple(f.place for f in numbers if f.is_repeated and f.is_float)
        self._integers = tuple(
            (f.place, f.bound.least, f.bound.most) for f in numbers if f.is_repeated and not f.is_float
        )
        self._lists = tuple((f.place, f.bound.characters) for f in fields if f.bound.characters and f.is_repeated)
        self._has_lists = bool(self._floats or self._integers or self._lists)

    def apply(self, values: list[Any]) -> None:
        """Clean strings and truncate long descriptions; raises Reject on any other value beyond its bound."""
        if self._joined is not None:
            # Check one joined string: if it is short and clean, so is each field.
            text = "".join(self._joined(values))
            if len(text) > self._short or not text.isprintable():
                for place, characters, to_valid in self._texts:
                    values[place] = to_valid(self._name(place), values[place], characters)
        for place, least, most in self._ranges:
            if not least <= values[place] <= most:
                raise self._beyond(place, values[place])
        if self._has_lists:
            self._apply_lists(values)

    def _apply_lists(self, values: list[Any]) -> None:
        for place in self._floats:
            # The root of the sum of squares is infinite or NaN if any value is, and at least the largest value.
            items = values[place] = tuple(values[place])
            if not math.hypot(*items) <= _MAX_NORM or len(items) > MAX_ITEMS:
                raise self._beyond(place, f"one of {len(items)} numbers")
        for place, least, most in self._integers:
            items = values[place]
            if items and (min(items) < least or max(items) > most or len(items) > MAX_ITEMS):
                raise self._beyond(place, f"one of {len(items)} numbers")
        for place, characters in self._lists:
            items = values[place] = tuple(values[place])
            if len(items) > MAX_ITEMS:
                raise self._beyond(place, f"a list of {len(items)}")
            text = "".join(items)
            if len(text) > characters or not text.isprintable():
                values[place] = tuple(cleaned(self._name(place), item, characters) for item in items)

    def _name(self, place: int) -> str:
        return f"{self._model}.{self._names[place]}"

    def _beyond(self, place: int, value: object) -> Reject:
        return Reject(f"{self._name(place)}: {value} is beyond its bounds")
