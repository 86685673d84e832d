"""Maps the sensors of a device to metrics of ports' modules, with their units. Pure.

ENTITY-SENSOR-MIB and CISCO-ENTITY-SENSOR-MIB have one sensor a row and do not name its port. On some devices
entAliasMapping does, for an entity that contains the sensor; on others only descriptions do: `DOM RX Power Sensor for
Ethernet5`, inside `Lane 0 for Xcvr for Ethernet5`. The tables of one vendor are in vendor_optics.py.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import NamedTuple

from collectors.core.columns import CellKey
from collectors.snmp import mib
from collectors.snmp.ber import Column, Value, sub_identifiers
from collectors.snmp.octet_text import text, whole
from streams.fabric.catalogue import Metric
from streams.wire.errors import Reject

_VOLTS_AC, _VOLTS_DC, _AMPERES, _WATTS, _CELSIUS, _DBM = 3, 4, 5, 6, 8, 14
_EXPONENT = dict(enumerate((-24, -21, -18, -15, -12, -9, -6, -3, 0, 3, 6, 9, 12, 18, 15, 21, 24), start=1))
"""EntitySensorDataScale, from yocto to yotta; RFC 3433 numbers exa before peta."""
_UNREAL = 1_000_000_000
"""The value of a sensor beyond the ends of its scale (EntitySensorValue)."""
_OK = 1
_DEEPEST = 16
_LANE = re.compile(r"\b(?:lane|channel)[ #:]*(\d{1,2})\b", re.IGNORECASE)
_LANE_SUFFIX = re.compile(r"(.+)/(\d{1,2})")
"""`Eth56(Port56)/2`: SONiC appends the lane to the port's name."""
_RECEIVE = re.compile(r"\b(?:rx|receive[rd]?|input)\b", re.IGNORECASE)
_TRANSMIT = re.compile(r"\b(?:tx|transmit(?:ter|ted)?|output)\b", re.IGNORECASE)
_BIAS = re.compile(r"\bbias\b|\blaser\b.*\bcurrent\b", re.IGNORECASE)
_SONIC_PORT = re.compile(r"\bEthernet(\d+)(?:/\d{1,2})?(?=\s|$)")
_SONIC_ENTITY = re.compile(r"1(\d{7})\d{2}")
"""entPhysicalIndex of a port's entities on SONiC: 1, seven digits of the ifIndex, the kind of sensor, the lane
(sonic-snmpagent, physical_entity_sub_oid_generator.py). `Ethernet52` always has ifIndex 53."""


class Unit(Enum):
    """The conversions from a sensor's unit to the metric's."""

    PLAIN = auto()
    MILLI = auto()
    """Converts A to mA."""
    MILLIWATTS = auto()
    """Converts W to dBm."""
    HUAWEI_POWER = auto()
    """Converts µW to dBm, or 0.01 dBm if the value or `guard` is negative."""


