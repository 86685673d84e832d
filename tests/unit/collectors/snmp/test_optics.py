"""Optics by vendor: whose sensor it is, by lane, in which unit, and what is left out."""

import math
from collections.abc import Mapping
from typing import Any

import pytest

from collectors.core.columns import CellKey
from collectors.snmp import facts, mib, vendor_optics
from collectors.snmp.ber import Column, Value
from collectors.snmp.optics import Mapped, Owners, mapped
from collectors.snmp.port_index import port_index
from collectors.snmp.reading import Composer
from streams.fabric.catalogue import Metric
from tests.fixtures.bridge_records import Rows, rows
from tests.fixtures.snmp_tables import cells, row, switch

WATTS, AMPERES, DBM, CELSIUS = 6, 5, 14, 8
MILLI, UNITS = 8, 9


def optics(names: Mapping[int, str], given: Any, **columns: Mapping[int, Value]) -> tuple[Rows, Mapped]:
    """Return the optical values that these tables of a switch yield, by port, and what is mapped and left out."""
    tables: dict[bytes, Column] = switch(names, **columns)
    tables |= {column: values for column, values in cells(given).items() if values}
    ports = port_index(tables, mib.PHYSICAL, 30, 100)
    entities = facts.entities(tables, ports)
    owners = Owners(entities, ports.labels, {number: ports.name[row] for row, number in ports.index.items()})
    result = mapped(tables, entities, owners, vendor_optics.sensors(tables, owners, ports.name))
    reading = Composer().compose(ports, tables, result.sensors, 5, 6, 1)
    wanted = {sensor.cell.metric for sensor in result.sensors}
    return {
        port: {cell: value for cell, value in values.items() if cell[0] in wanted}
        for port, values in rows(reading).items()
        if any(cell[0] in wanted for cell in values)
    }, result


def sonic(index: int, name: str) -> dict[bytes, dict[int | tuple[int, ...], Value]]:
    """Return a module of four lanes as SONiC's agent describes it: the lane behind the name, and in the index."""
    base = 10**9 + index * 100
    found: dict[bytes, dict[int | tuple[int, ...], Value]] = {
        mib.ENTITY_DESCR: {base: f"QSFP28 for {name}".encode()}, mib.ENTITY_PARENT: {base: 1}, mib.SENSOR_TYPE: {},
        mib.SENSOR_SCALE: {}, mib.SENSOR_PRECISION: {}, mib.SENSOR_VALUE: {}, mib.SENSOR_STATUS: {},
    }  # fmt: skip
    for lane in range(1, 5):
        for sub, kind, text, precision, value in (
            (30, WATTS, "RX Power", 4, 1000 * lane),
            (20, WATTS, "TX Power", 4, 5000),
            (40, AMPERES, "TX Bias", 3, 5800 + lane),
        ):
            entity = base + sub + lane
            found[mib.ENTITY_DESCR][entity] = f"DOM {text} Sensor for {name}/{lane}".encode()
            found[mib.ENTITY_PARENT][entity] = base
            found[mib.SENSOR_TYPE][entity], found[mib.SENSOR_SCALE][entity] = kind, MILLI
            found[mib.SENSOR_PRECISION][entity], found[mib.SENSOR_VALUE][entity] = precision, value
            found[mib.SENSOR_STATUS][entity] = 2 if text == "TX Power" else 1
    return found


@pytest.mark.parametrize(
    ("port", "text"),
    [
        ("Eth56(Port56)", "Eth56(Port56)"),  # Edgecore: the alias
        ("Ethernet52", "Ethernet52"),  # community SONiC: the name
        ("Eth1/53", "Ethernet52"),  # Dell: the name, where IF-MIB has the alias
        ("Eth1/53/1", "Eth1/53/1"),  # a broken-out port, whose name ends as a lane does
    ],
)
def test_each_lane_of_a_module_on_sonic_is_read(port: str, text: str) -> None:
    """The lane is behind the port's name; a sensor whose status is `unavailable` gives none."""
    values, result = optics({53: port, 7: "Eth1/52", 8: "Ethernet5"}, sonic(53, text))
    assert values == {port: {
        **{(Metric.RX_POWER_DBM, lane): pytest.approx(10 * math.log10(0.1 * (lane + 1))) for lane in range(4)},
        **{(Metric.BIAS_MA, lane): pytest.approx(5.801 + lane / 1000) for lane in range(4)},
    }}  # fmt: skip
    assert not result.left_out


