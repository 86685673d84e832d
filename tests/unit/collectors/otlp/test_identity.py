"""A point is stored for the device that its resource or the point itself names, if its sender may send for it."""

import itertools
from typing import Any

import pytest

from collectors.dialout.params import Peer
from collectors.otlp.delivery import Overload
from collectors.otlp.params import Params
from collectors.otlp.receiver import Answer
from lab.constants import params_of
from streams.fabric.catalogue import Metric
from streams.wire.models import Facts
from streams.wire.v1 import otlp_pb2 as otlp
from tests.fixtures.otlp_receiver import Sending, sending
from tests.fixtures.otlp_requests import CUMULATIVE, Given

OUT, SWP1 = "nvswitch_interface_if_out_octets", {"interface": "swp1"}
IN_OCTETS = "_interfaces_interface_state_counters_in_octets"
SENDER = ["192.0.2.1"]
RELAY = (
    {"name": "gnmic", "addresses": SENDER, "relay": True}, {"name": "leaf1", "node": "sw-1"}, {"name": "leaf2"},
    {"name": "leaf3", "node": "192.0.2.9:57401"},
)  # fmt: skip
PEER = ({"name": "leaf1", "node": "sw-1", "addresses": SENDER}, {"name": "leaf2", "addresses": ["192.0.2.2"]})
PEERS = tuple(target | {"addresses": SENDER} for target in PEER)
NVOS = {"platform_type": "nvlink"}
"""The resource of NVOS, which names no device; the value is ours."""
GPU = {"pci_bus_id": "00000000:9B:00.0"}


def stored(now: Sending) -> set[str]:
    return {name for name in now.receiver.devices if now.values(name)}


@pytest.mark.parametrize("name", [OUT, IN_OCTETS])
@pytest.mark.parametrize(
    ("targets", "resource", "point", "device"),
    [
        # A relay: the resource only, the point only, both, none.
        (RELAY, {"net.host.name": "SW-1"}, {}, "leaf1"),
        (RELAY, {"host.name": "leaf9"}, {}, None),
        (RELAY, {}, {"source": "leaf2"}, "leaf2"),
        (RELAY, {}, {"source": "leaf2.example.net:57400"}, "leaf2"),
        (RELAY, {}, {"source": "192.0.2.9:57401"}, "leaf3"),
        (RELAY, {}, {"source": "192.0.2.9:57400"}, None),
        (RELAY, {}, {"source": "leaf2", "target": "OC-YANG"}, "leaf2"),
        (RELAY, {}, {"source": "leaf9"}, None),
        (RELAY, {}, {}, None),
        (RELAY, NVOS, {}, None),
        (RELAY, {"source": "leaf1"}, {"host.name": "sw-1"}, "leaf1"),
        (RELAY, {"source": "leaf1"}, {"target": "OC-YANG"}, "leaf1"),
        (RELAY, {"source": "leaf1"}, {"source": "leaf2"}, None),
        (RELAY, {"source": "leaf1"}, {"target": "leaf2"}, None),
        (RELAY, {"source": "leaf1"}, {"source": "leaf9"}, None),
        (RELAY, {"host.name": "leaf9"}, {"source": "leaf1"}, None),
        # A device for itself: also its points may name no other one.
        (PEER, {}, {}, "leaf1"),
        (PEER, NVOS, {}, "leaf1"),
        (PEER, {"host.name": "leaf1"}, {}, "leaf1"),
        (PEER, {"host.name": "leaf1"}, {"source": "SW-1"}, "leaf1"),
        (PEER, {}, {"source": "leaf1"}, "leaf1"),
        (PEER, {}, {"source": "leaf2"}, None),
        (PEER, {}, {"source": "leaf9"}, None),
        (PEER, {"host.name": "leaf1"}, {"source": "leaf2"}, None),
        (PEER, {"host.name": "leaf1"}, {"device": "leaf2"}, None),
        (PEER, {"host.name": "leaf2"}, {"source": "leaf1"}, None),
        # Several devices behind one address.
        (PEERS, {}, {"source": "leaf2"}, "leaf2"),
        (PEERS, {"source": "leaf1"}, {"source": "leaf2"}, None),
        (PEERS, {}, {}, None),
    ],
)
async def test_a_point_is_stored_of_the_device_that_it_may_name(
    name: str, targets: Any, resource: dict[str, str], point: dict[str, str], device: str | None
) -> None:
    """A plain counter and one with a cell, as a new series and as a known one; others are refused and counted."""
    port = SWP1 if name == OUT else {"interface_name": "e1"}
    async with sending(*targets) as now:
        for _ in range(2):
            answer = await now.send({name: [Given(1, port | point)]}, resource=resource)
            assert (answer.rejected, bool(answer.message)) == ((1, True) if device is None else (0, False))
        assert stored(now) == ({device} - {None})


