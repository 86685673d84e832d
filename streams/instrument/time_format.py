"""Formats times and durations for people."""

from datetime import UTC, datetime


def format_time(ns: int | None) -> str:
    """Return a Unix time in ns as date and time of day in UTC, to the second; "-" for None."""
    return "-" if ns is None else f"{datetime.fromtimestamp(ns / 1e9, UTC):%Y-%m-%d %H:%M:%S}Z"


def format_duration(ns: int) -> str:
    """Return a duration in its two largest units, such as "4m20s"."""
    seconds = max(0, round(ns / 1e9))
    for unit, size, smaller, part in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if seconds >= size:
            return f"{seconds // size}{unit}{seconds % size // part:02d}{smaller}"
    return f"{seconds}s"
