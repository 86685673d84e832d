"""Writes and reads Slurm's hostlists: `h[0-3,7],login` for h0, h1, h2, h3, h7 and login.

The last number of a name is the range, with its leading zeros. Only lists as they are written here are read.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from streams.locality.groups import natural_key

_LAST_NUMBER = re.compile(r"(.*?)(\d+)(\D*)\Z", re.DOTALL)
_ITEM = re.compile(r"([^\[\],]*)\[([\d,-]+)\]([^\[\],]*)|([^\[\],]+)")
_MAX_DIGITS = 9
"""Longer numbers are part of the name: Slurm reads up to 10 digits."""


def compressed(names: Iterable[str]) -> str:
    """Return the hostlist of names, in natural order."""
    numbers: dict[tuple[str, str, int], list[int]] = defaultdict(list)
    plain: list[str] = []
    for name in names:
        found = _LAST_NUMBER.match(name)
        if found is None or len(found[2]) > _MAX_DIGITS:
            plain.append(name)
        else:
            prefix, digits, suffix = found.groups()
            # Numbers with leading zeros form ranges of their own width; others may differ in length.
            width = len(digits) if digits.startswith("0") and len(digits) > 1 else 0
            numbers[prefix, suffix, width].append(int(digits))
    lists = _with_padding(numbers)
    return ",".join(sorted([*plain, *lists], key=natural_key))


def _with_padding(numbers: dict[tuple[str, str, int], list[int]]) -> Iterator[str]:
    """Yield the ranges; numbers of the same length as padded ones join them, as h09 and h10 do."""
    for (prefix, suffix, width), found in numbers.items():
        if width == 0:
            padded = {w: v for (p, s, w), v in numbers.items() if (p, s) == (prefix, suffix) and w}
            rest = [number for number in found if len(str(number)) not in padded]
            if rest:
                yield _item(prefix, rest, suffix, 0)
        else:
            same = [n for n in numbers.get((prefix, suffix, 0), ()) if len(str(n)) == width]
            yield _item(prefix, [*found, *same], suffix, width)


def _item(prefix: str, numbers: Iterable[int], suffix: str, width: int) -> str:
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return f"{prefix}{ranges[0][0]:0{width}d}{suffix}"
    texts = (f"{low:0{width}d}" if low == high else f"{low:0{width}d}-{high:0{width}d}" for low, high in ranges)
    return f"{prefix}[{','.join(texts)}]{suffix}"


def expanded(hostlist: str) -> list[str]:
    """Return the names of a hostlist; raises ValueError on another form."""
    found: list[str] = []
    at = 0
    while at < len(hostlist):
        item = _ITEM.match(hostlist, at)
        if item is None or (item.end() < len(hostlist) and hostlist[item.end()] != ","):
            raise ValueError(f"no hostlist: {hostlist[:80]}")
        found += [item[4]] if item[4] else _names(item[1], item[2], item[3])
        at = item.end() + 1
    return found


def _names(prefix: str, ranges: str, suffix: str) -> Iterator[str]:
    for part in ranges.split(","):
        low, _, high = part.partition("-")
        for number in range(int(low), int(high or low) + 1):
            yield f"{prefix}{number:0{len(low)}d}{suffix}"