@pytest.mark.parametrize(
    ("targets", "resource", "point", "device"),
    [
        (RELAY, {"server.address": "10.0.0.9", "service.name": "dcgm"}, {"Hostname": "leaf1.example.net"}, "leaf1"),
        (RELAY, {"k8s.node.name": "leaf2"}, {"Hostname": "leaf1", "device": "nvidia0"}, "leaf1"),
        (RELAY, {"host.name": "leaf1"}, {"device": "nvidia0"}, "leaf1"),
        (RELAY, {"server.address": "10.0.0.9"}, {"Hostname": "leaf9"}, None),
        (RELAY, {"server.address": "10.0.0.9"}, {}, None),
        (PEER, {"host.name": "leaf1"}, {"Hostname": "leaf2"}, None),
        (PEER, {"host.name": "leaf2"}, {"Hostname": "leaf1"}, None),
        (PEER, {}, {"Hostname": "leaf2"}, None),
        (PEER, {}, {"Hostname": "leaf1"}, "leaf1"),
    ],
)  # fmt: skip
async def test_a_table_may_name_the_attributes_of_the_device(
    targets: Any, resource: dict[str, str], point: dict[str, str], device: str | None
) -> None:
    """The resource of dcgm-exporter is the exporter, and its points name the host."""
    async with sending(*targets) as now:
        answer = await now.send({"DCGM_FI_DEV_GPU_UTIL": [Given(50.0, GPU | point)]}, resource=resource)
        assert answer.rejected == (device is None)
        assert stored(now) == ({device} - {None})


async def test_senders_wait_while_a_device_is_set_up() -> None:
    """Its points would be rejected, which a sender does not repeat."""
    async with sending(*RELAY) as now:
        sender = now.receiver.sender(Peer(SENDER[0], frozenset()))
        with now.receiver.request(sender):
            pass
        now.receiver.configure(params_of(Params, {"targets": (*RELAY, {"name": "leaf4"})}).all_targets())
        with pytest.raises(Overload, match="set up"), now.receiver.request(sender):
            pass


async def test_a_refusal_names_the_device_and_what_to_set() -> None:
    async with sending(*RELAY) as now:
        assert "'leaf9'" in (await now.send({OUT: [Given(1, SWP1 | {"source": "leaf9"})]})).message
        assert (
            "'leaf2'"
            in (await now.send({OUT: [Given(1, SWP1 | {"source": "leaf2"})]}, resource={"source": "leaf1"})).message
        )
    async with sending(*PEER) as now:
        assert (
            "expected: sw-1; set node, or relay"
            in (await now.send({OUT: [Given(1, SWP1 | {"source": "leaf2"})]})).message
        )


async def test_units_and_neighbors_are_of_the_device_that_their_points_name() -> None:
    depth, cell = "nvswitch_interface_shared_buffer_port_tc_watermark", "nvswitch_buffer_cell_size_bytes"
    leaf1, leaf2 = ({"source": name} for name in ("leaf1", "leaf2"))
    neighbor = SWP1 | {"system_name": "spine1", "port_id": "swp9"}
    tc3 = SWP1 | {"tc": "3"}
    async with sending(*RELAY) as now:
        units = [Given(192, leaf1), Given(144, leaf2), Given(1, {"source": "leaf9"})]
        assert (await now.send({cell: units})).rejected == 1
        assert await now.send({depth: [Given(10, tc3 | leaf1), Given(10, tc3 | leaf2)]}) == Answer()
        assert await now.send({"nvswitch_lldp_neighbor_info": [Given(1, neighbor | leaf2)]}) == Answer()
        for name, size in (("leaf1", 1920), ("leaf2", 1440)):
            assert now.values(name) == [("swp1", Metric.QUEUE_WATERMARK_BYTES, 3, size)]
            now.receiver.devices[name].output.emit_facts()
        assert [facts.device for facts in now.published.of(Facts, "leaf2")] == ["leaf2"]
        assert not now.published.of(Facts, "leaf1")


