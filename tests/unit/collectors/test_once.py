"""Tests `collect --once`: the first reading of each device, and what is reported of those that give none."""

import asyncio

import pytest

from collectors.core.context import CollectorContext
from collectors.core.once import NullPublisher, first_readings
from streams.fabric.catalogue import Metric
from streams.wire.errors import Retry
from streams.wire.models import CollectorStatus, Samples, Source
from streams.wire.topics import COLLECTOR_STATUS, SAMPLES, encode
from tests.worlds.observations import at, samples


def status(device: str, *, reachable: bool, error: str = "") -> CollectorStatus:
    return CollectorStatus("c", 1, Source.SOURCE_GNMI, device, at(0), reachable, error)


async def read(*devices: str, bound_s: float = 30, give_up_s: float = 10, **errors: str) -> list[Samples]:
    """Return the readings of a collector that reads leaf1, and fails at the devices of `errors`."""
    context = CollectorContext(NullPublisher(), "once")

    async def collect(context: CollectorContext) -> None:
        for device, error in errors.items():
            context.publisher.offer(encode(COLLECTOR_STATUS, status(device, reachable=False, error=error)))
        context.publisher.offer(encode(COLLECTOR_STATUS, status("leaf1", reachable=True)))
        context.publisher.offer(encode(SAMPLES, samples("leaf1", 1, {Metric.OPER_UP: {"e1": 1}})))
        await asyncio.Event().wait()

    return [one async for one in first_readings(devices, context, collect, bound_s, give_up_s)]


async def test_each_device_that_is_read_is_printed() -> None:
    """It ends as soon as every device gave a reading."""
    (reading,) = await asyncio.wait_for(read("leaf1"), 20)
    assert reading.device == "leaf1"


async def test_a_device_that_fails_ends_it_with_its_error() -> None:
    """Long before the bound, with a line for each such device; the others are printed before."""
    with pytest.raises(Retry) as failed:
        await asyncio.wait_for(
            read("leaf1", "leaf3", "leaf2", bound_s=3600, give_up_s=0.1, leaf3="refused", leaf2="no answer"), 20
        )
    assert str(failed.value).splitlines() == [
        "no reading of leaf2: no answer; check its address and login",
        "no reading of leaf3: refused; check its address and login",
    ]


async def test_a_silent_device_is_waited_for_until_the_bound() -> None:
    """Another device's error does not end it before."""
    with pytest.raises(Retry) as failed:
        await asyncio.wait_for(read("leaf2", "leaf3", bound_s=0.5, give_up_s=0.0, leaf3="refused"), 20)
    assert str(failed.value).splitlines() == [
        "no reading of leaf2: nothing received within 0.5 s; check its address and login",
        "no reading of leaf3: refused; check its address and login",
    ]
