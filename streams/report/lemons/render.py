"""Renders lemon scores as a table of at most 80 columns."""

from collections.abc import Iterator, Sequence

from streams.report.lemons.score import is_lemon
from streams.wire.models import Lemon

_HEADER = f"{'':1} {'KIND':8} {'SUBJECT':22} {'FAULTS':>13} {'REST':>15} {'RATIO':>16}"


def lemon_lines(lemons: Sequence[Lemon], days: float) -> Iterator[str]:
    """Yield the table; a lemon has a mark. Long subjects are cut; `--json` has them whole."""
    yield _HEADER
    for lemon in lemons:
        faults, rest = (
            f"{lemon.events} of {lemon.exposure}",
            f"{lemon.fleet_events} of {lemon.fleet_exposure}",
        )
        yield (
            f"{'*' if is_lemon(lemon) else '':1} {lemon.kind.name.lower():8} {_cut(lemon.subject_id, 22):22}"
            f" {faults:>13} {rest:>15} {_interval(lemon):>16}"
        )
    count = sum(map(is_lemon, lemons))
    yield f"{count} of {len(lemons)} in {days:g} days are lemons (*): the whole interval is above 1"


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
