"""Formats texts for people: times, durations, and refused values without the names of pydantic and Python types."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


def clean(text: str) -> str:
    """Return a string without control, format and bidirectional characters; white space becomes a space."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else " " if char.isspace() else "\ufffd" for char in text)


def in_words(name: str) -> str:
    """Return the name of an enumeration's member as a person writes it: GPU_OFF_BUS is "gpu off bus"."""
    return name.replace("_", " ").lower()


def format_time(ns: int | None) -> str:
    """Return a Unix time in ns as date and time of day in UTC, to the second; "-" for None."""
    return "-" if ns is None else f"{datetime.fromtimestamp(ns / 1e9, UTC):%Y-%m-%d %H:%M:%S}Z"


_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def parse_duration(text: str) -> int:
    """Return a duration such as "90s", "1h30m" or "2d" in nanoseconds; raises ValueError."""
    parts = re.findall(r"(\d+)([smhdw])", text)
    if not parts or "".join(map("".join, parts)) != text:
        raise ValueError(f"{text}: not a duration, such as 90s, 1h30m, 12h or 2d")
    return sum(int(number) * _UNITS_S[unit] for number, unit in parts) * 1_000_000_000


def format_duration(ns: int) -> str:
    """Return a duration in its two largest units, such as "4m20s"."""
    seconds = max(0, round(ns / 1e9))
    for unit, size, smaller, part in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if seconds >= size:
            return f"{seconds // size}{unit}{seconds % size // part:02d}{smaller}"
    return f"{seconds}s"


_BOUNDS = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "a text",
    "path": "the path of a file or folder",
    "tuple": "a list",
    "list": "a list",
    "set": "a list",
    "dict": "a table",
    "mapping": "a table",
    "model": "a table",
    "datetime": "a time with a zone, such as 2026-03-01T00:00:00Z",
}


def refusal(detail: Mapping[str, Any]) -> str:
    """Return the description of a valid value, or else the validator's own text.

    `detail` is an error of pydantic with `type`, `msg` and `ctx`. The value may be a secret and is not shown.
    """
    kind, context = str(detail["type"]), detail.get("ctx") or {}
    if kind == "missing":
        return "required and not set"
    if kind == "extra_forbidden":
        return "unknown"
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        return f"must be {words} {context.get(name, '')}".rstrip()
    if kind in ("literal_error", "enum"):
        return f"must be {context.get('expected', 'one of the known values')}"
    if kind == "string_pattern_mismatch":
        return f"must match {context.get('pattern', 'its pattern')}"
    if kind in ("string_too_short", "too_short"):
        return "must not be empty" if context.get("min_length") == 1 else f"needs {context.get('min_length')} or more"
    if kind == "finite_number":
        return "must be a finite number"
    if kind.endswith(("_type", "_parsing", "_from_float", "_parsing_size", "_from_date_parsing", "_unicode")):
        family = kind.partition("_")[0]
        if family in _KINDS:
            return f"must be {_KINDS[family]}"
    text = str(detail["msg"]).removeprefix("Value error, ")
    return f"{text[:1].lower()}{text[1:]}" if text[1:2].islower() else text


_PAST = {
    "is": "was", "are": "were", "has": "had", "have": "had", "keeps": "kept", "pauses": "paused", "passes": "passed",
    "loses": "lost", "sends": "sent", "receives": "received", "runs": "ran", "leads": "led", "carry": "carried",
}  # fmt: skip
_VERB = re.compile(rf"(?<= )(?:{'|'.join(_PAST)})(?=[ ,;]|$)")


def in_past(summary: str) -> str:
    """Return a summary with its verbs in the past: the fault is over."""
    return _VERB.sub(lambda found: _PAST[found[0]], summary)
