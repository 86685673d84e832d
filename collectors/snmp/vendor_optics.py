"""Maps vendors' own tables of modules to sensors, and modules' limits to facts. Pure.

Juniper (JUNIPER-DOM-MIB): rows by ifIndex, and by ifIndex and lane; powers in 0.01 dBm, bias in µA, voltage in mV. Each
cage has a row, with 0 for values that a module does not measure, and all 0 for an empty cage or a copper cable.
Huawei (HUAWEI-ENTITY-EXTENT-MIB): rows by entity; powers in µW by the MIB, in 0.01 dBm on newer devices; lanes as a
text of several values; -1 and -255 are absent.
"""

from collections.abc import Iterator, Mapping

from collectors.core.columns import CellKey
from collectors.snmp import mib
from collectors.snmp.ber import Column, sub_identifiers
from collectors.snmp.octet_text import text, whole
from collectors.snmp.optics import Owners, Sensor, Unit
from streams.fabric.catalogue import Metric
from streams.wire.errors import Reject

_JUNIPER, _HUAWEI, _CISCO, _ARISTA = 2636, 2011, 9, 30065
_DOM_PORTS = (
    (mib.DOM_TEMPERATURE, Metric.MODULE_TEMPERATURE_C, 0),
    (mib.DOM_VOLTAGE, Metric.MODULE_VOLTAGE_V, -3),
)
_DOM_ONE_LANE = (
    (mib.DOM_RX_POWER, Metric.RX_POWER_DBM, -2),
    (mib.DOM_TX_POWER, Metric.TX_POWER_DBM, -2),
    (mib.DOM_BIAS, Metric.BIAS_MA, -3),
)
_DOM_LANES = (
    (mib.DOM_LANE_RX_POWER, Metric.RX_POWER_DBM, -2),
    (mib.DOM_LANE_TX_POWER, Metric.TX_POWER_DBM, -2),
    (mib.DOM_LANE_BIAS, Metric.BIAS_MA, -3),
)
"""Each column with its metric and its unit's exponent."""
_MOST_LANES = 16

TABLES: dict[int, tuple[bytes, ...]] = {
    _JUNIPER: (
        *dict.fromkeys(column for table in (_DOM_PORTS, _DOM_ONE_LANE, _DOM_LANES) for column, *_ in table),
        *mib.DOM_LIMITS.values(),
    ),
    _HUAWEI: mib.HUAWEI_OPTICS,
    _CISCO: (*mib.CISCO_SENSORS, mib.CISCO_MEASURED),
    _ARISTA: tuple(mib.ARISTA_LIMITS.values()),
}
"""The columns to read with the facts, by the vendor's enterprise number in sysObjectID."""
EVERY_COLUMN = tuple(dict.fromkeys(column for columns in TABLES.values() for column in columns))


def sensors(cells: Mapping[bytes, Column], owners: Owners, ports: Mapping[bytes, str]) -> Iterator[Sensor]:
    """Yield the sensors of the vendors' tables; `ports` has the ports by encoded ifIndex."""
    yield from _juniper(cells, ports)
    yield from _huawei(cells, owners)


def _juniper(cells: Mapping[bytes, Column], ports: Mapping[bytes, str]) -> Iterator[Sensor]:
    def sensor(row: bytes, port: str, lane: int, dom: tuple[bytes, Metric, int], guard: bytes) -> Sensor:
        column, metric, exponent = dom
        return Sensor(row, CellKey(port, metric, lane), Unit.PLAIN, exponent, column, b"", guard)

    with_lanes: set[str] = set()
    for dom in _DOM_LANES:
        for row in cells.get(dom[0], {}):
            owner, lane = _port_and_lane(row, ports)
            if owner and 0 <= lane < _MOST_LANES:
                with_lanes.add(owner)
                yield sensor(row, owner, lane, dom, mib.DOM_LANE_BIAS)
    for table, lane, guard in ((_DOM_ONE_LANE, 0, mib.DOM_BIAS), (_DOM_PORTS, -1, mib.DOM_VOLTAGE)):
        for dom in table:
            for row in cells.get(dom[0], {}):
                if (port := ports.get(row)) is not None and (lane < 0 or port not in with_lanes):
                    yield sensor(row, port, lane, dom, guard)


