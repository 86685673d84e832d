"""SNMP responses, the tables in them, and traps."""

import asyncio
import atexit
from collections.abc import Iterator
from contextlib import suppress
from functools import cache

from pysnmp.carrier.asyncio.dgram import udp

from collectors.core.context import Emitter
from collectors.core.metrics import CollectorMetrics
from collectors.snmp import ber, facts, messages, mib, port_index, vendor_optics
from collectors.snmp.ber import Column, Value
from collectors.snmp.engine import V2C, V3, Login
from collectors.snmp.optics import Owners, mapped
from collectors.snmp.reading import Composer
from collectors.snmp.traps import Traps, notification
from streams.wire.errors import Reject
from streams.wire.models import Facts, Source
from tests.fixtures import snmp_packets
from tests.fixtures.snmp_tables import EVERY, switch
from tests.fuzz.target import Target
from tests.fuzz.targets.wire import ReadingPublisher

S = 10**9


def _parse_message(data: bytes) -> None:
    """Read a datagram as the response of each version, decrypted or not."""
    for read in (_v2c, _v3, messages.encrypted_v3, lambda raw: messages.slice_scoped(raw, 0, len(raw))):
        try:
            read(data)
        except Reject:
            continue


def _v2c(data: bytes) -> None:
    _, answer = messages.answer_v2c(data)
    answer.varbinds()


def _v3(data: bytes) -> None:
    if (sliced := messages.slice_v3(data)) is not None:
        sliced.answer.varbinds()


def _message_seeds() -> Iterator[bytes]:
    yield snmp_packets.response(snmp_packets.cells(20))
    yield snmp_packets.scoped(snmp_packets.cells(3))
    yield snmp_packets.trap()


def _parse_tables(data: bytes) -> None:
    """Read a varbind list as the tables of a device: a reading and facts that Kafka's readers take."""
    cells: dict[bytes, Column] = {column: {} for column in (*EVERY, *vendor_optics.EVERY_COLUMN)}
    scalars: dict[bytes, Value] = {}
    for oid, tag, value in ber.varbinds(data, 0, len(data)):
        if tag in ber.NOTHING:
            continue
        scalars[oid] = value
        for column, cell in cells.items():
            if oid.startswith(column):
                cell[oid[len(column) :]] = value
    emitter = Emitter(ReadingPublisher(), "snmp", 1, Source.SOURCE_SNMP)
    ports = port_index.port_index(cells, mib.PHYSICAL, 30, 100)
    entities = facts.entities(cells, ports)
    owners = Owners(entities, ports.labels, {number: ports.name[row] for row, number in ports.index.items()})
    found = mapped(cells, entities, owners, vendor_optics.sensors(cells, owners, ports.name)).sensors
    limits = vendor_optics.limits(cells, found, ports.name)
    composer = Composer()
    for poll in range(2):
        emitter.samples("sw1", composer.compose(ports, cells, found, (5 + poll) * S, (6 + poll) * S, 1))
    vendor, model, serial, version = facts.identity(cells, scalars)
    emitter.facts(
        Facts(
            "sw1", 6 * S, Source.SOURCE_SNMP, vendor, model, version, 0, serial,
            facts.components(cells, ports, owners, limits), facts.neighbors(cells, ports),
        )
    )  # fmt: skip
    notification(scalars)


