"""What a device's tables say of its ports, once: rows, names, and which column tells each metric of each row. Pure.

A column is chosen when the device is looked over and kept until the next time: to change from one that wraps to one
that does not would be a burst that never was.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from collectors.snmp import mib
from collectors.snmp.ber import Column, Value, sub_identifiers
from collectors.snmp.mib import Counter
from collectors.snmp.octet_text import port_names, text, whole
from streams.fabric.catalogue import Metric
from streams.wire.errors import Reject

_HALF = 1 << 31
_NO_SPEED = {0, 2**32 - 1}


@dataclass(frozen=True, slots=True)
class PortIndex:
    """The rows that are read, by ifIndex as it is on the wire."""

    name: dict[bytes, str]
    index: dict[bytes, int]
    labels: dict[str, str]
    """Every name of a port that is no other's, to what it is called here."""
    chosen: dict[tuple[Metric, Counter], tuple[bytes, ...]]
    """The rows of which a metric is told by these columns."""
    everything: frozenset[bytes]
    """Every row that has a state, read or not: where there are others, the device has to be looked over again."""
    columns: tuple[bytes, ...]
    """What has to be read at each poll."""


def port_index(cells: Mapping[bytes, Column], types: frozenset[int] | None, cadence_s: float, most: int) -> PortIndex:
    """Look a device over. `types` are the ifTypes that are read, None for all. Raises Reject."""
    index: dict[bytes, int] = {}
    for row in frozenset(cells[mib.IF_OPER_STATUS]) | frozenset(cells[mib.IF_NAME]):
        numbers = sub_identifiers(row)
        kind = whole(cells[mib.IF_TYPE].get(row))
        if len(numbers) == 1 and (types is None or kind is None or kind in types):
            index[row] = numbers[0]
    if len(index) > most:
        raise Reject(f"has {len(index)} ports, more than {most}")
    index = dict(sorted(index.items(), key=lambda item: item[1]))
    named = {row: text(value) for row, value in cells[mib.IF_NAME].items()}
    described = {row: text(value) for row, value in cells[mib.IF_DESCR].items()}
    name = port_names(named, described, index)
    chosen = _choose(cells, index, cadence_s)
    used = {column for _, counter in chosen for column in counter.columns}
    return PortIndex(
        name, index, _labels(name, (named, described)), chosen, frozenset(cells[mib.IF_OPER_STATUS]),
        tuple(c for c in (*mib.STATES, *mib.EVERY_COUNTER) if c in used or (c in mib.STATES and cells[c])),
    )  # fmt: skip


def _labels(name: Mapping[bytes, str], others: Iterable[Mapping[bytes, str]]) -> dict[str, str]:
    claimed: dict[str, set[str]] = {}
    for names in (name, *others):
        for row, said in names.items():
            if said and row in name:
                claimed.setdefault(said, set()).add(name[row])
    return {said: port for said, whose in claimed.items() if len(whose) == 1 for port in whose}


def _choose(
    cells: Mapping[bytes, Column], index: Mapping[bytes, int], cadence_s: float
) -> dict[tuple[Metric, Counter], tuple[bytes, ...]]:
    found: dict[tuple[Metric, Counter], tuple[bytes, ...]] = {}
    for metric, counters in mib.COUNTERS.items():
        left = list(index)
        for counter in counters:
            mine = [
                row
                for row in left
                if all(row in cells[column] for column in counter.columns)
                and _can_follow(counter, speed_bps(cells, row), cadence_s)
            ]
            if mine:
                found[metric, counter] = tuple(mine)
                left = [row for row in left if row not in set(mine)]
    return found


def _can_follow(counter: Counter, speed: float | None, cadence_s: float) -> bool:
    """Whether it cannot get half around between two polls, which would look like another way around."""
    if counter.bits == 64 or not counter.bytes_each:
        return True
    return speed is None or speed / 8 / counter.bytes_each * cadence_s < _HALF


def speed_bps(cells: Mapping[bytes, Column], row: bytes) -> float | None:
    """By ifHighSpeed in Mb/s, which is 0 on many a device that has a speed, else ifSpeed unless that is at its end."""
    if (mega := _number(cells.get(mib.IF_HIGH_SPEED, {}).get(row))) not in (None, 0):
        return float(mega or 0) * 1e6
    plain = _number(cells.get(mib.IF_SPEED, {}).get(row))
    return None if plain is None or plain in _NO_SPEED else float(plain)


def _number(value: Value | None) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None
