"""Owners of sensors, LLDP neighbors, traps, and invalid settings."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from collectors.core.columns import CellKey
from collectors.snmp import facts, mib
from collectors.snmp.ber import Column, Value
from collectors.snmp.optics import Owners, Sensor, mapped
from collectors.snmp.params import Params, Target
from collectors.snmp.port_index import port_index
from collectors.snmp.traps import Notification, notification
from streams.fabric.catalogue import Metric
from streams.wire.errors import Misconfigured
from streams.wire.models import EventKind, Neighbor
from tests.fixtures.snmp_tables import cells, row, switch

NAMES = {1: "Ethernet1/1", 2: "Ethernet1/2", 3: "3"}
MILLI, UNITS = 8, 9


def found(entities: dict[bytes, dict[int | tuple[int, ...], Value]]) -> dict[CellKey, Sensor]:
    """Return the sensors in these tables of a switch."""
    tables: dict[bytes, Column] = switch(NAMES)
    tables |= {column: values for column, values in cells(entities).items() if values}
    known = port_index(tables, mib.PHYSICAL, 30, 100)
    owners = Owners(facts.entities(tables, known), known.labels)
    return {sensor.cell: sensor for sensor in mapped(tables, facts.entities(tables, known), owners).sensors}


def sensor(kind: int, text: bytes, scale: int = MILLI, precision: int = 1, units: bytes = b"") -> dict[
    bytes, dict[int | tuple[int, ...], Value]
]:  # fmt: skip
    """One sensor, entity 9, inside 8 inside 7."""
    return {
        mib.ENTITY_DESCR: {9: text, 8: b"Transceiver", 7: b"Slot"},
        mib.ENTITY_PARENT: {9: 8, 8: 7, 7: 7},
        mib.SENSOR_TYPE: {9: kind},
        mib.SENSOR_SCALE: {9: scale},
        mib.SENSOR_PRECISION: {9: precision},
        mib.SENSOR_UNITS: {9: units},
        mib.SENSOR_VALUE: {9: 100},
    }


def test_lanes_that_are_counted_from_one_are_renumbered_from_zero() -> None:
    """`Ethernet1/1 Lane 2 Transceiver Receive Power` is lane 1 if there is a lane 1 and no lane 0."""
    tables = sensor(14, b"Ethernet1/1 Lane 1 Transceiver Receive Power Sensor")
    for column, value in ((mib.ENTITY_DESCR, b"Ethernet1/1 Lane 2 Transceiver Receive Power Sensor"),
                          (mib.SENSOR_TYPE, 14), (mib.SENSOR_SCALE, UNITS), (mib.SENSOR_PRECISION, 2)):  # fmt: skip
        tables[column][10] = value
    assert set(found(tables)) == {CellKey("Ethernet1/1", Metric.RX_POWER_DBM, lane) for lane in (0, 1)}


def test_the_alias_of_a_container_identifies_the_owner_of_a_sensor() -> None:
    """It overrides the sensor's description."""
    tables = sensor(8, b"Module temperature", UNITS)
    tables[mib.ENTITY_ALIAS] = {(7, 0): mib.IF_INDEX + row(2)}
    assert set(found(tables)) == {CellKey("Ethernet1/2", Metric.MODULE_TEMPERATURE_C)}


@pytest.mark.parametrize(
    "text",
    [b"Chassis temperature", b"Lane 3 temperature", b"Ethernet1/1 and Ethernet1/2", b"DOM RX TX Power for Ethernet1/1"],
)
def test_a_sensor_without_an_owner_or_with_two_is_left_out(text: bytes) -> None:
    """A number alone names no port; a power that is neither received nor transmitted has no metric."""
    kind = 6 if b"Power" in text else 8
    assert not found(sensor(kind, text))


@pytest.mark.parametrize(
    ("kind", "text", "scale", "precision", "value", "expected"),
    [
        (5, b"TX Bias for Ethernet1/1", MILLI, 2, 509, 5.09),
        (6, b"Tx Power Ethernet1/1", MILLI, 4, 10_000, 0.0),
        (6, b"Rx Power Ethernet1/1", MILLI, 4, 0, None),
        (14, b"Rx Power Ethernet1/1", UNITS, 2, -4000, -40.0),
        (8, b"Ethernet1/1 temperature", UNITS, 1, 229, 22.9),
        (8, b"Ethernet1/1 temperature", UNITS, 1, 1_000_000_000, None),
        (4, b"Ethernet1/1 supply", MILLI, 0, 3300, 3.3),
    ],
)
def test_sensors_are_converted_to_the_units_of_the_metrics(
    kind: int, text: bytes, scale: int, precision: int, value: int, expected: float | None
) -> None:
    """Zero light has no logarithm, and a value past the scale is absent."""
    (one,) = found(sensor(kind, text, scale, precision)).values()
    assert one.read(value, 1) == (None if expected is None else pytest.approx(expected))
    assert one.read(value, 2) is None and one.read(None, 1) is None and one.read(b"", 1) is None