def _table_seeds() -> Iterator[bytes]:
    """Yield a small switch with optics and LLDP."""
    rows = {1: "Ethernet1", 2: "Ethernet2"}
    tables = switch(rows)
    tables[mib.COUNTERS[next(iter(mib.COUNTERS))][0].columns[0]] = {b"\x01": 7, b"\x02": 8}
    tables[mib.ENTITY_DESCR] = {b"\x64": b"Xcvr for Ethernet1", b"\x65": b"DOM RX Power Sensor Lane 1"}
    tables[mib.ENTITY_NAME] = {b"\x64": b"Ethernet1"}
    tables[mib.ENTITY_PARENT] = {b"\x65": 100}
    tables[mib.ENTITY_CLASS] = {b"\x64": 9, b"\x01": 3}
    tables[mib.ENTITY_MODEL] = {b"\x64": b"QSFP", b"\x01": b"7060X"}
    tables[mib.ENTITY_SERIAL] = {b"\x64": b"SN1"}
    tables[mib.ENTITY_ALIAS] = {b"\x64\x00": mib.IF_INDEX + b"\x01"}
    tables[mib.SENSOR_TYPE] = {b"\x65": 14}
    tables[mib.SENSOR_SCALE], tables[mib.SENSOR_PRECISION] = {b"\x65": 9}, {b"\x65": 2}
    tables[mib.SENSOR_VALUE], tables[mib.SENSOR_STATUS] = {b"\x65": -250}, {b"\x65": 1}
    tables[mib.DOM_LANE_RX_POWER], tables[mib.DOM_VOLTAGE] = {b"\x01\x00": -210, b"\x01\x01": 0}, {b"\x01": 3300}
    tables[mib.DOM_LIMITS["rx_power_low_alarm_dbm"]] = {b"\x01": -1250}
    tables[mib.HUAWEI_TEMPERATURE], tables[mib.HUAWEI_RX_POWER] = {b"\x64": 33}, {b"\x64": -121}
    tables[mib.HUAWEI_LANE_RX_POWER] = {b"\x64": b"-1.21,-1.51,-1.83,-2.18"}
    tables[mib.CISCO_TYPE], tables[mib.CISCO_MEASURED] = {b"\x66": 8}, {b"\x66": 100}
    tables[mib.ARISTA_LIMITS["low_alarm"]] = {b"\x65": -1200}
    tables[mib.LLDP_PORT_KIND], tables[mib.LLDP_PORT] = {b"\x00\x01\x01": 5}, {b"\x00\x01\x01": b"Ethernet9"}
    tables[mib.LLDP_NAME] = {b"\x00\x01\x01": b"spine1"}
    tables[mib.LLDP_LOCAL_KIND], tables[mib.LLDP_LOCAL_ID] = {b"\x01": 7}, {b"\x01": b"1"}
    yield _varbinds({column + row: value for column, of in tables.items() for row, value in of.items()})


def _varbinds(values: dict[bytes, Value]) -> bytes:
    pieces = []
    for oid, value in values.items():
        content = value if isinstance(value, bytes) else value.to_bytes(5, "big", signed=True)
        pieces.append(ber.encoded(ber.OID, oid) + ber.encoded(ber.OCTETS if isinstance(value, bytes) else ber.INTEGER, content))  # fmt: skip
    return b"".join(ber.encoded(ber.SEQUENCE, one) for one in pieces)


def _receiver(login: Login) -> Traps:
    return Traps(
        ("127.0.0.1", 0), lambda _: login, lambda _: "sw1", lambda _, varbinds: notification(varbinds) is None,
        CollectorMetrics(), 10**9,
    )  # fmt: skip


@cache
def _receivers() -> tuple[Traps, ...]:
    """Return a receiver of each version, which stays open as long as the process."""
    loop = asyncio.new_event_loop()
    secret = "tests-only-secret"
    logins = (
        Login(V2C, community="public"),
        Login(V3, user="fuzz", authentication="sha256", authentication_secret=secret, privacy="aes128",
              privacy_secret=secret),
    )  # fmt: skip
    receivers = tuple(_receiver(login) for login in logins)
    for one in receivers:
        loop.run_until_complete(one.__aenter__())
    atexit.register(_close, loop)
    return receivers


def _close(loop: asyncio.AbstractEventLoop) -> None:
    for task in asyncio.all_tasks(loop):
        task.cancel()
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(task)
    loop.close()


def _parse_trap(data: bytes) -> None:
    """Receive a datagram as a trap or inform of each version."""
    for receiver in _receivers():
        receiver.engine.message_dispatcher.receive_message(
            receiver.engine, udp.DOMAIN_NAME, ("127.0.0.1", 16200), data
        )  # fmt: skip


def _trap_seeds() -> Iterator[bytes]:
    yield snmp_packets.trap()
    # A discovery of version 3: an inform of a user to an engine that it does not know yet.
    yield bytes.fromhex(
        "303e020103301102042000b9e6020300ffe3040104020103041030" "0e0400020100020100040004000400"
        "30140400" "0400" "a00e02043be6b9e60201000201003000"
    )  # fmt: skip


TARGETS = (
    Target("snmp-message", _parse_message, (), _message_seeds),
    Target("snmp-tables", _parse_tables, (Reject,), _table_seeds),
    Target("snmp-trap", _parse_trap, (), _trap_seeds),
)
