"""Selects the ports of a device from its tables: rows, names, and the column of each metric and row. Pure.

Columns are selected when the ports are discovered, and stay until the next discovery: a change from a column that wraps
to a column that does not would look like a burst of traffic.
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
_STATES = {
    Metric.OPER_UP: mib.IF_OPER_STATUS, Metric.ADMIN_UP: mib.IF_ADMIN_STATUS, Metric.SPEED_BPS: mib.IF_HIGH_SPEED,
}  # fmt: skip
"""The columns of ifTable and ifXTable that every port has."""


@dataclass(frozen=True, slots=True)
class PortIndex:
    """The rows that are read, by encoded ifIndex."""

    name: dict[bytes, str]
    index: dict[bytes, int]
    labels: dict[str, str]
    """Every unique name of a port, mapped to the port's name in railsight."""
    chosen: dict[tuple[Metric, Counter], tuple[bytes, ...]]
    """The rows whose metric is in these columns."""
    everything: frozenset[bytes]
    """Every row with a state, also rows that are not read: if it changes, the ports must be discovered again."""
    columns: tuple[bytes, ...]
    """The columns to read at each poll."""
    left_out: dict[str, tuple[str, ...]]
    """The ports whose counters are not read, by reason."""
    expected: dict[bytes, frozenset[bytes]]
    """The rows of each column that had a value when the ports were discovered."""
    missing: dict[str, tuple[str, ...]]
    """The ports without a counter or a state that most ports have, by metric."""


def port_index(
    cells: Mapping[bytes, Column], types: frozenset[int] | None, cadence_s: float, max_ports: int
) -> PortIndex:
    """Select the ports. `types` has the ifTypes that are read, None for all. Raises Reject."""
    index = port_rows(cells, types)
    if len(index) > max_ports:
        raise Reject(f"has {len(index)} ports, more than max_ports = {max_ports}")
    index = dict(sorted(index.items(), key=lambda item: item[1]))
    named = {row: text(value) for row, value in cells[mib.IF_NAME].items()}
    described = {row: text(value) for row, value in cells[mib.IF_DESCR].items()}
    name = port_names(named, described, index)
    chosen, left_out = _choose(cells, index, cadence_s)
    used = {column for _, counter in chosen for column in counter.columns}
    expected = {column: set(cells[column]) for column in mib.STATES if cells[column]}
    for (_, counter), rows in chosen.items():
        for column in counter.columns:
            expected.setdefault(column, set()).update(rows)
    return PortIndex(
        name, index, _labels(name, (named, described)), chosen, frozenset(cells[mib.IF_OPER_STATUS]),
        tuple(c for c in (*mib.STATES, *mib.EVERY_COUNTER) if c in used or (c in mib.STATES and cells[c])),
        {why: tuple(name[row] for row in rows) for why, rows in left_out.items()},
        {column: frozenset(rows) for column, rows in expected.items()},
        _missing(name, chosen, {row for rows in left_out.values() for row in rows}, cells),
    )  # fmt: skip


def port_rows(cells: Mapping[bytes, Column], types: frozenset[int] | None) -> dict[bytes, int]:
    """Return the ifIndex of each row that is a port of these ifTypes."""
    index: dict[bytes, int] = {}
    for row in frozenset(cells[mib.IF_OPER_STATUS]) | frozenset(cells[mib.IF_NAME]):
        numbers = sub_identifiers(row)
        kind = whole(cells[mib.IF_TYPE].get(row))
        if len(numbers) == 1 and (types is None or kind is None or kind in types):
            index[row] = numbers[0]
    return index


def _missing(
    name: Mapping[bytes, str],
    chosen: Mapping[tuple[Metric, Counter], tuple[bytes, ...]],
    left_out: set[bytes],
    cells: Mapping[bytes, Column],
) -> dict[str, tuple[str, ...]]:
    """Return the ports without a counter or a state that most ports have, by metric."""
    found: dict[Metric, set[bytes]] = {metric: set(cells[column]) & set(name) for metric, column in _STATES.items()}
    for (metric, _), rows in chosen.items():
        found.setdefault(metric, set(left_out)).update(rows)
    return {
        metric.name.lower(): tuple(port for row, port in name.items() if row not in rows)
        for metric, rows in found.items()
        if len(name) > len(rows) > len(name) / 2
    }


def _labels(name: Mapping[bytes, str], others: Iterable[Mapping[bytes, str]]) -> dict[str, str]:
    ports_by_label: dict[str, set[str]] = {}
    for names in (name, *others):
        for row, label in names.items():
            if label and row in name:
                ports_by_label.setdefault(label, set()).add(name[row])
    return {label: port for label, ports in ports_by_label.items() if len(ports) == 1 for port in ports}


def _choose(
    cells: Mapping[bytes, Column], index: Mapping[bytes, int], cadence_s: float
) -> tuple[dict[tuple[Metric, Counter], tuple[bytes, ...]], dict[str, list[bytes]]]:
    """Return the rows of each counter, and the rows with counters that cannot be followed, by reason."""
    found: dict[tuple[Metric, Counter], tuple[bytes, ...]] = {}
    left_out: dict[str, list[bytes]] = {}
    for metric, counters in mib.COUNTERS.items():
        remaining = list(index)
        for counter in counters:
            usable = [
                row
                for row in remaining
                if all(row in cells[column] for column in counter.columns)
                and _can_follow(counter, speed_bps(cells, row), cadence_s)
            ]
            if usable:
                found[metric, counter] = tuple(usable)
                followed = set(usable)
                remaining = [row for row in remaining if row not in followed]
        for row in remaining:
            if any(all(row in cells[column] for column in counter.columns) for counter in counters):
                why = "of unknown speed" if speed_bps(cells, row) is None else f"too fast for {cadence_s:g} s"
                left_out.setdefault(f"{metric.name.lower()}: 32-bit counters of ports {why}", []).append(row)
    return found, left_out


def _can_follow(counter: Counter, speed: float | None, cadence_s: float) -> bool:
    """Return True if the counter cannot advance by half its range between two polls, which would look like a reset.

    A port of unknown speed may be fast: 32 bits of octets are 0.3 s at 100 Gb/s.
    """
    if counter.bits == 64 or not counter.bytes_each:
        return True
    return speed is not None and speed / 8 / counter.bytes_each * cadence_s < _HALF


def speed_bps(cells: Mapping[bytes, Column], row: bytes) -> float | None:
    """Return ifHighSpeed in Mb/s unless it is 0, as on many devices; else ifSpeed. Neither at its limit."""
    if (mega := _number(cells.get(mib.IF_HIGH_SPEED, {}).get(row))) not in (None, *_NO_SPEED):
        return float(mega or 0) * 1e6
    plain = _number(cells.get(mib.IF_SPEED, {}).get(row))
    return None if plain is None or plain in _NO_SPEED else float(plain)


def _number(value: Value | None) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None
