"""Tests walks of real switches, served by snmpsim: ours equals that of net-snmp's snmpbulkwalk, port by port."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from collectors.core.context import CollectorContext
from collectors.core.once import NullPublisher
from collectors.core.params import Core
from collectors.core.publisher import Publisher
from collectors.snmp.collector import SPEC, Readers, target_sessions
from collectors.snmp.device import DeviceReader
from collectors.snmp.params import Params
from lab.constants import params_of
from streams.wire.models import Facts
from tests.fakes.publisher import RecordingPublisher
from tests.integration.collectors.snmp_peers import AUTH_SECRET, PRIVACY_SECRET, RECORDINGS, USER, snmpsim, walk

pytestmark = pytest.mark.peer("snmpsim-command-responder")

ARISTA, HPE = RECORDINGS
IF, IFX, DOT3, DOT3_HC = "1.3.6.1.2.1.2.2.1", "1.3.6.1.2.1.31.1.1.1", "1.3.6.1.2.1.10.7.2.1", "1.3.6.1.2.1.10.7.11.1"
PAUSE, PFC, SENSOR = "1.3.6.1.2.1.10.7.10.1", "1.3.111.2.802.1.1.21.1.1.1", "1.3.6.1.2.1.99.1.1.1"
COUNTERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "rx_bytes": ((f"{IFX}.6",),),
    "tx_bytes": ((f"{IFX}.10",),),
    "rx_packets": ((f"{IFX}.7", f"{IFX}.8", f"{IFX}.9"),),
    "tx_packets": ((f"{IFX}.11", f"{IFX}.12", f"{IFX}.13"),),
    "rx_discards": ((f"{IF}.13",),),
    "rx_errors": ((f"{IF}.14",),),
    "tx_discards": ((f"{IF}.19",),),
    "tx_errors": ((f"{IF}.20",),),
    "rx_fcs_errors": ((f"{DOT3_HC}.2",), (f"{DOT3}.3",)),
    "rx_symbol_errors": ((f"{DOT3_HC}.6",), (f"{DOT3}.18",)),
    "pause_rx_frames": ((f"{PAUSE}.5",), (f"{PAUSE}.3",)),
    "pause_tx_frames": ((f"{PAUSE}.6",), (f"{PAUSE}.4",)),
    "pfc_tx_frames": ((f"{PFC}.2",),),
    "pfc_rx_frames": ((f"{PFC}.3",),),
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Yield the port of a snmpsim with the recordings."""
    with snmpsim(tmp_path_factory.mktemp("snmpsim")) as port:
        yield port


def params(port: int, recording: str, **settings: object) -> Params:
    """Return settings for one of them by v2c, unless overridden."""
    target = {"name": recording, "address": f"127.0.0.1:{port}"}
    login: dict[str, object] = {} if settings.get("version") == "3" else {"community": recording}
    return params_of(Params, {"targets": [target], "timeout_s": 5, "deadline_s": 60} | login | settings)


def reader_of(settings: Params, publisher: Publisher) -> DeviceReader:
    """Return the reader of the one target."""
    (one,) = target_sessions(settings).values()
    return Readers(CollectorContext(publisher, "test")).reader(one)


async def printed(settings: Params) -> dict[str, dict[str, Any]]:
    """Return the output of `--once --print`, by port."""
    assert SPEC.once is not None
    rows = [orjson.loads(line) async for line in SPEC.once(settings, Core())]
    found = {row["port"]: row["metrics"] for row in rows}
    assert len(found) == len(rows)
    return found


def ports(port: int, recording: str) -> dict[str, str]:
    """Return the name of each ifIndex: the ifName, followed by the index if another has the same name."""
    names = walk(port, recording, f"{IFX}.1")
    twice = {name for name in names.values() if list(names.values()).count(name) > 1}
    return {index: f"{name}#{index}" if name in twice else name for index, name in names.items()}


