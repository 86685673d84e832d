"""Tests the simulated switches and the collector, over real gRPC on this machine."""

import asyncio
from contextlib import suppress

import numpy as np
import pytest

from collectors.gnmi.params import Params, Target
from lab.constants import with_constants
from lab.world.demo_fabric import DemoShape
from lab.world.effects import Interval
from lab.world.faults.devices import Reboot
from lab.world.faults.links import AdminDown, LinkFlap
from lab.world.ground_truth import AnyFault
from streams.fabric.catalogue import Metric
from streams.fabric.ids import Port
from streams.fabric.inventory import Inventory, Link
from streams.wire.models import ABSENT_COUNTER, NO_INDEX, CollectorStatus, Event, EventKind, Facts, Samples
from tests.integration.collectors.fabric import collecting, running

S = 1_000_000_000


def fabric_links(inventory: Inventory) -> list[Link]:
    return [link for link in inventory.links if link.role == "fabric-link"]


def whole_readings(samples: list[Samples]) -> list[Samples]:
    """Return the readings after the first that have every counter: a busy machine may send one in two messages."""
    return [one for one in samples[1:] if not (one.counters.values == ABSENT_COUNTER).any()]


@pytest.mark.parametrize("encoding", ["proto", "json_ietf", "json"])
async def test_every_switch_is_read_whole_in_each_encoding(encoding: str) -> None:
    """Each has samples of every port with counters, states, speed and boot id; facts; status; numbers without a gap."""
    async with running(encoding=encoding) as now:
        await now.published.until(lambda: all(whole_readings(now.published.of(Samples, n)) for n in now.world.switches))
        await now.published.until(
            lambda: {facts.device for facts in now.published.of(Facts)} == set(now.world.switches)
        )
        for name in now.world.switches:
            samples = now.published.of(Samples, name)
            assert [sample.sequence for sample in samples] == list(range(1, len(samples) + 1))
            whole = whole_readings(samples)[0]
            assert set(whole.row) == set(now.world.ports[name])
            assert whole.boot_id == now.world.device(name, whole.sampled_at_ns).boot_ns
            assert not np.isnan(whole.gauges.values).any()
            sessions = {Metric.BFD_SESSION_UP, Metric.BGP_SESSION_UP}
            assert set(whole.gauges.metric) == {Metric.OPER_UP, Metric.ADMIN_UP, Metric.SPEED_BPS, *sessions}
            row = whole.row[0]
            port = now.world.port(name, row, whole.sampled_at_ns)
            sent = dict(zip(whole.counters.metric, whole.counters.values[:, 0].tolist(), strict=True))
            assert sent[Metric.RX_BYTES] == port.rx_bytes
            assert sent[Metric.LINK_TRANSITIONS] == port.transitions
            assert set(whole.counters.index) == {NO_INDEX}
        facts = now.published.of(Facts, "spine1")[-1]
        assert (facts.vendor, facts.serial) == ("Railsight", "RS-SPINE1")
        assert facts.booted_at_ns == now.world.device("spine1", facts.observed_at_ns).boot_ns
        assert {n.remote_device for n in facts.neighbors} >= {"pod1-leaf1"}
        assert all(now.published.of(CollectorStatus, name)[-1].reachable for name in now.world.switches)


async def test_both_ends_report_a_flap_within_a_second_and_a_shut_port_its_own_end() -> None:
    """Each down and up has its own time; the administratively shut end sends ADMIN_DOWN too, its far end does not."""

    def faulty(inventory: Inventory, now_ns: int) -> list[AnyFault]:
        downs = tuple(Interval(now_ns + int(t * S), now_ns + int((t + 0.2) * S)) for t in (2.0, 2.4, 2.8))
        flaps, shut = fabric_links(inventory)[:2]
        return [LinkFlap(flaps, downs), AdminDown(shut, shut.a, Interval(now_ns + 2 * S, now_ns + 3 * S))]

    async with running(faulty) as now:
        flaps, shut = fabric_links(now.world.inventory)[:2]

        def of(end: Port) -> list[Event]:
            return [event for event in now.published.of(Event, end.device) if event.port == end.port]

        await now.published.until(lambda: [len(of(e)) for e in (flaps.a, flaps.z, shut.a, shut.z)] == [6, 6, 4, 2])
        for end in (flaps.a, flaps.z):
            events = of(end)
            assert [event.kind for event in events] == [EventKind.LINK_DOWN, EventKind.LINK_UP] * 3
            assert {event.at_ns for event in events} <= set(now.world.changes(end.device))
            assert all(0 <= event.received_at_ns - event.at_ns < S for event in events)
        assert {event.kind for event in of(shut.z)} == {EventKind.LINK_DOWN, EventKind.LINK_UP}
        assert {event.kind for event in of(shut.a)} == {
            EventKind.LINK_DOWN, EventKind.LINK_UP, EventKind.ADMIN_DOWN, EventKind.ADMIN_UP,
        }  # fmt: skip
        for device in {flaps.a.device, flaps.z.device}:
            numbers = [event.sequence for event in now.published.of(Event, device)]
            assert numbers == list(range(1, len(numbers) + 1))


