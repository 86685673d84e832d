"""Reads the time at the head of a syslog line, and converts it to Unix time. Pure.

Devices write years, fractions and zones or leave them out; a clock that is not set or has lost NTP is marked by `*` or
`.`, and some devices write their uptime. Such a line has no time of its own.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from collectors.host.lines import MONTHS

_A = re.ASCII
_CLOCK = r"(?P<h>\d{1,2}):(?P<m>\d\d):(?P<s>\d\d)(?:[.,:](?P<f>\d{1,9})(?:\.\d{1,9})?)?"
_OFFSET = r"(?P<offset>Z|[+-]\d\d:?\d\d)?"
_MONTH = r"(?P<month>[A-Z][a-z]{2}) {1,2}(?P<day>\d{1,2})"
_ZONE = (
    r"(?: (?P<zone>[A-Za-z]{2,5}(?:[+-]\d{1,2}(?::?\d\d)?)?(?= ?: )"
    r"|(?:UTC|GMT|WEST?|BST|C?EST|CET|EEST|EET|[ECMP]DT|[MP]ST|JST|KST|SGT|HKT)"
    r"(?= [A-Za-z0-9][\w.-]{0,254} [\w./#@-]{1,128}(?:\[[\w./-]{1,32}\])?: )))?"
)
"""Before a colon, or a known one before a host and a program: a host may have such a name, but not both."""
_FORMS = tuple(
    re.compile(rf"(?P<unset>[*.])?%?{form}", _A)
    for form in (
        rf"(?P<year>\d{{4}})-(?P<number>\d{{1,2}})-(?P<day>\d{{1,2}})[T ]{_CLOCK}{_OFFSET}{_ZONE}",
        rf"(?P<year>\d{{4}}) {_MONTH} {_CLOCK}{_OFFSET}{_ZONE}",
        rf"{_MONTH} (?P<year>\d{{4}}) {_CLOCK}{_OFFSET}{_ZONE}",
        rf"{_MONTH} {_CLOCK} (?P<year>\d{{4}})(?= ){_ZONE}",
        rf"{_MONTH} {_CLOCK}{_OFFSET}{_ZONE}",
    )
)
_UPTIME = re.compile(r"[*.]?(?:(?:\d{1,3}[ywdh]){1,3}|\d{1,3}:\d\d:\d\d)(?=: )", _A)
_HOURS = {
    "UTC": 0, "GMT": 0, "Z": 0, "WET": 0, "WEST": 1, "BST": 1, "CET": 1, "MET": 1, "CEST": 2, "MEST": 2, "EET": 2,
    "EEST": 3, "MSK": 3, "SGT": 8, "HKT": 8, "JST": 9, "KST": 9, "AEST": 10, "AEDT": 11, "EST": -5, "EDT": -4,
    "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7,
}  # fmt: skip
"""The hours of abbreviations with one usual meaning; those with several (CST, IST) need the zone of the device."""
_NUMBERED = re.compile(r"[A-Za-z]{2,5}([+-])(\d{1,2})(?::?(\d\d))?", _A)
_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Stamp:
    """The time of a line as it is written: `year` is 0 and `offset` None where the line has none."""

    year: int
    month: int
    day: int
    second: int
    """Of the day."""
    fraction_ns: int
    offset: timedelta | None
    zone: str

    def at_ns(self, near_ns: int, zone: tzinfo | None) -> int | None:
        """Return Unix ns in a zone, by default that of the line or UTC; None for an impossible date.

        Without a year it is the one nearest to `near_ns`.
        """
        if self.offset is not None:
            zone = timezone(self.offset)
        elif zone is None:
            known = zone_of(self.zone)
            zone = UTC if known is None else timezone(known)
        near = datetime.fromtimestamp(near_ns / _S, UTC).year
        found = [self._in_year(year, zone) for year in ((self.year,) if self.year else (near - 1, near, near + 1))]
        return min((at for at in found if at is not None), key=lambda at: abs(at - near_ns), default=None)

    def _in_year(self, year: int, zone: tzinfo) -> int | None:
        try:
            begin = datetime(year, self.month, self.day, tzinfo=zone) + timedelta(seconds=self.second)
            return int(begin.timestamp()) * _S + self.fraction_ns
        except (ValueError, OverflowError):
            return None


def read_stamp(text: str, start: int) -> tuple[Stamp | None, int]:
    """Return the time at a place of a line and the place after it; None for an unset clock, -1 for no time at all."""
    for form in _FORMS:
        if found := form.match(text, start):
            return _stamp(found), found.end()
    uptime = _UPTIME.match(text, start)
    return None, -1 if uptime is None else uptime.end()


def _stamp(found: re.Match[str]) -> Stamp | None:
    parts = found.groupdict()
    month = int(parts["number"]) if parts.get("number") else MONTHS.get(parts.get("month") or "", 0)
    hour, minute, second = int(parts["h"]), int(parts["m"]), int(parts["s"])
    if parts["unset"] or hour > 23 or minute > 59 or second > 60 or not month:
        return None
    offset = None if not parts.get("offset") else _offset(parts["offset"])
    fraction_ns = int((parts["f"] or "0").ljust(9, "0"))
    return Stamp(
        int(parts.get("year") or 0), month, int(parts["day"]), hour * 3600 + minute * 60 + min(second, 59),
        fraction_ns, offset, parts.get("zone") or "",
    )  # fmt: skip


def _offset(text: str) -> timedelta | None:
    if text == "Z":
        return timedelta()
    hours, minutes = int(text[1:3]), int(text[-2:])
    return (
        None if hours > 14 or minutes > 59 else timedelta(hours=hours, minutes=minutes) * (-1 if text[0] == "-" else 1)
    )


def zone_of(text: str) -> timedelta | None:
    """Return the offset of an abbreviation: `EST`, `mdt`, `UTC+07:30`; None if it is not known."""
    if (hours := _HOURS.get(text.upper())) is not None:
        return timedelta(hours=hours)
    found = _NUMBERED.fullmatch(text)
    if found is None or text[:3].upper() not in {"UTC", "GMT"} or int(found[2]) > 14:
        return None
    return timedelta(hours=int(found[2]), minutes=int(found[3] or 0)) * (-1 if found[1] == "-" else 1)


@lru_cache(maxsize=1024)
def configured_zone(text: str) -> tzinfo | None:
    """Return the zone of a setting: a name of the zone database, or what `zone_of` knows; raises ValueError."""
    if not text:
        return None
    if (offset := zone_of(text)) is not None:
        return timezone(offset)
    try:
        return ZoneInfo(text)
    except (KeyError, OSError, ValueError):
        raise ValueError(f"unknown zone {text!r}; set a name such as America/Los_Angeles, or UTC-8") from None
