"""The bridge's tables give each name the meaning that the own collectors give it."""

import pytest

from collectors.bridge import tables
from collectors.bridge.tables import Kind
from collectors.kernel import signals as nic
from streams.fabric.catalogue import Metric
from tests.fixtures.bridge_records import START_NS, all_of, fold_of, merged

ETHTOOL = [*nic.STATISTICS, *nic.PHYSICAL, "rx_err_lane_3_phy", "tx_prio5_pause", *tables.ETHTOOL_ADDED]


def test_of_ethtools_statistics_the_wires_own_is_the_better_witness() -> None:
    """A driver's generic counters miss what RDMA carries; a lane or priority is in the name."""
    wire, driver = tables.ethtool("rx_bytes_phy"), tables.ethtool("rx_bytes")
    lane, priority = tables.ethtool("rx_err_lane_3_phy"), tables.ethtool("tx_prio5_pause")
    assert wire and driver and lane and priority and tables.ethtool("rx_xdp_drop") is None
    assert wire.metric is driver.metric is Metric.RX_BYTES and wire.rank > driver.rank
    assert (lane.metric, lane.lane, priority.metric, priority.lane) == (
        Metric.LANE_RAW_ERRORS, 3, Metric.PFC_TX_FRAMES, 5,
    )  # fmt: skip


def test_infinibands_data_is_in_words_of_four_bytes() -> None:
    """Everything else is as it is."""
    result = tables.INFINIBAND
    assert result["port_xmit_data"].read(3) == 12 and result["port_xmit_packets"].read(3) == 3
    assert (result["port_xmit_data"].metric, result["np_cnp_sent"].metric) == (Metric.TX_BYTES, Metric.CNP_SENT)


def test_every_signal_fits_the_catalogue() -> None:
    """Values read as counters are counters of the catalog, and no others; a lane is given if the metric has one."""
    ethtool = {name: found for name in ETHTOOL if (found := tables.ethtool(name)) is not None}
    assert len(ethtool) == len(set(ETHTOOL))
    for table in (ethtool, tables.INFINIBAND, tables.SNMP):
        for name, signal in table.items():
            if signal.kind is Kind.VALUE:
                assert signal.metric is not None
                refuses_half = False
                try:
                    signal.read(0.25)
                except ValueError:
                    refuses_half = True
                assert refuses_half or not signal.metric.counter, name


def test_snmp_packets_are_a_sum_and_absent_where_a_part_is() -> None:
    """Of three columns; the row is the port's name, and the device is what the site calls it."""
    both = (
        "interface,agent_host=10.0.0.1,host=collector,ifName=Et1,source=leaf1 "
        "ifHCInUcastPkts=5i,ifHCInMulticastPkts=2i,ifHCInBroadcastPkts=1i,ifHCOutUcastPkts=9i,ifHCOutMulticastPkts=1i,"
        "ifHCInOctets=100u,ifInOctets=100i,ifOperStatus=1i,ifAdminStatus=2i,ifHighSpeed=0i "
        f"{START_NS}"
    )
    result = all_of(fold_of(), [both])
    assert [one.device for one in result] == ["leaf1"]
    assert merged(result) == {
        "Et1": {(Metric.RX_PACKETS, -1): 8, (Metric.RX_BYTES, -1): 100, (Metric.OPER_UP, -1): 1.0,
                (Metric.ADMIN_UP, -1): 0.0}
    }  # fmt: skip


def test_a_port_of_several_and_the_first_of_infiniband() -> None:
    """The first goes by its device's name, as the only one does everywhere."""
    result = all_of(
        fold_of(),
        [f"infiniband,device=mlx4_0,host=gpu1,port={port} link_downed={port}i {START_NS}" for port in (1, 2)],
    )
    assert merged(result) == {
        "mlx4_0": {(Metric.LINK_DOWN_EVENTS, -1): 1},
        "mlx4_0/2": {(Metric.LINK_DOWN_EVENTS, -1): 2},
    }


@pytest.mark.parametrize(
    ("line", "device"),
    [
        ("m,source=10.0.0.1:57400,name=Et1,path=/interfaces/interface/state/counters in_octets=1u", "leaf9"),
        ("m,source=[fe80::1]:57400,name=Et1,path=/interfaces/interface/state/counters in_octets=1u", "fe80::1"),
        ("m,source=leaf1,name=Et1,path=/interfaces/interface/state/counters in_octets=1u", "leaf1"),
        ("ethtool,host=gpu1,interface=ens1,driver=mlx5_core rx_bytes_phy=1i", "gpu1"),
    ],
)
def test_a_device_goes_by_the_inventorys_name(line: str, device: str) -> None:
    """Its address loses its port, and `devices` maps the rest."""
    result = all_of(fold_of(devices={"10.0.0.1": "leaf9"}), [f"{line} {START_NS}"])
    assert [one.device for one in result] == [device]


@pytest.mark.parametrize(
    "line",
    [
        "bgp,source=leaf1,name=default,neighbor_address=10.0.0.2 oper_status=\"UP\"",
        "platform,source=leaf1,name=PSU1 oper_status=\"UP\"",
        "sub,source=leaf1,name=Et1,index=0,path=/interfaces/interface/subinterfaces/subinterface oper_status=\"UP\"",
        "sub,source=leaf1,name=Et1,path=/components/component/state oper_status=\"UP\"",
        "cpu,host=gpu1 usage_idle=99.1",
        "interfaces,source=leaf1 in_octets=1u",
    ],
)  # fmt: skip
def test_what_is_no_ports_is_nothing(line: str) -> None:
    """A neighbour's, a power supply's or a subinterface's state is not a port's; nor is what names none."""
    assert all_of(fold_of(), [f"{line} {START_NS}"]) == []


def test_a_better_witness_is_retained_once_it_was_received() -> None:
    """Two counters of one metric differ: to go back to the lesser would be a burst that never was."""
    fold = fold_of()
    line = "ethtool,host=gpu1,interface=ens1,driver=mlx5_core {} {}"
    first = all_of(fold, [line.format("rx_bytes=7i", START_NS)])
    both = line.format("rx_bytes=8i,rx_bytes_phy=900i", START_NS + 10**10 + 1)
    later = all_of(fold, [both, line.format("rx_bytes=9i", START_NS + 2 * 10**10 + 1)])
    assert [merged([one])["ens1"][Metric.RX_BYTES, -1] for one in [*first, *later]] == [7, 900]