@dataclass(frozen=True, slots=True)
class Sensor:
    """One sensor of a port's module: its cell, its column and the power of ten of its values.

    `status` is the column that must be OK, empty for none. `guard` is a column: a value of 0 is absent if that cell is
    also 0, because some agents answer 0 for values that a module does not measure. `item` is the sensor's place in a
    text of several values. Only values above `above` are real.
    """

    row: bytes
    cell: CellKey
    unit: Unit
    exponent: int
    column: bytes = mib.SENSOR_VALUE
    status: bytes = mib.SENSOR_STATUS
    guard: bytes = b""
    item: int = -1
    above: int = -_UNREAL

    @property
    def columns(self) -> tuple[bytes, ...]:
        """The columns that are read at each poll."""
        return tuple(column for column in (self.column, self.status, self.guard) if column)

    def value(self, cells: Mapping[bytes, Column]) -> float | None:
        """Return its value in these cells; None if it is missing, or if the light is too weak for a logarithm."""
        guard = cells.get(self.guard, {}).get(self.row)
        value = cells.get(self.column, {}).get(self.row)
        if self.item >= 0:
            return _listed(text(value), self.item, self.exponent, whole(guard))
        if value == 0 and self.guard and self.unit is not Unit.HUAWEI_POWER and guard in (None, 0):
            return None
        return self.read(value, cells.get(self.status, {}).get(self.row), guard)

    def read(self, value: Value | None, status: Value | None, guard: Value | None = None) -> float | None:
        """Convert a value."""
        if not isinstance(value, int) or not self.above < value < _UNREAL or (status is not None and status != _OK):
            return None
        match self.unit:
            case Unit.PLAIN:
                return _scaled(value, self.exponent)
            case Unit.MILLI:
                return _scaled(value, self.exponent + 3)
            case Unit.MILLIWATTS:
                return _dbm(_scaled(value, self.exponent + 3))
            case Unit.HUAWEI_POWER:
                if value == -1:
                    return None  # the sensor has no value
                is_dbm = value < 0 or (isinstance(guard, int) and guard < -1)
                return _scaled(value, -2) if is_dbm else _dbm(_scaled(value, -3))


def _dbm(milliwatts: float) -> float | None:
    return 10 * math.log10(milliwatts) if milliwatts > 0 else None


def _listed(value: str, item: int, exponent: int, single: int | None) -> float | None:
    """Return one value of a text, in units of 10^exponent.

    Huawei writes lanes in hundredths, and on some devices in whole units: a device uses whole units if the first lane
    equals the module's single value, which is in hundredths.
    """
    parts = value.split(",")
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        return None
    if item >= len(numbers) or not all(map(math.isfinite, numbers)):
        return None
    if exponent and single not in (None, -1) and abs((single or 0) / 100 - numbers[0]) < 0.01:
        exponent = 0
    return _scaled(numbers[item], exponent)


def _scaled(value: float, exponent: int) -> float:
    """Return value × 10^exponent, by division where that is exact: 509 hundredths are 5.09."""
    return value / 10**-exponent if exponent < 0 else float(value * 10**exponent)


@dataclass(frozen=True, slots=True)
class Entities:
    """The entities of ENTITY-MIB: the name and the container of each, and the port of some (by entAliasMapping)."""

    name: Mapping[bytes, str]
    parent: Mapping[bytes, bytes]
    port: Mapping[bytes, str]

    def line(self, row: bytes) -> Iterator[bytes]:
        """Yield the entity, its container, that container's container, and so on."""
        seen: set[bytes] = set()
        while row in self.name and row not in seen and len(seen) < _DEEPEST:
            seen.add(row)
            yield row
            row = self.parent.get(row, b"")