@pytest.mark.parametrize("recording", RECORDINGS)
async def test_every_counter_and_state_of_every_interface_equals_that_of_snmpbulkwalk(
    served: int, recording: str
) -> None:
    """Of two columns the wide one is read if the row has it; a missing column is absent, never 0."""
    result, names = await printed(params(served, recording)), ports(served, recording)
    assert set(result) == set(names.values())
    for metric, ways in COUNTERS.items():
        read = [[walk(served, recording, column) for column in way] for way in ways]
        for index, name in names.items():
            way = next((way for way in read if all(index in column for column in way)), None)
            expected = None if way is None else sum(int(column[index]) for column in way)
            assert result[name].get(metric) == expected, (name, metric)
    oper, admin, speed = (walk(served, recording, column) for column in (f"{IF}.8", f"{IF}.7", f"{IFX}.15"))
    for index, name in names.items():
        assert result[name]["oper_up"] == (oper[index] == "1"), name
        assert result[name]["admin_up"] == (admin[index] == "1"), name
        if int(speed[index]):
            assert result[name]["speed_bps"] == int(speed[index]) * 1e6, name
        else:
            assert result[name].get("speed_bps") != 0, name
    assert ("pfc_rx_frames" in str(result)) is (recording == ARISTA)


async def test_version_3_reads_the_same_as_version_2c(served: int) -> None:
    """With SHA-256 and AES, each row and each metric except the time is equal."""
    login = {"version": "3", "username": USER, "auth_secret": AUTH_SECRET, "privacy_secret": PRIVACY_SECRET}
    by_v3 = await printed(params(served, ARISTA, context=ARISTA, **login))
    assert by_v3 == await printed(params(served, ARISTA))


async def test_optics_belong_to_their_ports_in_the_catalog_units(served: int) -> None:
    """45 sensors of 9 modules: the port is in the sensor's text, milliwatts are dBm, tenths are degrees."""
    result = await printed(params(served, ARISTA))
    descr = walk(served, ARISTA, "1.3.6.1.2.1.47.1.1.1.1.2")
    kinds = {"Temperature": "module_temperature_c", "Voltage": "module_voltage_v", "TX Bias": "bias_ma[0]",
             "TX Power": "tx_power_dbm[0]", "RX Power": "rx_power_dbm[0]"}  # fmt: skip
    precision, value = (walk(served, ARISTA, f"{SENSOR}.{column}") for column in (3, 4))
    sensors = 0
    for row, texts in descr.items():
        if not texts.startswith("DOM "):
            continue
        metric = next(metric for kind, metric in kinds.items() if f"DOM {kind} " in texts)
        number = int(value[row]) / 10 ** int(precision[row])
        expected = 10 * math.log10(number) if metric.endswith("dbm[0]") else number
        assert result[texts.rpartition(" ")[2]][metric] == pytest.approx(expected), texts
        sensors += 1
    assert sensors == 45
    assert sum("rx_power_dbm[0]" in metrics for metrics in result.values()) == 9


async def test_the_identity_of_a_device_becomes_facts(served: int) -> None:
    """Facts have vendor, model, serial and software, the ports with their other names, and the LLDP neighbors."""
    retained = RecordingPublisher()
    for recording in RECORDINGS:
        reader = reader_of(params(served, recording), retained)
        try:
            await reader.read_whole()
        finally:
            reader.close()
    arista, hpe = retained.of(Facts)
    assert (arista.vendor, arista.model, arista.serial) == ("Arista Networks", "DCS-7150S-52-CL", "JPE15151458")
    assert arista.os_version == "4.20.5F" and arista.booted_at_ns > 0
    assert [(n.port, n.remote_port) for n in arista.neighbors] == [
        ("Ethernet47", "Ethernet23"), ("Ethernet48", "Ethernet24"),
    ]  # fmt: skip
    assert (hpe.vendor, hpe.serial) == ("HPE", "3C421900TX") and len(hpe.neighbors) == 5
    optics = [component for component in arista.components if component.kind == "transceiver"]
    assert optics and all(component.name.startswith("Ethernet") for component in optics)
    assert {component.name for component in hpe.components if component.kind == "port"} >= {"1", "24"}


async def test_only_physical_ports_are_read_by_default(served: int) -> None:
    """VLANs, loopbacks and port channels are not ports; `if_types` selects the ports."""
    for settings, present, absent in (
        ({}, "Ethernet5", "Vlan40"),
        ({"if_types": [136]}, "Vlan40", "Ethernet5"),
    ):
        reader = reader_of(params(served, ARISTA, **settings), NullPublisher())
        try:
            rows = (await reader.read()).row
        finally:
            reader.close()
        assert present in rows and absent not in rows


def test_the_recordings_exist(served: int, tmp_path: Path) -> None:
    """Without them, the comparison of empty walks would pass."""
    assert len(walk(served, ARISTA, f"{IFX}.1")) == 59
    assert len(walk(served, HPE, f"{IFX}.1")) == 42
