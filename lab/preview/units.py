"""Formats values in the units that the boards use, as Grafana does."""

from typing import Any

_SI = (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))
_PER_S = {"bps": "b/s", "pps": "p/s", "suffix: /s": "/s", "recps": "rec/s", "rowsps": "rows/s", "bytes": "B"}


def text(value: Any, unit: str, decimals: int | None = None) -> str:
    """Return a value with its unit."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return str(value)
    match unit:
        case "percentunit":
            return f"{100 * value:.{1 if decimals is None else decimals}f}%"
        case "sci":
            return f"{value:.2e}"
        case "s" | "dtdurations":
            return duration(float(value))
        case "celsius":
            return f"{value:.1f} °C"
        case "dBm" | "h":
            return f"{value:.2f} {unit}"
        case _:
            return f"{_short(value, decimals)}{' ' + _PER_S[unit] if unit in _PER_S else ''}"


def _short(value: float, decimals: int | None) -> str:
    for name, factor in _SI:
        if abs(value) >= factor:
            return f"{value / factor:.{2 if decimals is None else decimals}f} {name}"
    return f"{value:.{decimals}f}" if decimals is not None else f"{value:.3g}"


def duration(seconds: float) -> str:
    """Return seconds in the two largest units."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    parts = [("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)]
    found = []
    for name, size in parts:
        count, seconds = divmod(seconds, size)
        if count:
            found.append(f"{count:.0f} {name}")
    return " ".join(found[:2])
