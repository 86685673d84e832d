"""Each table gives the values of its sender our metrics, rows, lanes and units."""

import pytest

from collectors.otlp.receiver import Answer
from collectors.otlp.tables import tables
from streams.fabric.catalogue import Metric
from streams.wire.models import NO_INDEX
from tests.fixtures.otlp_receiver import sending
from tests.fixtures.otlp_requests import CUMULATIVE, DELTA, Given

NVSWITCH = "nvswitch_interface_"
TRANSCEIVER = "nvswitch_platform_transceiver_"
SWP1 = {"interface": "swp1"}
FIRST_NS = 1_700_000_000 * 10**9
SECOND_NS = 10**9


def at(seconds: float) -> int:
    return FIRST_NS + int(seconds * SECOND_NS)


PORT, CELL = {"port": "33", "channel": "2"}, "nvswitch_buffer_cell_size_bytes"
TC3 = {"interface": "swp1", "tc": "3"}
SAI = "sai_counter_type_{}_stat_{}".format
ETHERNET1 = {"interface_name": "Ethernet1/1"}
IN_OCTETS = "_interfaces_interface_state_counters_in_octets"
FCS_ERRORS = "_openconfig_interfaces:interfaces_interface_openconfig_if_ethernet:ethernet_state_counters_in_crc_errors"
OPER_STATUS = "_interfaces_interface_state_oper_status"
STATE = "openconfig.interfaces.interface.state."
DOWN = {"name": "e1", "value": "DOWN"}
CHANNEL = TRANSCEIVER + "physical_channel_state"


@pytest.mark.parametrize(
    ("name", "given", "found"),
    [
        # Cumulus
        (NVSWITCH + "oper_state", Given(4.0, SWP1), None),
        (NVSWITCH + "oper_state", Given(2.0, SWP1), ("swp1", Metric.OPER_UP, NO_INDEX, 0)),
        (NVSWITCH + "phy_stats_effective_ber", Given(1.5e-254, SWP1), ("swp1", Metric.POST_FEC_BER, NO_INDEX, 0)),
        (NVSWITCH + "phy_stats_raw_ber", Given(3e-9, SWP1), ("swp1", Metric.PRE_FEC_BER, NO_INDEX, 3e-9)),
        (NVSWITCH + "tc_tx_ecn_marked_tc", Given(7.0, TC3), ("swp1", Metric.ECN_MARKED_PACKETS, 3, 7)),
        (NVSWITCH + "if_out_ucast_pkts", Given(7.0, SWP1), ("swp1", Metric.TX_PACKETS, NO_INDEX, 7)),
        (NVSWITCH + "sp_rx_pause", Given(7.0, {"interface": "swp1", "sp": "3"}), ("swp1", Metric.PFC_RX_FRAMES, 3, 7)),
        (NVSWITCH + "shared_buffer_port_tc_watermark", Given(9.0, TC3), None),
        (NVSWITCH + "tx_wait", Given(9.0, SWP1), None),
        ("nvswitch_ar_congestion_changes", Given(9.0, SWP1), None),
        (TRANSCEIVER + "channel_tx_bias_current", Given(0.00675, PORT), ("swp33", Metric.BIAS_MA, 1, 6.75)),
        (CHANNEL, Given(1.0, PORT | {"state": "rx-los"}), ("swp33", Metric.RX_LOS, 1, 1)),
        (CHANNEL, Given(1.0, PORT | {"state": "rx-cdr-lol"}), None),
        ("nvrouting_bgp_peer_state", Given(2, {"peer-id": "swp17"}), ("swp17", Metric.BGP_SESSION_UP, NO_INDEX, 0)),
        # SONiC
        (SAI(1, 0), Given(5, {"object_name": "Ethernet0"}), ("Ethernet0", Metric.RX_BYTES, NO_INDEX, 5)),
        (SAI(21, 25), Given(5, {"object_name": "Ethernet0|3"}), ("Ethernet0", Metric.QUEUE_WATERMARK_BYTES, 3, 5)),
        (SAI(21, 25), Given(5, {"object_name": "Ethernet0"}), None),
        # gnmic, gnmireceiver
        (IN_OCTETS, Given(5.0, ETHERNET1), ("Ethernet1/1", Metric.RX_BYTES, NO_INDEX, 5)),
        (STATE + "counters.in-octets", Given(5, {"name": "e1"}), ("e1", Metric.RX_BYTES, NO_INDEX, 5)),
        (STATE + "oper-status_info", Given(1, DOWN), ("e1", Metric.OPER_UP, NO_INDEX, 0)),
        (IN_OCTETS[1:], Given(5, ETHERNET1), ("Ethernet1/1", Metric.RX_BYTES, NO_INDEX, 5)),
        ("openconfig:" + IN_OCTETS, Given(5, ETHERNET1), ("Ethernet1/1", Metric.RX_BYTES, NO_INDEX, 5)),
        (FCS_ERRORS, Given(5, ETHERNET1), ("Ethernet1/1", Metric.RX_FCS_ERRORS, NO_INDEX, 5)),
        ("some:" + IN_OCTETS[1:], Given(5, ETHERNET1), None),
        (IN_OCTETS, Given(2.0**60, ETHERNET1), ("Ethernet1/1", Metric.RX_BYTES, NO_INDEX, 2.0**60)),
        (IN_OCTETS, Given(1.0, ETHERNET1 | {"value": "7"}), ("Ethernet1/1", Metric.RX_BYTES, NO_INDEX, 7)),
        (OPER_STATUS, Given(1.0, ETHERNET1 | {"value": "DOWN"}), ("Ethernet1/1", Metric.OPER_UP, NO_INDEX, 0)),
        (STATE + "mtu", Given(5, {"name": "e1"}), None),
        # snmpreceiver
        ("ifHCInOctets", Given(5, {"ifName": "Eth1"}), ("Eth1", Metric.RX_BYTES, NO_INDEX, 5)),
        ("ifHighSpeed", Given(400_000, {"ifName": "Eth1"}), ("Eth1", Metric.SPEED_BPS, NO_INDEX, 4e11)),
        ("ifOperStatus", Given(7, {"ifName": "Eth1"}), ("Eth1", Metric.OPER_UP, NO_INDEX, 0)),
        ("ifOperStatus", Given(3, {"ifName": "Eth1"}), ("Eth1", Metric.OPER_UP, NO_INDEX, 0)),
        ("ifOperStatus", Given(4, {"ifName": "Eth1"}), None),
        ("ifOperStatus", Given(5, {"ifName": "Eth1"}), None),
    ],
)  # fmt: skip
async def test_a_value_has_our_metric_row_lane_and_unit(
    name: str, given: Given, found: tuple[str, Metric, int, float] | None
) -> None:
    """A value of no metric, or without what it needs, is accepted and not stored."""
    async with sending() as now:
        for kind, temporality in (("gauge", 0), ("sum", CUMULATIVE)):
            assert await now.send({name: [given]}, kind=kind, temporality=temporality) == Answer()
        values = now.values()
        assert {value[:3] for value in values} == (set() if found is None else {found[:3]})
        assert all(value[3] == pytest.approx(found[3]) for value in values if found is not None)


