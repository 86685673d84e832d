"""Renders lemon scores as rows of at most 80 columns."""

from collections.abc import Sequence

from streams.report.lemons.score import is_lemon
from streams.wire.models import Lemon

_SUBJECT = 17
"""Characters of a subject, with which the widest row of a firmware fits 80 columns."""
LEMON_COLUMNS = ("", "KIND", "SUBJECT", "FAULTS", "REST", "RATIO")


def lemon_cells(lemon: Lemon, *, is_cut: bool) -> list[str]:
    """Return the row of a subject; a lemon has a mark. With `is_cut`, the middle of a long subject is left out."""
    return [
        "*" if is_lemon(lemon) else "",
        lemon.kind.name.lower(),
        _cut(lemon.subject_id, _SUBJECT) if is_cut else lemon.subject_id,
        f"{lemon.events} of {lemon.exposure}",
        f"{lemon.fleet_events} of {lemon.fleet_exposure}",
        _interval(lemon),
    ]


def count_line(lemons: Sequence[Lemon], days: float) -> str:
    """Return the line below the table."""
    count = sum(map(is_lemon, lemons))
    return f"{count} of {len(lemons)} in {days:g} days are lemons (*): the whole interval is above 1"


def _interval(lemon: Lemon) -> str:
    """Return the bounds of the ratio."""
    high = "inf" if lemon.ratio_high is None else _short(lemon.ratio_high)
    return f"{_short(lemon.ratio_low or 0)}..{high}"


def _short(number: float) -> str:
    return f"{number:.0f}" if 10 <= number < 100_000 else f"{number:.2g}"


def _cut(text: str, width: int) -> str:
    """Return a text with its middle cut: both ends of a link stay recognisable."""
    if len(text) <= width:
        return text
    begin = (width - 1) // 2
    return f"{text[:begin]}…{text[begin + 1 - width :]}"