def _port_and_lane(row: bytes, ports: Mapping[bytes, str]) -> tuple[str, int]:
    """Return the port of the first number of a row, an ifIndex, and the second number."""
    size = next((at + 1 for at, byte in enumerate(row) if byte < 128), 0)
    port = ports.get(row[:size])
    try:
        (lane,) = sub_identifiers(row[size:])
    except (Reject, ValueError):
        return "", -1
    return (port, lane) if port is not None else ("", -1)


def _huawei(cells: Mapping[bytes, Column], owners: Owners) -> Iterator[Sensor]:
    plain = (
        (mib.HUAWEI_TEMPERATURE, Metric.MODULE_TEMPERATURE_C, 0, -255),
        (mib.HUAWEI_VOLTAGE, Metric.MODULE_VOLTAGE_V, -3, 0),
    )
    lanes = (
        (mib.HUAWEI_LANE_RX_POWER, Metric.RX_POWER_DBM, -2, mib.HUAWEI_RX_POWER),
        (mib.HUAWEI_LANE_TX_POWER, Metric.TX_POWER_DBM, -2, mib.HUAWEI_TX_POWER),
        (mib.HUAWEI_LANE_BIAS, Metric.BIAS_MA, 0, mib.HUAWEI_BIAS),
    )
    powers = (
        (mib.HUAWEI_RX_POWER, Metric.RX_POWER_DBM, mib.HUAWEI_TX_POWER),
        (mib.HUAWEI_TX_POWER, Metric.TX_POWER_DBM, mib.HUAWEI_RX_POWER),
    )
    for row in cells.get(mib.HUAWEI_TEMPERATURE, {}):
        if (port := owners.port(row)) is None:
            continue
        for column, metric, exponent, above in plain:
            yield Sensor(row, CellKey(port, metric), Unit.PLAIN, exponent, column, b"", above=above)
        for column, metric, exponent, guard in lanes:
            count = len(text(cells.get(column, {}).get(row)).split(",")) if text(cells.get(column, {}).get(row)) else 0
            for lane in range(min(count, _MOST_LANES)):
                yield Sensor(row, CellKey(port, metric, lane), Unit.PLAIN, exponent, column, b"", guard, item=lane)
        for column, metric, guard in powers:
            yield Sensor(row, CellKey(port, metric, 0), Unit.HUAWEI_POWER, 0, column, b"", guard)
        yield Sensor(row, CellKey(port, Metric.BIAS_MA, 0), Unit.PLAIN, -3, mib.HUAWEI_BIAS, b"", above=-1)


def limits(
    cells: Mapping[bytes, Column], sensors: tuple[Sensor, ...], ports: Mapping[bytes, str]
) -> dict[str, dict[str, float]]:
    """Return modules' own limits by port, in the metric's unit: `rx_power_low_alarm_dbm`; the first lane's limits."""
    found: dict[str, dict[str, float]] = {}
    for name, column in mib.DOM_LIMITS.items():
        for row, value in cells.get(column, {}).items():
            if (port := ports.get(row)) is not None and (number := whole(value)):
                found.setdefault(port, {})[name] = number / 100
    for sensor in sensors:
        if sensor.column != mib.SENSOR_VALUE or sensor.cell.lane > 0:
            continue
        stem, _, unit = sensor.cell.metric.name.lower().rpartition("_")
        for kind, column in mib.ARISTA_LIMITS.items():
            limit = sensor.read(cells.get(column, {}).get(sensor.row), None)
            if limit is not None:
                found.setdefault(sensor.cell.row, {})[f"{stem}_{kind}_{unit}"] = limit
    return found


def enterprise(object_id: object) -> int | None:
    """Return the vendor's enterprise number in a sysObjectID; None if it has none."""
    prefix = mib.oid("1.3.6.1.4.1")
    if not isinstance(object_id, bytes) or not object_id.startswith(prefix):
        return None
    try:
        return sub_identifiers(object_id[len(prefix) :])[0]
    except (Reject, IndexError):
        return None
