"""Tests the files of ibdiagnet and the output of ibnetdiscover: ports, links, and the draft that follows from them."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from collectors.core.context import CollectorContext
from collectors.ib.collector import SPEC, collect
from collectors.ib.formats import PortReading
from collectors.ib.ibdiagnet import parse_file
from collectors.ib.nodes import node_of
from collectors.ib.params import Params
from lab.constants import with_constants
from streams.fabric.catalogue import Metric
from streams.report.inventory_draft import draft_inventory
from streams.wire.errors import Reject, Retry
from streams.wire.models import Facts, Samples
from tests.fakes.publisher import RecordingPublisher

LEAF, SPINE, HOST, OTHER = (f"fc6a1c0300aa000{n}" for n in range(1, 5))
DB_CSV = f"""# ibdiagnet
START_NODES
NodeDesc,NumPorts,NodeType,SystemImageGUID,NodeGUID,PortGUID,DeviceID
"MF0;leaf01:MQM9700/U1",65,2,0x{LEAF},0x{LEAF},0x{LEAF},54002
"Technologies",41,2,0x{OTHER},0x{OTHER},0x{OTHER},53000
END_NODES

START_PM_INFO
NodeGUID,PortGUID,PortNumber,LinkDownedCounterExt,PortXmitWaitExt,PortXmitWait
0x{LEAF},0x{LEAF},1,2,10,4294967295
0x{OTHER},0x{OTHER},1,0,N/A,4294967295
END_PM_INFO

START_CABLE_INFO
NodeGuid,PortGuid,PortNum,PN,SN,Temperature
0x{LEAF},0x{LEAF},1,"MMA4Z00-NS","MT1",47C
END_CABLE_INFO
"""
NET_DUMP = f"""
Ty : # : #IB : GUID : LID : Sta : PhysSta : LWA : LSA : Conn LID (#) : FEC mode : RTR : Raw BER : Effective BER : \
Symbol BER : Symbol Err : Effective Err : Node Desc
SW : 1/1/1 : 1 : 0x{LEAF} : 3 : ACT : LINK UP : 4x : 100 : 5(1) : RS-FEC : NO : 2E-9 : 15E-255 : 15E-255 : 4 : 9 : \
"MF0;leaf01:MQM9700/U1"
SW : 1/1/2 : 2 : 0x{LEAF} : 3 : DOWN : POLLING : N/A : N/A : : : : : : : : : "MF0;leaf01:MQM9700/U1"
SW : 1/1/3 : 3 : 0x{LEAF} : 3 : DOWN : DISABLED : N/A : N/A : : : : : : : : : "MF0;leaf01:MQM9700/U1"
""".replace("\\\n", "")
DISCOVERED = f"""#
# Topology file: generated on Sat Nov 28 21:00:00 2026
vendid=0x2c9
devid=0xd2f2
switchguid=0x{LEAF}({LEAF})
Switch\t65 "S-{LEAF}"\t\t# "MF0;leaf01:MQM9700/U1" enhanced port 0 lid 3 lmc 0
[1]\t"H-{HOST}"[1]({HOST}) \t\t# "server01 mlx5_0" lid 5 4xNDR
[33]\t"S-{SPINE}"[1]\t\t# "MF0;spine01:MQM9790/U1" lid 7 4xNDR
[65]\t"H-{OTHER}"[1]({OTHER}) \t\t# "Mellanox Technologies Aggregation Node" lid 9 4xHDR

switchguid=0x{SPINE}({SPINE})
Switch\t65 "S-{SPINE}"\t\t# "MF0;spine01:MQM9790/U1" base port 0 lid 7 lmc 0
[1]\t"S-{LEAF}"[33]\t\t# "MF0;leaf01:MQM9700/U1" lid 3 4xNDR