async def test_a_reboot_changes_the_boot_id_and_is_reported_afterwards() -> None:
    """The device is reported unreachable, then found with another boot id and counters that restarted."""

    def reboot(inventory: Inventory, now_ns: int) -> list[AnyFault]:
        return [Reboot("spine1", Interval(now_ns + 2 * S, now_ns + 4 * S))]

    async with running(reboot) as now:
        await now.published.until(lambda: any(e.kind is EventKind.DEVICE_REBOOT for e in now.published.of(Event)))
        await now.published.until(lambda: len({s.boot_id for s in now.published.of(Samples, "spine1")}) == 2)
        before, after = now.published.of(Samples, "spine1")[0], now.published.of(Samples, "spine1")[-1]
        rx = before.counters.metric.index(Metric.RX_BYTES)
        assert after.counters.values[rx].max() < before.counters.values[rx].min()
        assert after.boot_id == now.world.device("spine1", after.sampled_at_ns).boot_ns
        reached = [status.reachable for status in now.published.of(CollectorStatus, "spine1")]
        assert False in reached[reached.index(True) :] and reached[-1]
        assert not any(event.kind is EventKind.LINK_DOWN for event in now.published.of(Event, "spine1"))


async def test_a_stopped_target_is_reported_and_found_again_without_effect_on_others() -> None:
    """Its server is killed and restarts on the same port; no other target misses a sample."""
    async with running() as now:
        await now.published.until(lambda: all(now.published.of(Samples, name) for name in now.world.switches))
        await now.face.close("spine1")
        await now.published.until(lambda: not now.published.of(CollectorStatus, "spine1")[-1].reachable)
        assert now.published.of(CollectorStatus, "spine1")[-1].error
        lost, others = len(now.published.of(Samples, "spine1")), len(now.published.of(Samples, "pod1-leaf1"))
        await now.published.until(lambda: len(now.published.of(Samples, "pod1-leaf1")) >= others + 2)
        assert len(now.published.of(Samples, "spine1")) == lost
        await now.face.open("spine1")
        await now.published.until(lambda: len(now.published.of(Samples, "spine1")) > lost)
        await now.published.until(lambda: now.published.of(CollectorStatus, "spine1")[-1].reachable)


async def test_an_unresponsive_target_is_detected_by_keep_alive() -> None:
    """A device that stops responding without closing its connection is lost after keep-alive and its timeout."""
    async with running() as now:
        host, port = now.face.addresses["spine1"].split(":")
        passes, ended = asyncio.Event(), asyncio.Event()
        passes.set()

        async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(OSError):
                while data := await reader.read(65536):
                    await passes.wait()
                    writer.write(data)
            with suppress(OSError):
                writer.write_eof()

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
            await asyncio.wait(
                {asyncio.create_task(carry(reader, far_writer)), asyncio.create_task(carry(far_reader, writer))}
            )
            for end in (writer, far_writer):
                end.close()
            ended.set()

        server = await asyncio.start_server(relay, "127.0.0.1", 0)
        target = Target(name="spine1", address=f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
        # No sample is due for so long that only keep-alive can detect it.
        slow = with_constants(Params, keepalive_s=1, keepalive_timeout_s=0.5)(targets=(target,), cadence_s=60)
        async with collecting(slow) as (retained, _):
            await retained.until(lambda: bool(retained.of(Samples)))
            passes.clear()
            await retained.until(lambda: not retained.of(CollectorStatus)[-1].reachable, within_s=30)
            assert retained.of(CollectorStatus)[-1].error
        passes.set()
        await asyncio.wait_for(ended.wait(), 30)
        server.close()
        await server.wait_closed()


async def test_a_switch_of_two_hundred_ports_is_one_message_a_sample() -> None:
    """A burst of hundreds of notifications is one complete message."""
    async with running(shape=DemoShape(pods=1, hosts=1, planes=1, spines=1, uplinks=25), cadence_s=2) as now:

        def are_whole(burst: list[Samples]) -> bool:
            gaps = np.diff([one.sampled_at_ns for one in burst]) / S
            is_complete = all((one.counters.values != 2**64 - 1).all() and len(one.row) == 200 for one in burst)
            return is_complete and bool(np.all((gaps > 1.5) & (gaps < 2.5)))

        def has_three() -> bool:
            """Return True if three in a row are whole: a busy machine sends a burst with a pause as two."""
            found = now.published.of(Samples, "spine1")
            return any(are_whole(found[first : first + 3]) for first in range(len(found) - 2))

        await now.published.until(has_three)


async def test_refused_records_do_not_stop_the_reading() -> None:
    """A publisher that refuses records does not stop the collector; lost samples are a gap in the sequence numbers."""
    async with running() as now:
        await now.published.until(lambda: bool(now.published.of(Samples, "spine1")))
        now.published.is_full = True
        last = now.published.of(Samples, "spine1")[-1].sequence
        await asyncio.sleep(1.2)  # more than two cadences pass
        now.published.is_full = False
        await now.published.until(lambda: now.published.of(Samples, "spine1")[-1].sequence > last)
        assert now.published.of(Samples, "spine1")[-1].sequence > last + 1
