"""The counters that faults change are in the SNMP tables of a simulated switch and in the files of a host."""

import pytest

from collectors.snmp.ber import OCTETS, OID, SEQUENCE, encoded, oid_bytes, oid_of
from lab.servers.snmp_agent import SnmpAgent
from lab.servers.sysfs_writer import host_tree, netdev
from lab.world.demo_fabric import DemoShape, inventory
from lab.world.demo_world import DemoWorld
from lab.world.effects import Interval
from lab.world.faults.congestion import Incast, PauseStorm
from lab.world.faults.links import Degrading
from lab.world.ground_truth import PlacedFault
from streams.fabric.catalogue import Metric
from streams.fabric.ids import Port

S = 10**9
START_NS = 1_800_000_000 * S
FABRIC = inventory(DemoShape(pods=1, hosts=2, planes=1, spines=1, uplinks=1), START_NS)
LINK = next(link for link in FABRIC.links if link.role == "host-link")
DURING = Interval(START_NS, START_NS + 60 * S)
DROPS = Incast(LINK, DURING, drops_per_s=100.0)
LOSSY = Degrading(
    LINK, LINK.z, DURING, lost_ratio=1e-4, errors=((Metric.RX_FCS_ERRORS, 1), (Metric.RX_DISCARDS, 1)),
)  # fmt: skip


def value(device: str, oid: str, *faults: PlacedFault) -> bytes:
    """Return the answer to a GET of a column of the link's port, a minute after the start."""
    agent = SnmpAgent(DemoWorld(FABRIC, faults, 1, START_NS), device)
    name = (*oid_of(oid), 1 + agent.ports.index(LINK.z_port))
    varbind = encoded(SEQUENCE, encoded(OID, oid_bytes(name)) + b"\x05\x00")
    pdu = encoded(0xA0, b"\x02\x01\x01\x02\x01\x00\x02\x01\x00" + encoded(SEQUENCE, varbind))
    message = encoded(SEQUENCE, b"\x02\x01\x01" + encoded(OCTETS, b"public") + pdu)
    answer = agent.answer(message, b"public", DURING.end_ns)
    assert answer is not None
    return answer


@pytest.mark.parametrize(
    ("oid", "fault"),
    [
        pytest.param("1.3.6.1.2.1.2.2.1.13", LOSSY, id="ifInDiscards"),
        pytest.param("1.3.6.1.2.1.2.2.1.14", LOSSY, id="ifInErrors"),
        pytest.param("1.3.6.1.2.1.2.2.1.19", DROPS, id="ifOutDiscards"),
        pytest.param(
            "1.3.6.1.2.1.10.7.10.1.3", PauseStorm(LINK, LINK.a, DURING, is_global=True), id="dot3InPauseFrames"
        ),
        pytest.param(
            "1.3.6.1.2.1.10.7.10.1.4", PauseStorm(LINK, LINK.z, DURING, is_global=True), id="dot3OutPauseFrames"
        ),
        pytest.param("1.3.111.2.802.1.1.21.1.1.1.3", PauseStorm(LINK, LINK.a, DURING), id="ieee8021PfcIndications"),
    ],
)
def test_a_fault_shows_in_its_column_of_snmp(oid: str, fault: PlacedFault) -> None:
    """The answer differs from that of the healthy fabric."""
    assert value(LINK.z_device, oid, fault) != value(LINK.z_device, oid)


@pytest.mark.parametrize(
    ("counter", "sender"), [("rx_pause_ctrl_phy", LINK.z), ("tx_pause_ctrl_phy", LINK.a)], ids=("paused", "pauses")
)
def test_global_pause_shows_in_the_statistics_of_a_nic(counter: str, sender: Port) -> None:
    """`ethtool -S` counts the frames that pause all priorities."""
    storm = PauseStorm(LINK, sender, DURING, is_global=True)
    assert (_statistic(counter), _statistic(counter, storm) > 0) == (0, True)


def _statistic(name: str, *faults: PlacedFault) -> int:
    tree = host_tree(DemoWorld(FABRIC, faults, 1, START_NS), LINK.a_device, DURING.end_ns)
    number = DemoWorld(FABRIC, faults, 1, START_NS).ports[LINK.a_device].index(LINK.a_port)
    lines = tree.files[f"ethtool/{netdev(number)}.statistics"].splitlines()
    return int(next(line for line in lines if line.strip().startswith(f"{name}:")).split()[1])