def test_a_name_of_sonic_with_another_index_is_no_port() -> None:
    """`Ethernet52` is ifIndex 53; an agent of another vendor with such numbers must not be read as SONiC's."""
    values, result = optics({54: "Eth1/52"}, sonic(54, "Ethernet52"))
    assert values == {}
    assert len(result.left_out["no port"]) == 12
    assert result.left_out["no port"][0] == "DOM RX Power Sensor for Ethernet52/1"


CISCO_NAME = "Ethernet1/15 Lane {} Transceiver {} Sensor"


def test_cisco_entity_sensor_is_read_by_lane() -> None:
    """Nexus 9000's names; a sensor without a name belongs to the entity that it measures."""
    texts = {100: CISCO_NAME.format(1, "Receive Power"), 101: CISCO_NAME.format(2, "Receive Power"),
             102: CISCO_NAME.format(1, "Bias Current"), 103: "Ethernet1/15 Transceiver Temperature Sensor"}  # fmt: skip
    kind, scale, precision, value, status = mib.CISCO_SENSORS
    values, result = optics(
        {15: "Ethernet1/15", 16: "Ethernet1/16"},
        {
            mib.ENTITY_DESCR: {row: text.encode() for row, text in texts.items()} | {200: b"Ethernet1/16"},
            kind: {100: DBM, 101: DBM, 102: AMPERES, 103: CELSIUS, 104: CELSIUS, 105: DBM, 106: 3},
            scale: {100: MILLI, 101: MILLI, 102: 7, 103: UNITS, 104: UNITS, 105: MILLI, 106: MILLI},
            precision: {100: 0, 101: 0, 102: 0, 103: 1, 104: 0, 105: 0, 106: 0},
            value: {100: -2100, 101: -2300, 102: 6710, 103: 331, 104: 40, 105: -1, 106: 3300},
            status: dict.fromkeys(range(100, 107), 1),
            mib.CISCO_MEASURED: {104: 200},
        },
    )
    assert values == {
        "Ethernet1/15": {
            (Metric.RX_POWER_DBM, 0): -2.1, (Metric.RX_POWER_DBM, 1): -2.3, (Metric.BIAS_MA, 0): pytest.approx(6.71),
            (Metric.MODULE_TEMPERATURE_C, -1): 33.1,
        },
        "Ethernet1/16": {(Metric.MODULE_TEMPERATURE_C, -1): 40.0},
    }  # fmt: skip
    assert result.left_out == {"no port": ("entity 105",), "no name": ("entity 106",)}


def test_the_standard_table_is_preferred_to_ciscos() -> None:
    """A Nexus has both, with the same rows."""
    text = CISCO_NAME.format(1, "Receive Power").encode()
    kind, scale, precision, value, status = mib.CISCO_SENSORS
    values, _ = optics(
        {15: "Ethernet1/15"},
        {
            mib.ENTITY_DESCR: {100: text}, mib.SENSOR_TYPE: {100: WATTS}, mib.SENSOR_SCALE: {100: MILLI},
            mib.SENSOR_PRECISION: {100: 0}, mib.SENSOR_VALUE: {100: 10}, mib.SENSOR_STATUS: {100: 1},
            kind: {100: DBM}, scale: {100: UNITS}, precision: {100: 0}, value: {100: -40}, status: {100: 1},
        },
    )  # fmt: skip
    assert values == {"Ethernet1/15": {(Metric.RX_POWER_DBM, 0): pytest.approx(10.0)}}


def test_juniper_dom_is_read_by_lane_and_what_a_module_does_not_measure_is_absent() -> None:
    """A row of each cage: 507 has four lanes, 509 one, 511 a copper cable with a temperature, 513 is empty."""
    lanes: dict[Any, Value] = {(507, lane): -100 - lane for lane in range(4)}
    values, result = optics(
        {507: "et-0/0/0", 509: "et-0/0/1", 511: "et-0/0/2", 513: "et-0/0/3"},
        {
            mib.DOM_RX_POWER: {507: 0, 509: -412, 511: 0, 513: 0},
            mib.DOM_TX_POWER: {507: 0, 509: 0, 511: 0, 513: 0},
            mib.DOM_BIAS: {507: 0, 509: 6120, 511: 0, 513: 0},
            mib.DOM_TEMPERATURE: {507: 41, 509: 0, 511: 24, 513: 0},
            mib.DOM_VOLTAGE: {507: 3300, 509: 3290, 511: 3384, 513: 0},
            mib.DOM_LANE_RX_POWER: lanes | {(511, 0): 0, (513, 0): 0},
            mib.DOM_LANE_TX_POWER: {(507, 0): 55, (511, 0): 0, (513, 0): 0},
            mib.DOM_LANE_BIAS: {(507, lane): 7000 for lane in range(4)} | {(511, 0): 0, (513, 0): 0},
        },
    )
    assert values["et-0/0/0"] == {
        **{(Metric.RX_POWER_DBM, lane): pytest.approx(-1 - lane / 100) for lane in range(4)},
        **{(Metric.BIAS_MA, lane): 7.0 for lane in range(4)},
        (Metric.TX_POWER_DBM, 0): pytest.approx(0.55), (Metric.MODULE_TEMPERATURE_C, -1): 41.0,
        (Metric.MODULE_VOLTAGE_V, -1): 3.3,
    }  # fmt: skip
    assert values["et-0/0/1"] == {
        (Metric.RX_POWER_DBM, 0): -4.12, (Metric.TX_POWER_DBM, 0): 0.0, (Metric.BIAS_MA, 0): 6.12,
        (Metric.MODULE_TEMPERATURE_C, -1): 0.0, (Metric.MODULE_VOLTAGE_V, -1): 3.29,
    }  # fmt: skip
    assert values["et-0/0/2"] == {(Metric.MODULE_TEMPERATURE_C, -1): 24.0, (Metric.MODULE_VOLTAGE_V, -1): 3.384}
    assert "et-0/0/3" not in values and not result.left_out