GNMIC = {"interface_name": "Ethernet1/1", "source": "leaf1:57400", "subscription-name": "s"}
"""The attributes of gnmic's points by default, as recorded (main branch of November 2026); its resource has none."""


def of_gnmic(values: dict[str, list[int]]) -> otlp.ExportMetricsServiceRequest:
    """Return a request as gnmic encodes it: a metric for each point, with shuffled attributes before the value."""
    request = otlp.ExportMetricsServiceRequest()
    scope = request.resource_metrics.add().scope_metrics.add()
    orders = itertools.cycle(itertools.permutations(GNMIC.items()))
    for name, numbers in values.items():
        for second, number in enumerate(numbers):
            point = Given(None, dict(next(orders)), 1_795_920_092_001_631_361 + second * 10**9).message()
            value = otlp.NumberDataPoint(as_int=number)
            points = otlp.Points(data_points=[point.SerializeToString() + value.SerializeToString()])
            scope.metrics.add(name=name.encode(), gauge=points)
    return request


async def test_the_default_output_of_gnmic_is_read() -> None:
    """Its attributes come in any order: a series is the set of its attributes, so no counter falls."""
    numbers = [154_150_933_418_794_228 + step for step in range(0, 6000, 500)]
    values = {IN_OCTETS: numbers, "_interfaces_interface_state_counters_in_discards": [0] * len(numbers)}
    async with sending(*RELAY) as now:
        assert await now.send_bytes(of_gnmic(values).SerializeToString()) == Answer()
        assert stored(now) == {"leaf1"}
        assert {row for row, _, _, _ in now.values()} == {"Ethernet1/1"}
        assert now.of(Metric.RX_BYTES) == [float(number) for number in numbers]


@pytest.mark.parametrize("name", ["nvswitch_interface_tc_tx_no_buffer_discard_uc", "nvswitch_interface_tc_tx_frames"])
async def test_attributes_in_another_order_are_the_same_series(name: str) -> None:
    """A start after a reset is seen in any order, of a part of a sum too."""
    start = 1_700_000_000 * 10**9
    points = [(100, 1), (150, 1), (160, 25), (200, 25), (230, 25)]
    async with sending() as now:
        for number, (value, start_s) in enumerate(points):
            labels = {"interface": "swp1", "tc": "3", "a": "b"}
            order = list(itertools.permutations(labels.items()))[number]
            given = Given(value, dict(order), start + (number + 1) * 10 * 10**9, start + start_s * 10**9)
            assert await now.send({name: [given]}, kind="sum", temporality=CUMULATIVE) == Answer()
        assert {value[:3] for value in now.values()} == {("swp1", now.values()[0][1], 3)}
        assert [value[3] for value in now.values()] == [100, 150, 310, 350, 380]


async def test_a_counter_that_comes_as_text_is_no_new_series_each_time() -> None:
    """With `json_ietf` and `strings-as-attributes`: 64-bit numbers are strings."""
    async with sending(*RELAY) as now:
        for number in range(5):
            point = Given(1.0, GNMIC | {"value": str(2**60 + number * 1024)}, (1_700_000_000 + number) * 10**9)
            assert await now.send({IN_OCTETS: [point]}) == Answer()
        assert now.of(Metric.RX_BYTES) == [2.0**60 + number * 1024 for number in range(5)]
        bad = Given(1.0, GNMIC | {"value": "many"})
        assert (await now.send({IN_OCTETS: [bad]})).rejected == 1