class Owners:
    """Finds the port of an entity."""

    def __init__(self, entities: Entities, labels: Mapping[str, str], index: Mapping[int, str] | None = None) -> None:
        """Create it with the names of each port, mapped to the port's name in railsight, and the ports by ifIndex."""
        self._entities = entities
        self._labels = labels
        self._index = index or {}
        self._found: dict[str, tuple[str | None, int | None]] = {}
        self._ports: dict[bytes, str | None] = {}

    def port(self, row: bytes) -> str | None:
        """Return the port by the alias of a container, else by a port name in the entity's name or a container's."""
        if row not in self._ports:
            self._ports[row] = self._port(row)
        return self._ports[row]

    def _port(self, row: bytes) -> str | None:
        line = list(self._entities.line(row))
        for each in line:
            if each in self._entities.port:
                return self._entities.port[each]
        for each in line:
            if (port := self._named(self._entities.name[each])[0]) is not None:
                return port
        return self._by_sonic_index(row)

    def lane(self, row: bytes) -> int | None:
        """Return the lane that an entity's name has after the port's name; None if there is none."""
        name = self._entities.name.get(row, "")
        lane = self._named(name)[1]
        if lane is None and self._by_sonic_index(row) is not None:
            found = re.search(r"/(\d{1,2})(?=\s|$)", name)
            lane = int(found[1]) if found else None
        return lane

    def _named(self, description: str) -> tuple[str | None, int | None]:
        """Return the port that a text names, and the lane after it.

        A number alone is no port name: `Lane 1` is not port 1.
        """
        if description not in self._found:
            self._found[description] = self._search(description)
        return self._found[description]

    def _search(self, description: str) -> tuple[str | None, int | None]:
        whole_words = re.split(r"[\s,;]+", description)
        for words in (whole_words, re.split(r"[\s,;()]+", description)):
            found = {self._labels[word] for word in words if word in self._labels and not word.isdigit()}
            if found:
                return (found.pop() if len(found) == 1 else None), None
        split = (match for word in whole_words if (match := _LANE_SUFFIX.fullmatch(word)))
        lanes = {(self._labels[m[1]], int(m[2])) for m in split if m[1] in self._labels and not m[1].isdigit()}
        return lanes.pop() if len(lanes) == 1 else (None, None)

    def _by_sonic_index(self, row: bytes) -> str | None:
        """Return the port of a SONiC entity whose names differ from IF-MIB's, if index and name agree."""
        try:
            (number,) = sub_identifiers(row)
        except (Reject, ValueError):
            return None
        index, named = _SONIC_ENTITY.fullmatch(str(number)), _SONIC_PORT.search(self._entities.name.get(row, ""))
        if index is None or named is None or int(index[1]) != int(named[1]) + 1:
            return None
        return self._index.get(int(index[1]))


@dataclass(frozen=True, slots=True)
class Mapped:
    """The sensors of ports' modules; `left_out` has the names of sensors that may belong to a port, by reason."""

    sensors: tuple[Sensor, ...]
    left_out: Mapping[str, tuple[str, ...]]

    @property
    def rows(self) -> frozenset[tuple[bytes, bytes]]:
        """The column and row of each sensor."""
        return frozenset((sensor.column, sensor.row) for sensor in self.sensors)


class _Table(NamedTuple):
    """The columns of one table of sensors."""

    kind: bytes
    scale: bytes
    precision: bytes
    value: bytes
    status: bytes
    units: bytes = b""
    measured: bytes = b""


_TABLES = (
    _Table(
        mib.SENSOR_TYPE, mib.SENSOR_SCALE, mib.SENSOR_PRECISION, mib.SENSOR_VALUE, mib.SENSOR_STATUS, mib.SENSOR_UNITS
    ),
    _Table(
        mib.CISCO_TYPE, mib.CISCO_SCALE, mib.CISCO_PRECISION, mib.CISCO_VALUE, mib.CISCO_STATUS,
        measured=mib.CISCO_MEASURED,
    ),
)  # fmt: skip


def mapped(cells: Mapping[bytes, Column], entities: Entities, owners: Owners, vendors: Iterable[Sensor] = ()) -> Mapped:
    """Return the sensors of ports' modules, one for each cell; lanes count from 0.

    A vendor's own sensors (`vendors`) are used if the standard table has none for the cell.
    """
    found: dict[CellKey, Sensor] = {}
    left_out: dict[str, list[str]] = {}
    for table in _TABLES:
        own: dict[CellKey, Sensor] = {}
        for row in cells.get(table.kind, {}):
            port = owners.port(row) or _measured_port(cells, table, row, owners)
            sensor, metric = _sensor(cells, table, entities, row, port or "", owners)
            if port is not None and sensor is not None:
                own.setdefault(sensor.cell, sensor)
            elif metric is not None and (port is not None or _is_light(metric, entities.name.get(row, ""))):
                reason = "no port" if port is None else "unknown scale"
                left_out.setdefault(reason, []).append(entities.name.get(row, "") or f"entity {_number(row)}")
            elif port is None and row not in entities.name:
                left_out.setdefault("no name", []).append(f"entity {_number(row)}")
        for sensor in _from_zero(list(own.values())):
            found.setdefault(sensor.cell, sensor)
    for sensor in vendors:
        found.setdefault(sensor.cell, sensor)
    return Mapped(tuple(found.values()), {reason: tuple(names) for reason, names in left_out.items()})