async def test_cells_of_a_buffer_become_bytes_by_the_size_that_the_device_sends() -> None:
    async with sending() as now:
        await now.send({CELL: [Given(192.0)], NVSWITCH + "shared_buffer_port_tc_curr_occupancy": [Given(10.0, TC3)]})
        assert now.of(Metric.QUEUE_DEPTH_BYTES) == [1920]


async def test_several_counters_add_up_to_one_and_an_absent_one_is_unchanged() -> None:
    """The first reading has both parts, the second only one."""
    buffer, wred = NVSWITCH + "tc_tx_no_buffer_discard_uc", NVSWITCH + "tc_tx_wred_discard"
    async with sending() as now:
        await now.send({buffer: [Given(10.0, TC3, at(0))], wred: [Given(5.0, TC3, at(0))]})
        await now.send({wred: [Given(7.0, TC3, at(10))]})
        await now.send({buffer: [Given(11.0, TC3, at(20))], wred: [Given(7.0, TC3, at(20))]})
        assert now.of(Metric.QUEUE_DROPPED_PACKETS) == [15, 17, 18]


OUT = NVSWITCH + "if_out_octets"


@pytest.mark.parametrize(
    ("points", "temporality", "published"),
    [
        # (value, start, time) in seconds; a start before the last point's time, or at the point's, is no reset
        ([(100, 1, 10), (150, 1, 20), (200, 1, 30)], CUMULATIVE, [100, 150, 200]),
        ([(100, 1, 10), (150, 15, 20), (170, 15, 30)], CUMULATIVE, [100, 250, 270]),
        ([(100, 1, 10), (40, 15, 20), (60, 15, 30)], CUMULATIVE, [100, 40, 60]),
        ([(100, 10, 10), (150, 20, 20), (200, 30, 30)], CUMULATIVE, [100, 150, 200]),
        ([(100, 9.99, 10), (150, 19.99, 20)], CUMULATIVE, [100, 150]),
        ([(100, 0, 10), (150, 10, 20), (200, 20, 30)], CUMULATIVE, [100, 150, 200]),
        ([(100, 0, 10), (50, 10, 20), (7, 20, 30)], DELTA, [100, 150, 157]),
        ([(100, 0, 10), (50, 10, 20), (7, 25, 30)], DELTA, [100, 150, 7]),
        ([(100, 0, 10), (50, 10, 20), (100, 0, 10), (50, 10, 20), (7, 20, 30)], DELTA, [100, 150, 150, 150, 157]),
    ],
)
async def test_starts_resets_and_deltas(
    points: list[tuple[int, float, float]], temporality: int, published: list[int]
) -> None:
    """A later start is a reset, also if the value is higher; deltas are summed up, and a gap lowers the sum.

    A request that is repeated adds nothing.
    """
    async with sending() as now:
        for value, start, end in points:
            start_ns = at(start) if start else 0
            await now.send({OUT: [Given(value, SWP1, at(end), start_ns)]}, kind="sum", temporality=temporality)
        assert now.of(Metric.TX_BYTES) == published


