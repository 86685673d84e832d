"""Tests what the collector reads of nine walks of real switches, and that the page of them is up to date."""

import pytest

from streams.fabric.catalogue import Metric
from tests.bench import snmp_walks
from tests.bench.snmp_walks import PAGE, Yield
from tests.recordings import DATA

pytestmark = [
    pytest.mark.peer("snmpsim-command-responder"),
    pytest.mark.skipif(not (DATA / "snmp/librenms").exists(), reason=f"no walks in {DATA / 'snmp/librenms'}"),
]


def lanes(one: Yield, metric: Metric) -> dict[int, int]:
    """Return the number of ports with a value, by lane."""
    return {lane: count for (found, lane), count in sorted(one.cells.items()) if found is metric and count}


async def test_each_walk_yields_its_ports_states_counters_and_optics_by_lane() -> None:
    """Counted in the walks by hand; what is left out is reported with its reason."""
    found = {one.walk: one for one in await snmp_walks.read_all()}
    assert len(found) == 9
    assert snmp_walks.table(found.values()) in PAGE.read_text("utf-8"), "python -m tests.bench.snmp_walks --write"
    # SONiC: the sensors of Ethernet52 are of ifIndex 53, which IF-MIB calls Eth1/53; TX power is `unavailable` there.
    dell = found["dell-sonic"]
    assert lanes(dell, Metric.RX_POWER_DBM) == lanes(dell, Metric.BIAS_MA) == dict.fromkeys(range(4), 1)
    assert not lanes(dell, Metric.TX_POWER_DBM) and not dell.left_out
    # Every module has a sensor of each of four lanes; of most only that of lane 1 is available.
    edgecore = found["edgecos_dcs203"]
    assert lanes(edgecore, Metric.RX_POWER_DBM) == {0: 22, 1: 1, 2: 1, 3: 1} and not edgecore.left_out
    # Juniper: one copper module of four lanes without any light.
    juniper = found["junos_qfx5130-32cd-evo"]
    assert lanes(juniper, Metric.MODULE_VOLTAGE_V) == {-1: 1} and not lanes(juniper, Metric.RX_POWER_DBM)
    assert juniper.limits > 0
    # Cisco's walk has no name of any of its 86 sensors but one of the chassis; nothing names their ports.
    cisco = found["cisco-n5000-uk9"].left_out
    assert [line.partition(" (")[0] for line in sorted(cisco)] == ["no name: 51", "no port: 34"]
    assert not lanes(found["huawei-s5720"], Metric.RX_POWER_DBM)  # copper ports: -1 and -255
    assert any("32-bit counters of ports of unknown speed" in line for line in found["arista_eos_7280r"].left_out)
    assert lanes(found["arista-dcs-7150s-52-cl"], Metric.RX_POWER_DBM) == {0: 9}
    cumulus = found["cumulus_mellanox"]
    assert cumulus.up and any(line.startswith("no sysUpTime") for line in cumulus.left_out)