def _is_light(metric: Metric, description: str) -> bool:
    """Return True for values that only a module has; a chassis also has temperatures, and a power supply a current."""
    is_bias = metric is Metric.BIAS_MA and _BIAS.search(description) is not None
    return is_bias or metric in (Metric.RX_POWER_DBM, Metric.TX_POWER_DBM)


def _number(row: bytes) -> str:
    try:
        return ".".join(map(str, sub_identifiers(row)))
    except Reject:
        return row.hex()


def _measured_port(cells: Mapping[bytes, Column], table: _Table, row: bytes, owners: Owners) -> str | None:
    measured = whole(cells.get(table.measured, {}).get(row)) if table.measured else None
    return owners.port(entity_row(measured)) if measured else None


def entity_row(number: int | None) -> bytes:
    """Encode a number as the end of an OID; empty if there is none."""
    return mib.oid(f"0.0.{number}")[1:] if number is not None and number > 0 else b""


def _sensor(
    cells: Mapping[bytes, Column], table: _Table, entities: Entities, row: bytes, port: str, owners: Owners
) -> tuple[Sensor | None, Metric | None]:
    """Return the sensor, None if its scale is unknown; and its metric, None if it has none."""
    kind, scale, precision = (
        whole(cells.get(column, {}).get(row)) for column in (table.kind, table.scale, table.precision)
    )
    units = text(cells.get(table.units, {}).get(row)) if table.units else ""
    found = _metric(kind, units, entities.name.get(row, ""))
    if found is None:
        return None, Metric.RX_POWER_DBM if kind == _DBM else None
    metric, unit = found
    if scale not in _EXPONENT or precision is None or not -8 <= precision <= 9:
        return None, metric
    lane = -1 if metric in (Metric.MODULE_TEMPERATURE_C, Metric.MODULE_VOLTAGE_V) else _lane(entities, row, owners)
    exponent = _EXPONENT[scale] - precision
    return Sensor(row, CellKey(port, metric, lane), unit, exponent, table.value, table.status), metric


def _metric(kind: int | None, units: str, text: str) -> tuple[Metric, Unit] | None:
    if kind == _CELSIUS:
        return Metric.MODULE_TEMPERATURE_C, Unit.PLAIN
    if kind in (_VOLTS_AC, _VOLTS_DC):
        return Metric.MODULE_VOLTAGE_V, Unit.PLAIN
    if kind == _AMPERES:
        return (Metric.BIAS_MA, Unit.MILLI) if _BIAS.search(text) or _TRANSMIT.search(text) else None
    is_dbm = kind == _DBM or "dbm" in units.lower()
    if kind != _WATTS and not is_dbm:
        return None
    unit = Unit.PLAIN if is_dbm else Unit.MILLIWATTS
    receives, transmits = bool(_RECEIVE.search(text)), bool(_TRANSMIT.search(text))
    if receives == transmits:
        return None
    return (Metric.RX_POWER_DBM if receives else Metric.TX_POWER_DBM), unit


def _lane(entities: Entities, row: bytes, owners: Owners) -> int:
    for each in entities.line(row):
        if description := _LANE.search(entities.name[each]):
            return int(description[1])
    return owners.lane(row) or 0


def _from_zero(found: list[Sensor]) -> Iterator[Sensor]:
    """Renumber lanes from 0: a device counts from 1 if 1 is a port's lowest lane."""
    lowest: dict[str, int] = {}
    for sensor in found:
        row, lane = sensor.cell.row, sensor.cell.lane
        if lane >= 0:
            lowest[row] = min(lowest.get(row, lane), lane)
    for sensor in found:
        row, metric, lane = sensor.cell
        if lane >= 1 and lowest[row] == 1:
            yield replace(sensor, cell=CellKey(row, metric, lane - 1))
        else:
            yield sensor
