"""Maps vendors' own tables of modules to sensors, and modules' limits to facts. Pure.

Juniper (JUNIPER-DOM-MIB): rows by ifIndex, and by ifIndex and lane; powers in 0.01 dBm, bias in µA, voltage in mV. Each
cage has a row, with 0 for values that a module does not measure, and all 0 for an empty cage or a copper cable.
Huawei (HUAWEI-ENTITY-EXTENT-MIB): rows by entity; powers in µW by the MIB, in 0.01 dBm on newer devices; lanes as a
text of several values; -1 and -255 are absent.
H3C and HPE Comware (HH3C-TRANSCEIVER-INFO-MIB): rows by ifIndex, and by ifIndex and channel from 1; powers in 0.01 dBm,
bias in 0.01 mA, voltage in 0.01 V; 2147483647 is absent.
Nokia SR OS (TIMETRA-PORT-MIB): rows by chassis and port, which is the ifIndex; powers in 0.1 µW, voltage in 0.1 mV, and
0 for values that a module does not measure. Its bias and temperature are in 2 µA and 1/256 °C.
"""

from collections.abc import Iterator, Mapping

from collectors.core.columns import CellKey
from collectors.snmp import mib
from collectors.snmp.ber import Column, sub_identifiers
from collectors.snmp.octet_text import text, whole
from collectors.snmp.optics import Owners, Sensor, Unit
from streams.fabric.catalogue import Metric
from streams.wire.errors import Reject

_JUNIPER, _HUAWEI, _CISCO, _ARISTA, _H3C, _HPE, _NOKIA, _OCNOS = 2636, 2011, 9, 30065, 25506, 11, 6527, 36673
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

_H3C_PORTS = (
    (mib.H3C_TEMPERATURE, Metric.MODULE_TEMPERATURE_C, 0, -1),
    (mib.H3C_VOLTAGE, Metric.MODULE_VOLTAGE_V, -2, -1),
    (mib.H3C_RX_POWER, Metric.RX_POWER_DBM, -2, 0),
    (mib.H3C_TX_POWER, Metric.TX_POWER_DBM, -2, 0),
    (mib.H3C_BIAS, Metric.BIAS_MA, -2, 0),
)
"""Each column with its metric, its unit's exponent and its lane."""
_H3C_LANES = ((mib.H3C_LANE_RX_POWER, Metric.RX_POWER_DBM), (mib.H3C_LANE_TX_POWER, Metric.TX_POWER_DBM))
_H3C_TABLES = (*(column for column, *_ in _H3C_PORTS), *(column for column, _ in _H3C_LANES))

UNREAD: dict[int, dict[bytes, str]] = {
    _OCNOS: {mib.OCNOS_RX_POWER: "IPI-CMM-CHASSIS-MIB cmmTransDDMTable"},
    _JUNIPER: {mib.JUNIPER_OTN_BER: "JNX-OPT-IF-EXT-MIB jnxoptIfOTNPMFECCurrentTable"},
}
"""A column of each table of optics that is known and not read, by vendor."""

TABLES: dict[int, tuple[bytes, ...]] = {
    _H3C: _H3C_TABLES,
    _HPE: _H3C_TABLES,
    _NOKIA: (mib.NOKIA_RX_POWER, mib.NOKIA_TX_POWER, mib.NOKIA_VOLTAGE),
    _OCNOS: tuple(UNREAD[_OCNOS]),
    _JUNIPER: (
        *UNREAD[_JUNIPER],
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
    yield from _h3c(cells, ports)
    yield from _nokia(cells, ports)


def unread(cells: Mapping[bytes, Column], vendor: int | None) -> dict[str, tuple[str, ...]]:
    """Return the rows of a vendor's tables of optics that are not read, by a reason that names the table."""
    found = {f"not read: {name}": cells.get(column, {}) for column, name in UNREAD.get(vendor or 0, {}).items()}
    return {why: tuple(".".join(map(str, sub_identifiers(row))) for row in rows) for why, rows in found.items() if rows}


def _h3c(cells: Mapping[bytes, Column], ports: Mapping[bytes, str]) -> Iterator[Sensor]:
    with_lanes: set[str] = set()
    for column, metric in _H3C_LANES:
        for row in cells.get(column, {}):
            port, lane = _port_and_lane(row, ports)
            if port and 1 <= lane <= _MOST_LANES:
                with_lanes.add(port)
                yield Sensor(row, CellKey(port, metric, lane - 1), Unit.PLAIN, -2, column, b"")
    for column, metric, exponent, lane in _H3C_PORTS:
        for row in cells.get(column, {}):
            if (port_ := ports.get(row)) is not None and (lane < 0 or port_ not in with_lanes):
                yield Sensor(row, CellKey(port_, metric, lane), Unit.PLAIN, exponent, column, b"")


def _nokia(cells: Mapping[bytes, Column], ports: Mapping[bytes, str]) -> Iterator[Sensor]:
    for column, metric, unit, exponent, lane in (
        (mib.NOKIA_RX_POWER, Metric.RX_POWER_DBM, Unit.MILLIWATTS, -7, 0),
        (mib.NOKIA_TX_POWER, Metric.TX_POWER_DBM, Unit.MILLIWATTS, -7, 0),
        (mib.NOKIA_VOLTAGE, Metric.MODULE_VOLTAGE_V, Unit.PLAIN, -4, -1),
    ):
        for row in cells.get(column, {}):
            if (port := ports.get(row[1:])) is not None:  # a chassis has a number below 128: one byte
                yield Sensor(row, CellKey(port, metric, lane), unit, exponent, column, b"", above=0)


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
