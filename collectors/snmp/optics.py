"""Maps the sensors of ENTITY-SENSOR-MIB to metrics of ports' modules, with their units. Pure.

The MIB does not name the port of a sensor. entAliasMapping does on some devices, for an entity that contains the
sensor; on others only descriptions do: `DOM RX Power Sensor for Ethernet5`, inside `Lane 0 for Xcvr for Ethernet5`.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from collectors.core.columns import CellKey
from collectors.snmp import mib
from collectors.snmp.ber import Column, Value
from collectors.snmp.octet_text import text, whole
from streams.fabric.catalogue import Metric

_VOLTS_AC, _VOLTS_DC, _AMPERES, _WATTS, _CELSIUS, _DBM = 3, 4, 5, 6, 8, 14
_EXPONENT = dict(enumerate((-24, -21, -18, -15, -12, -9, -6, -3, 0, 3, 6, 9, 12, 18, 15, 21, 24), start=1))
"""EntitySensorDataScale, yocto to yotta; RFC 3433 puts exa before peta."""
_UNREAL = 1_000_000_000
"""The value of a sensor past the ends of its scale (EntitySensorValue)."""
_OK = 1
_DEEPEST = 16
_LANE = re.compile(r"\b(?:lane|channel)[ #:]*(\d{1,2})\b", re.IGNORECASE)
_RECEIVE = re.compile(r"\b(?:rx|receive[rd]?|input)\b", re.IGNORECASE)
_TRANSMIT = re.compile(r"\b(?:tx|transmit(?:ter|ted)?|output)\b", re.IGNORECASE)
_BIAS = re.compile(r"\bbias\b|\blaser\b.*\bcurrent\b", re.IGNORECASE)


class Unit(Enum):
    """The conversions from a sensor's unit to the metric's."""

    PLAIN = auto()
    MILLI = auto()
    """From A to mA."""
    MILLIWATTS = auto()
    """From W to dBm."""


@dataclass(frozen=True, slots=True)
class Sensor:
    """One sensor of a port's module: its cell, and the power of ten of its values."""

    row: bytes
    cell: CellKey
    unit: Unit
    exponent: int

    def read(self, value: Value | None, status: Value | None) -> float | None:
        """Return the value; None if there is none, or if the light is too weak for a logarithm."""
        if not isinstance(value, int) or abs(value) >= _UNREAL or (status is not None and status != _OK):
            return None
        if self.unit is Unit.PLAIN:
            return _scaled(value, self.exponent)
        milli = _scaled(value, self.exponent + 3)
        if self.unit is Unit.MILLI:
            return milli
        return 10 * math.log10(milli) if milli > 0 else None


def _scaled(value: int, exponent: int) -> float:
    """Scale by division where that is exact: 509 hundredths are 5.09."""
    return value / 10**-exponent if exponent < 0 else float(value * 10**exponent)


@dataclass(frozen=True, slots=True)
class Entities:
    """ENTITY-MIB: the name and the container of each entity, and the port of some (by entAliasMapping)."""

    name: Mapping[bytes, str]
    parent: Mapping[bytes, bytes]
    port: Mapping[bytes, str]

    def line(self, row: bytes) -> Iterator[bytes]:
        """Yield the entity, its container, the container of that, and so on."""
        seen: set[bytes] = set()
        while row in self.name and row not in seen and len(seen) < _DEEPEST:
            seen.add(row)
            yield row
            row = self.parent.get(row, b"")


class Owners:
    """Finds the port of an entity."""

    def __init__(self, entities: Entities, labels: Mapping[str, str]) -> None:
        """Create it with the names of each port, mapped to the port's name in railsight."""
        self._entities = entities
        self._labels = labels

    def port(self, row: bytes) -> str | None:
        """Return the port by the alias of a container, else by a port name in the entity's name or a container's."""
        line = list(self._entities.line(row))
        for each in line:
            if each in self._entities.port:
                return self._entities.port[each]
        for each in line:
            if (port := self._named(self._entities.name[each])) is not None:
                return port
        return None

    def _named(self, description: str) -> str | None:
        """Return the port that a text names. A number alone is no port name: `Lane 1` is not port 1."""
        found = {
            self._labels[word]
            for word in re.split(r"[\s,;()]+", description)
            if word in self._labels and not word.isdigit()
        }
        return found.pop() if len(found) == 1 else None


def sensors(cells: Mapping[bytes, Column], entities: Entities, owners: Owners) -> tuple[Sensor, ...]:
    """Return the sensors of ports' modules, one for each cell; lanes count from 0."""
    found: dict[CellKey, Sensor] = {}
    for row in cells[mib.SENSOR_TYPE]:
        if (port := owners.port(row)) is None or (sensor := _sensor(cells, entities, row, port)) is None:
            continue
        found.setdefault(sensor.cell, sensor)
    return tuple(_from_zero(list(found.values())))


def _sensor(cells: Mapping[bytes, Column], entities: Entities, row: bytes, port: str) -> Sensor | None:
    kind, scale, precision = (
        whole(cells[column].get(row)) for column in (mib.SENSOR_TYPE, mib.SENSOR_SCALE, mib.SENSOR_PRECISION)
    )
    description = entities.name.get(row, "")
    if (mapped := _metric(kind, text(cells[mib.SENSOR_UNITS].get(row)), description)) is None:
        return None
    metric, unit = mapped
    if scale not in _EXPONENT or precision is None or not -8 <= precision <= 9:
        return None
    lane = -1 if metric in (Metric.MODULE_TEMPERATURE_C, Metric.MODULE_VOLTAGE_V) else _lane(entities, row)
    return Sensor(row, CellKey(port, metric, lane), unit, _EXPONENT[scale] - precision)


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


def _lane(entities: Entities, row: bytes) -> int:
    for each in entities.line(row):
        if description := _LANE.search(entities.name[each]):
            return int(description[1])
    return 0


def _from_zero(found: list[Sensor]) -> Iterator[Sensor]:
    """Renumber lanes from 0: some devices count from 1, recognizable if 1 is a port's lowest lane."""
    lowest: dict[str, int] = {}
    for sensor in found:
        row, lane = sensor.cell.row, sensor.cell.lane
        if lane >= 0:
            lowest[row] = min(lowest.get(row, lane), lane)
    for sensor in found:
        row, metric, lane = sensor.cell
        if lane >= 1 and lowest[row] == 1:
            yield Sensor(sensor.row, CellKey(row, metric, lane - 1), sensor.unit, sensor.exponent)
        else:
            yield sensor