@pytest.mark.parametrize(
    ("point", "rejected", "stored"),
    [
        (Given(1.0, SWP1, 0), 1, []),
        (Given(1.0, SWP1, 2**64 - 1), 1, []),
        (Given(-1, SWP1), 1, []),
        (Given(-1.0, SWP1), 1, []),
        (Given(float("nan"), SWP1), 1, []),
        (Given(float("inf"), SWP1), 1, []),
        (Given(None, SWP1), 1, []),
        (Given(None, SWP1, flags=1), 0, []),
        (Given(7, SWP1, flags=1), 0, []),
        (Given(2.0**60, SWP1), 0, [2.0**60]),
        (Given(2**53 + 1, SWP1), 0, [float(2**53 + 1)]),
        (Given(7, {}), 0, []),
        (Given(7, {"interface": "x" * 300}), 0, []),
    ],
)  # fmt: skip
async def test_a_point_that_is_no_counter_is_rejected_and_one_without_a_value_is_absent(
    point: Given, rejected: int, stored: list[float]
) -> None:
    """Doubles above 2^53 are counters: bytes at 800 Gb/s reach it in 25 hours."""
    async with sending() as now:
        for _ in range(2):  # as a new series, and as a known one
            assert (await now.send({OUT: [point]})).rejected == rejected
        assert set(now.of(Metric.TX_BYTES)) == set(stored)


async def test_high_frequency_telemetry_is_one_reading_a_second_with_the_peak_of_a_queue() -> None:
    """A burst of 2 ms fills a queue that is empty at the end; a reading has the newest bytes and the largest depth."""
    queue, port = {"object_name": "Ethernet0|3"}, {"object_name": "Ethernet0"}
    bytes_sent, depths = [], []
    for number in range(2000):
        at_ns = at(0) + number * 1_000_000
        bytes_sent.append(Given(number * 1000, port, at_ns))
        depths.append(Given(90_000 if number in (700, 701) else 0, queue, at_ns))
    async with sending() as now:
        assert await now.send({SAI(1, 9): bytes_sent, SAI(21, 24): depths}) == Answer()
        assert now.of(Metric.QUEUE_WATERMARK_BYTES) == [90_000, 0, 0]
        assert now.of(Metric.QUEUE_DEPTH_BYTES) == [0, 0, 0]
        assert now.of(Metric.TX_BYTES) == [900_000, 1_801_000, 1_999_000]


async def test_histograms_are_accepted_and_unknown_names_too() -> None:
    async with sending() as now:
        assert await now.send({"x": [Given(1.0)]}, kind="histogram") == Answer()
        assert await now.send({"x": [Given(1.0)]}) == Answer()
        assert now.values() == []


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        (NVSWITCH + "if_out_octets", {}),
        (NVSWITCH + "if_out_octets", {"if_name": "swp1"}),
        (NVSWITCH + "tc_tx_frames", SWP1 | {"tc": "tc3"}),
        (NVSWITCH + "tc_tx_wred_discard", {"tc": "3"}),
        (CHANNEL, PORT | {"state": "rx-cdr-lol"}),
        ("_interfaces_interface_state_counters_in_storms", ETHERNET1),
        (STATE + "mtu", {"name": "e1"}),
    ],
)
async def test_values_that_are_not_collected_are_counted(name: str, attributes: dict[str, str]) -> None:
    """Such as those whose attributes have other names than in the table, and paths that no profile has."""
    async with sending() as now:
        for seconds in (0, 1):
            absent = Given(None, attributes, at(seconds), flags=1)
            assert await now.send({name: [Given(5, attributes, at(seconds)), absent]}) == Answer()
        assert now.values() == []
        assert now.metrics.value("unknown", "leaf1") == 2


async def test_values_that_are_collected_or_absent_are_not_counted_as_unknown() -> None:
    async with sending() as now:
        for name in (NVSWITCH + "if_out_octets", NVSWITCH + "phy_stats_raw_ber", STATE + "counters.in-octets"):
            given = [Given(5, SWP1 | {"name": "e1"}, at(0)), Given(None, SWP1, at(0), flags=1)]
            assert await now.send({name: given}) == Answer()
        assert now.metrics.value("unknown", "leaf1") == 0


def test_each_table_has_a_source_and_rules_of_the_catalogue() -> None:
    assert len(tables()) >= 4
    assert all(table.source and table.rule for table in tables())