@pytest.mark.parametrize(
    ("rx", "tx", "expected"),
    [
        (500, 1000, {Metric.RX_POWER_DBM: pytest.approx(-3.0103), Metric.TX_POWER_DBM: pytest.approx(0.0)}),
        (-412, 133, {Metric.RX_POWER_DBM: -4.12, Metric.TX_POWER_DBM: 1.33}),
        (0, 1000, {Metric.TX_POWER_DBM: pytest.approx(0.0)}),
        (-1, -1, {}),
    ],
)
def test_huaweis_power_is_in_uw_or_hundredths_of_dbm(rx: int, tx: int, expected: dict[Metric, float]) -> None:
    """By the MIB in µW; a negative value of either shows that both are in 0.01 dBm; -1 is no value."""
    values, _ = optics(
        {7: "100GE0/0/1"},
        {
            mib.ENTITY_NAME: {60: b"100GE0/0/1"}, mib.HUAWEI_TEMPERATURE: {60: 33}, mib.HUAWEI_RX_POWER: {60: rx},
            mib.HUAWEI_TX_POWER: {60: tx}, mib.HUAWEI_VOLTAGE: {60: 3310}, mib.HUAWEI_BIAS: {60: 5900},
        },
    )  # fmt: skip
    assert values["100GE0/0/1"] == {
        (Metric.MODULE_TEMPERATURE_C, -1): 33.0, (Metric.MODULE_VOLTAGE_V, -1): 3.31, (Metric.BIAS_MA, 0): 5.9,
        **{(metric, 0): value for metric, value in expected.items()},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("single", "lanes"), [(133, b"133.83,98.54,179.26,-80.16"), (134, b"1.34,0.99,1.79,-0.80"), (-1, b"134,99,179,-80")]
)
def test_huaweis_lanes_are_read_from_their_text(single: int, lanes: bytes) -> None:
    """In hundredths of dBm, or in dBm where the first equals the module's single value."""
    values, _ = optics(
        {7: "100GE0/0/1"},
        {
            mib.ENTITY_NAME: {60: b"100GE0/0/1"}, mib.HUAWEI_TEMPERATURE: {60: 33}, mib.HUAWEI_RX_POWER: {60: single},
            mib.HUAWEI_LANE_RX_POWER: {60: lanes}, mib.HUAWEI_LANE_BIAS: {60: b"5.90,5.91,x"},
        },
    )  # fmt: skip
    found = values["100GE0/0/1"]
    assert [found[Metric.RX_POWER_DBM, lane] for lane in range(4)] == pytest.approx([1.34, 0.99, 1.79, -0.8], abs=0.01)
    assert not any(metric is Metric.BIAS_MA for metric, _ in found)


def test_an_empty_cage_of_huawei_has_no_values() -> None:
    """As the S5720 answers for its copper ports."""
    given: Any = {column: {60: -1} for column in mib.HUAWEI_OPTICS[1:5]} | {mib.HUAWEI_TEMPERATURE: {60: -255}}
    assert optics({7: "GigabitEthernet0/0/1"}, given | {mib.ENTITY_NAME: {60: b"GigabitEthernet0/0/1"}})[0] == {}