def test_a_neighbors_port_is_the_advertised_one_and_the_local_port_is_found_in_the_lldp_table() -> None:
    """By name, by a number that is the ifIndex, and by the table's number alone; a MAC is formatted as one."""
    tables = switch(NAMES)
    tables |= {column: values for column, values in cells({
        mib.LLDP_LOCAL_KIND: {71: 5, 2: 7},
        mib.LLDP_LOCAL_ID: {71: b"Ethernet1/1", 2: b"2"},
        mib.LLDP_PORT_KIND: {(0, 71, 1): 5, (0, 2, 1): 3, (0, 3, 1): 5, (0, 99, 1): 5, (5,): 5},
        mib.LLDP_PORT: {(0, 71, 1): b"swp1", (0, 2, 1): b"\x02\0\0\0\0\x07", (0, 3, 1): b"e9", (0, 99, 1): b"e9"},
        mib.LLDP_NAME: {(0, 71, 1): b"spine1", (0, 2, 1): b"host1", (0, 99, 1): b"nobody"},
        mib.LLDP_CHASSIS_KIND: {(0, 3, 1): 4},
        mib.LLDP_CHASSIS: {(0, 3, 1): b"\x02\0\0\0\0\x09"},
    }).items() if values}  # fmt: skip
    assert facts.neighbors(tables, port_index(tables, mib.PHYSICAL, 30, 100)) == (
        Neighbor("3", "02:00:00:00:00:09", "e9"),
        Neighbor("Ethernet1/1", "spine1", "swp1"),
        Neighbor("Ethernet1/2", "host1", "02:00:00:00:00:07"),
    )


def test_the_port_of_a_trap_is_found_from_its_objects() -> None:
    """By ifIndex, or by the instance of another object; other traps are ignored."""
    down, start = mib.oid("1.3.6.1.6.3.1.1.5.3"), mib.oid("1.3.6.1.6.3.1.1.5.1")
    by_index: dict[bytes, Value] = {mib.TRAP_OID: down, mib.IF_INDEX + row(300): 300, mib.IF_ADMIN_STATUS + row(300): 2}
    assert notification(by_index) == Notification(EventKind.LINK_DOWN, "linkDown", row(300), "", admin_up=False)
    by_state: dict[bytes, Value] = {
        mib.TRAP_OID: down,
        mib.IF_OPER_STATUS + row(7): 2,
        mib.IF_DESCR + row(7): b"Ethernet7",
    }
    assert notification(by_state) == Notification(EventKind.LINK_DOWN, "linkDown", row(7), "Ethernet7")
    assert notification({mib.TRAP_OID: start}) == Notification(EventKind.DEVICE_REBOOT, "coldStart")
    assert notification({mib.TRAP_OID: mib.IF_INDEX}) is None and notification({}) is None


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"username": "x"}, "username requires version = 3"),
        ({"version": "3", "community": "x"}, "community requires version = 2c"),
        ({"version": "3", "auth": "none", "privacy": "aes128"}, "privacy requires auth"),
        ({"targets": [{"name": "a", "address": "a:b:c"}]}, "pattern"),
        ({"nobody_knows_this": 1}, "nobody_knows_this"),
    ],
)
def test_invalid_settings_are_refused_by_name(settings: dict[str, object], why: str) -> None:
    """Before any request is sent."""
    with pytest.raises(ValidationError, match=why):
        Params.model_validate(settings)


def test_secrets_come_from_files_and_are_never_shown(tmp_path: Path) -> None:
    """Neither in the settings' text, nor in errors."""
    file = tmp_path / "community"
    file.write_text("hidden-one\n")
    params = Params.model_validate({"community_file": file})
    assert params.login().community == "hidden-one"
    assert "hidden-two" not in repr(Params.model_validate({"community": "hidden-two"}))
    with pytest.raises(ValidationError) as refused:
        Params.model_validate({"version": "3", "community": "hidden-two"})
    assert "hidden-two" not in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({}, "one of community and community_file"),
        ({"community_file": "/nonesuch"}, "No such file"),
        ({"version": "3"}, "requires username"),
        ({"version": "3", "username": "u", "auth_secret": "short", "privacy": "none"}, "shorter than 8"),
    ],
)
def test_missing_credentials_are_one_line(settings: dict[str, object], why: str) -> None:
    """The line names the missing setting, and no secret."""
    with pytest.raises(Misconfigured, match=why):
        Params.model_validate(settings).login()


def test_an_address_may_be_a_name_or_ipv6_with_a_port() -> None:
    """Port 161 by default."""
    text = ["sw1.example", "10.0.0.1:1161", "[2001:db8::1]", "[2001:db8::1]:1161"]
    assert [Target(name="x", address=address).host_and_port for address in text] == [
        ("sw1.example", 161), ("10.0.0.1", 1161), ("2001:db8::1", 161), ("2001:db8::1", 1161),
    ]  # fmt: skip
