"""Parses InfluxDB's line protocol, as Telegraf writes it, to points. Pure.

`measurement,tag=value field=1i,other="text" 1700000000000000000`; commas, spaces and equals signs of names are
escaped, text is quoted. An invalid line affects no other. ADR 8 has the libraries that were tried.
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from collectors.bridge import values
from collectors.bridge.points import LONGEST_SERIES, Fields, Point, Scalar, refuse
from streams.wire.errors import Reject

_TRUE = {"t", "T", "true", "True", "TRUE"}
_FALSE = {"f", "F", "false", "False", "FALSE"}
_HEAD = re.compile(r"((?:[^ \\]|\\.)+) +", re.DOTALL)
_PART = re.compile(r"((?:[^,=\\]|\\.)*)([,=]|$)", re.DOTALL)
_FIELD = re.compile(r'((?:[^,= \\]|\\.)+)=("(?:[^"\\]|\\.)*"|[^, ]*)(,|$| )', re.DOTALL)
_ESCAPED = re.compile(r"\\([,= ])")
_SHOWN = 60
_MOST_HEADS = 200_000
_INTEGER = ("i", "u")


class Head(NamedTuple):
    """The measurement, the tags, and the names of fields that are not collected."""

    name: str
    tags: Mapping[str, str]
    skip: set[str]


class Heads:
    """Caches heads by their text, which repeats with every reading.

    A field that is not collected in one head is not collected in any head with the same measurement and tag keys: a NIC
    has 2,000 statistics, and a fabric 131,072 NICs.
    """

    def __init__(self) -> None:
        self.known: dict[str, Head] = {}
        self._skips: dict[object, set[str]] = {}

    def of(self, text: str) -> Head:
        """Return the head that a text contains; raises Reject."""
        found = self.known.get(text)
        if found is None:
            if len(text) > LONGEST_SERIES:
                raise Reject(f"a series of {len(text)} characters, more than {LONGEST_SERIES}: {text[:_SHOWN]}")
            if len(self.known) >= _MOST_HEADS:
                self.known.clear()
                self._skips.clear()
            name, tags = _head(text)
            cache_key = name, tags.get("path"), *tags
            found = self.known[text] = Head(name, tags, self._skips.setdefault(cache_key, set()))
        return found


def points(text: str, heads: Heads, refused: list[Reject]) -> Iterator[Point]:
    """Yield the points of some lines; the reasons of invalid lines are appended to `refused`."""
    for number, line in enumerate(_lines(text), 1):
        if not line or line[0] == "#":
            continue
        try:
            yield _point(line, heads)
        except Reject as error:
            refuse(refused, Reject(f"line {number}: {error}"))


def _point(line: str, heads: Heads) -> Point:
    parts = line.split(" ") if "\\" not in line else []
    if len(parts) in {2, 3} and all(parts):
        known = heads.of(parts[0])
        timestamp = parts[2] if len(parts) == 3 else ""
        try:
            fields, skipped = _plain_fields(parts[1], known.skip)
            return Point(
                parts[0], *known[:2], fields, values.unix_ns(timestamp) if timestamp else 0, known.skip, skipped
            )
        except Reject:
            if '"' not in line:
                raise  # without quotes the line is invalid; a quoted text may contain separators
    head, fields, timestamp = _with_quotes(line)
    known = heads.of(head)
    return Point(head, *known[:2], fields, values.unix_ns(timestamp) if timestamp else 0, known.skip)


def _lines(text: str) -> Iterator[str]:
    """Yield the lines; a line that ends inside quotes continues in the next, because text may contain newlines."""
    if '"' not in text:
        yield from (line.strip() for line in text.split("\n"))
        return
    pending: list[str] = []
    is_open = False
    for line in text.split("\n"):
        pending.append(line)
        is_open ^= _unescaped_quotes(line) % 2 == 1
        if not is_open:
            yield "\n".join(pending).strip()
            pending = []
    if pending:
        yield "\n".join(pending).strip()  # an unterminated text, which is refused later


def _unescaped_quotes(line: str) -> int:
    return line.count('"') if "\\" not in line else re.sub(r"\\.", "", line, flags=re.DOTALL).count('"')


def _plain_fields(text: str, skip: set[str]) -> tuple[Fields, int]:
    """Return the fields, and the number of skipped fields; raises Reject."""
    fields: Fields = []
    skipped = 0
    for field in text.split(","):
        name, equals, value = field.partition("=")
        if name in skip:
            if value[:1] == '"':
                _value(value)
            skipped += 1
            continue
        if not equals or not name:
            raise Reject(f"not a field: {field[:_SHOWN]!r}")
        digits = value[:-1]
        if value[-1:] in _INTEGER and digits.isdecimal() and len(value) <= 20:
            fields.append((name, int(digits)))
        else:
            fields.append((name, _value(value)))
    return fields, skipped


def _value(text: str) -> Scalar:
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if text[:1] == '"' and text[-1:] == '"' and len(text) > 1:
        return re.sub(r'\\(["\\])', r"\1", text[1:-1])
    digits = text[:-1] if text[-1:] in {"i", "u"} else text
    try:
        if len(digits) <= 40 and digits.isascii() and "_" not in digits:
            return int(digits) if digits is not text else float(digits)
    except ValueError:
        pass
    raise Reject(f"not a value: {text[:_SHOWN]!r}")


def _with_quotes(line: str) -> tuple[str, Fields, str]:
    """Return (head, fields, time) of a line with escapes or quotes."""
    if not (head := _HEAD.match(line)):
        raise Reject(f"not line protocol: {line[:_SHOWN]!r}")
    fields: Fields = []
    at = head.end()
    while True:
        if not (field := _FIELD.match(line, at)):
            raise Reject(f"not a field: {line[at : at + _SHOWN]!r}")
        fields.append((_unescaped(field[1]), _value(field[2])))
        at = field.end()
        if field[3] != ",":
            break
    return head[1], fields, line[at:].strip()


def _head(text: str) -> tuple[str, Mapping[str, str]]:
    parts: list[tuple[str, str]] = []
    at = 0
    while at <= len(text):
        part = _PART.match(text, at)
        if part is None:
            raise Reject(f"not a series: {text[:_SHOWN]!r}")
        parts.append((part[1], part[2]))
        at = part.end()
        if not part[2]:
            break
    name, tags = parts[0][0], {}
    pairs = parts[1:]
    if not name or parts[0][1] == "=" or len(pairs) % 2:
        raise Reject(f"not a series: {text[:_SHOWN]!r}")
    for (key, equals), (value, end) in zip(pairs[::2], pairs[1::2], strict=True):
        if equals != "=" or end == "=" or not key:
            raise Reject(f"not a tag: {text[:_SHOWN]!r}")
        tags[_unescaped(key)] = _unescaped(value)
    return _unescaped(name), tags


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(r"\1", text) if "\\" in text else text