def test_h3c_is_read_by_port_and_by_channel() -> None:
    """As a Comware switch answers: a copper port has 2147483647 in each column, and channels count from 1."""
    none = 2**31 - 1
    values, _ = optics(
        {54: "HundredGigE1/0/1", 55: "XGE1/0/2", 56: "GE1/0/3"},
        {
            mib.H3C_RX_POWER: {54: -834, 55: -3641, 56: none}, mib.H3C_TX_POWER: {54: -251, 55: -207, 56: none},
            mib.H3C_TEMPERATURE: {54: 33, 56: none}, mib.H3C_VOLTAGE: {54: 331, 56: none}, mib.H3C_BIAS: {55: 608},
            mib.H3C_LANE_RX_POWER: {(54, 1): -812, (54, 2): -856}, mib.H3C_LANE_TX_POWER: {(54, 1): -240},
        },
    )  # fmt: skip
    assert values == {
        "HundredGigE1/0/1": {
            (Metric.RX_POWER_DBM, 0): -8.12, (Metric.RX_POWER_DBM, 1): -8.56, (Metric.TX_POWER_DBM, 0): -2.4,
            (Metric.MODULE_TEMPERATURE_C, -1): 33.0, (Metric.MODULE_VOLTAGE_V, -1): 3.31,
        },
        "XGE1/0/2": {(Metric.RX_POWER_DBM, 0): -36.41, (Metric.TX_POWER_DBM, 0): -2.07, (Metric.BIAS_MA, 0): 6.08},
    }  # fmt: skip


def test_nokias_powers_are_read_by_port() -> None:
    """In 0.1 uW; 0 is no light, or no measurement."""
    values, _ = optics(
        {69369856: "1/1/c1/1"},
        {
            mib.NOKIA_RX_POWER: {(1, 69369856): 6310}, mib.NOKIA_TX_POWER: {(1, 69369856): 0},
            mib.NOKIA_VOLTAGE: {(1, 69369856): 33_050},
        },
    )  # fmt: skip
    found = {(Metric.RX_POWER_DBM, 0): pytest.approx(-2.0, abs=0.01), (Metric.MODULE_VOLTAGE_V, -1): 3.305}
    assert values == {"1/1/c1/1": found}


def test_a_table_of_optics_that_is_not_read_is_named() -> None:
    """With its number of rows, for the log and the metric."""
    given = cells({mib.OCNOS_RX_POWER: {(1, 49, 1): -2003, (1, 50, 1): -100_001}})
    assert vendor_optics.unread(given, 36673) == {
        "not read: IPI-CMM-CHASSIS-MIB cmmTransDDMTable": ("1.49.1", "1.50.1")
    }
    assert vendor_optics.unread(given, 9) == {}


def test_modules_own_limits_become_facts() -> None:
    """Arista's, in the scale of the sensor (W there, dBm here), and Juniper's, in 0.01 dBm."""
    text = b"DOM RX Power Sensor for Ethernet1"
    values, result = optics(
        {1: "Ethernet1"},
        {
            mib.ENTITY_DESCR: {100: text}, mib.SENSOR_TYPE: {100: WATTS}, mib.SENSOR_SCALE: {100: MILLI},
            mib.SENSOR_PRECISION: {100: 4}, mib.SENSOR_VALUE: {100: 5000}, mib.SENSOR_STATUS: {100: 1},
        },
    )  # fmt: skip
    assert values["Ethernet1"].keys() == {(Metric.RX_POWER_DBM, 0)}
    given = cells({
        mib.ARISTA_LIMITS["low_alarm"]: {100: 631}, mib.ARISTA_LIMITS["low_warning"]: {100: 1000},
        mib.ARISTA_LIMITS["high_alarm"]: {100: -1_000_000_000}, mib.DOM_LIMITS["tx_power_low_alarm_dbm"]: {1: -849},
    })  # fmt: skip
    found = vendor_optics.limits(given, result.sensors, {row(1): "Ethernet1"})
    assert found == {"Ethernet1": {
        "rx_power_low_alarm_dbm": pytest.approx(-12.0, abs=0.01), "rx_power_low_warning_dbm": pytest.approx(-10.0),
        "tx_power_low_alarm_dbm": -8.49,
    }}  # fmt: skip


def test_a_port_name_in_literal_quotes_has_none() -> None:
    """Some agents quote their names: the port is 1, and its sensor is found by it."""
    cell = CellKey("Eth1", Metric.RX_POWER_DBM, 0)
    _, result = optics(
        {1: '"Eth1"'},
        {
            mib.ENTITY_DESCR: {100: b"Rx power for Eth1"}, mib.SENSOR_TYPE: {100: DBM}, mib.SENSOR_SCALE: {100: UNITS},
            mib.SENSOR_PRECISION: {100: 1}, mib.SENSOR_VALUE: {100: -21},
        },
    )  # fmt: skip
    assert [sensor.cell for sensor in result.sensors] == [cell]
