"""Expands Slurm's host lists: `h[0-1,07],gpu-a1,r[1-2]n[01-03]`.

Of the libraries for it, ClusterShell is LGPL and reads configuration of the machine, and python-hostlist is GPL.
"""

import re
from itertools import product

from streams.wire.errors import Reject

MAX_HOSTS = 1 << 16

_ITEM = re.compile(r"((?:[^\[\],\s]|\[[0-9,-]+\])+)(?:,|$)")
_PART = re.compile(r"\[([0-9,-]+)\]|([^\[\]]+)")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def expand(hostlist: str) -> tuple[str, ...]:
    """Return the hosts in Slurm's order; raises Reject for a list that is none, or has more than MAX_HOSTS hosts."""
    hosts: list[str] = []
    at = 0
    while at < len(hostlist):
        found = _ITEM.match(hostlist, at)
        if found is None:
            raise Reject(f"host list {hostlist[:80]!r}: not readable at character {at}")
        hosts += _item(found[1], MAX_HOSTS - len(hosts))
        at = found.end()
    return tuple(hosts)


def _item(item: str, room: int) -> list[str]:
    choices = [_numbers(part[1], room) if part[1] else [part[2]] for part in _PART.finditer(item)]
    count = 1
    for choice in choices:
        count *= len(choice)
    if count > room:
        raise Reject(f"host list {item[:80]!r}: more than {MAX_HOSTS} hosts")
    return ["".join(parts) for parts in product(*choices)]


def _numbers(ranges: str, room: int) -> list[str]:
    numbers: list[str] = []
    for one in ranges.split(","):
        found = _RANGE.fullmatch(one)
        if found is None:
            raise Reject(f"host list: {ranges[:80]!r} is no range")
        first, last = int(found[1]), int(found[2] or found[1])
        if not first <= last < first + room:
            raise Reject(f"host list: range {one!r} is reversed, or has more than {MAX_HOSTS} hosts")
        numbers += [str(number).zfill(len(found[1])) for number in range(first, last + 1)]
    return numbers