caguid=0x{HOST}
Ca\t1 "H-{HOST}"\t\t# "server01 mlx5_0"
[1]({HOST}) \t"S-{LEAF}"[1]\t\t# lid 5 lmc 0 "MF0;leaf01:MQM9700/U1" lid 3 4xNDR
"""


@pytest.mark.parametrize(
    ("description", "name", "ports"),
    [
        ("MF0;leaf01:MQM9700/U1", "leaf01", "7"),
        ("MF0;core:MCS8500/L01/U1", "core", "L01/U1/7"),
        ("server01 mlx5_0", "server01", "mlx5_0/7"),
        ("node-3.dc.example HCA-2", "node-3.dc.example", "HCA-2/7"),
        ("MF0;MF0:MQM8790/U1", "", "7"),
        ("Quantum Mellanox Technologies", "", "7"),
        ("localhost mlx5_0", "", "mlx5_0/7"),
    ],
)
def test_a_description_names_the_device(description: str, name: str, ports: str) -> None:
    """Unless it is one that every such node has."""
    node = node_of(description)
    assert (node.name, node.port(7)) == (name, ports)


async def once(folder: Path, text: str) -> dict[str, dict[str, dict[Metric, float]]]:
    """Return the metrics by device and port of one file."""
    (folder / "file").write_text(text)
    publisher = RecordingPublisher()
    assert SPEC.read_once is not None
    params = Params(inputs=(f"file:{folder}/file",))
    async for _ in SPEC.read_once(params, CollectorContext(publisher, "ib@test")):
        pass
    return {
        one.device: {
            port: {
                metric: float(values[row])
                for table in (one.counters, one.gauges)
                for metric, values in zip(table.metric, table.values, strict=True)
                if 0 <= values[row] < 2**63
            }
            for row, port in enumerate(one.row)
        }
        for one in publisher.of(Samples)
    }


async def test_db_csv_joins_its_sections(tmp_path: Path) -> None:
    """Counters by port, the node's description and device id, the cable's temperature; a full counter is absent."""
    assert await once(tmp_path, DB_CSV) == {
        "leaf01": {"1": {
            Metric.LINK_DOWN_EVENTS: 2, Metric.TX_WAIT_TICKS: 10, Metric.TX_WAIT_BYTES: 80,
            Metric.MODULE_TEMPERATURE_C: 47,
        }},
        f"0x{OTHER}": {"1": {Metric.LINK_DOWN_EVENTS: 0}},
    }  # fmt: skip


async def test_net_dump_has_states_and_errors(tmp_path: Path) -> None:
    """A description has colons; a port that is down has its state only; the symbol errors of NDR are the real ones."""
    assert await once(tmp_path, NET_DUMP) == {
        "leaf01": {
            "1": {
                Metric.OPER_UP: 1, Metric.ADMIN_UP: 1, Metric.SPEED_BPS: 400e9, Metric.PRE_FEC_BER: 2e-9,
                Metric.POST_FEC_BER: 0, Metric.UNCORRECTED_SYMBOLS: 4,
            },
            "2": {Metric.OPER_UP: 0, Metric.ADMIN_UP: 1},
            "3": {Metric.OPER_UP: 0, Metric.ADMIN_UP: 0},
        }
    }  # fmt: skip


async def test_a_file_in_no_known_form_is_one_error(tmp_path: Path) -> None:
    """It names the file."""
    with pytest.raises(Retry, match=r"file: neither Prometheus text nor CSV"):
        await once(tmp_path, "no file of ibdiagnet")
    with pytest.raises(Reject):
        parse_file("")


def test_links_are_read_at_both_ends() -> None:
    """As ibnetdiscover prints them below a switch and below an HCA."""
    found = {(one.near.description, one.near.port, one.far.description, one.far.port) for one in
             parse_file(DISCOVERED).cables}  # fmt: skip
    leaf, spine, host = "MF0;leaf01:MQM9700/U1", "MF0;spine01:MQM9790/U1", "server01 mlx5_0"
    assert found >= {(leaf, 1, host, 1), (host, 1, leaf, 1), (leaf, 33, spine, 1), (spine, 1, leaf, 33)}
    assert all(isinstance(one.near, PortReading) for one in parse_file(DISCOVERED).cables)


async def test_a_draft_follows_from_the_links(tmp_path: Path) -> None:
    """Hosts are those with an HCA; SHARP's node is none; a switch keeps its model."""
    (tmp_path / "ibnetdiscover.txt").write_text(DISCOVERED)
    publisher = RecordingPublisher()
    params = with_constants(Params, cadence_s=0.05)(inputs=(f"file:{tmp_path}/*.txt",))
    work = asyncio.create_task(collect(params, CollectorContext(publisher, "ib@test")))
    try:
        await publisher.until(lambda: len(publisher.of(Facts)) == 3)
    finally:
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work
    made = draft_inventory(publisher.of(Facts)).inventory
    assert {(one.name, one.kind, one.tier, one.model) for one in made.devices} == {
        ("server01", "host", "host", ""), ("leaf01", "switch", "T0", "MQM9700"),
        ("spine01", "switch", "T1", "MQM9790"),
    }  # fmt: skip
    assert {(link.a, link.z, link.role) for link in made.links} == {
        (("leaf01", "33"), ("spine01", "1"), "fabric-link"), (("server01", "mlx5_0"), ("leaf01", "1"), "host-link"),
    }  # fmt: skip
