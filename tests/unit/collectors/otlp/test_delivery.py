"""A sender is answered when Kafka has acknowledged what its request became, and must repeat it otherwise."""

import asyncio
import sys

import pytest

from collectors.otlp.delivery import Overload, Undelivered
from collectors.otlp.receiver import Answer
from streams.fabric.catalogue import Metric
from streams.wire.models import Samples
from tests.fakes import loop
from tests.fixtures.otlp_receiver import Sending, sending
from tests.fixtures.otlp_requests import Given, message

OUT = "nvswitch_interface_if_out_octets"
START_S = 1_700_000_000


def at(second: float, value: int = 1) -> dict[str, list[Given]]:
    """Return a request of one point."""
    return {OUT: [Given(value, {"interface": "swp1"}, int((START_S + second) * 1e9))]}


async def times_of(now: Sending) -> list[int]:
    return [samples.sampled_at_ns // 10**9 - START_S for samples in now.published.of(Samples)]


def test_an_answer_waits_for_the_acknowledgement() -> None:
    """The reading is published at once, and the sender is answered when Kafka has it."""

    async def work() -> None:
        async with sending() as now:
            now.published.acknowledges.clear()
            answer = asyncio.create_task(now.send(at(0)))
            await asyncio.sleep(0.1)
            assert await times_of(now) == [0]
            assert not answer.done()
            now.published.acknowledges.set()
            assert await answer == Answer()

    loop.run(work())


def test_a_sender_without_an_acknowledgement_repeats_its_request() -> None:
    """It waits no longer than a bound; while Kafka is behind, the next request is refused before it is read."""

    async def work() -> None:
        now_s = asyncio.get_running_loop().time
        async with sending() as now:
            now.published.acknowledges.clear()
            with pytest.raises(Undelivered):
                await now.send(at(0))
            assert 2.5 < now_s() < 5.0
            await asyncio.sleep(1.0)
            before_s = now_s()
            with pytest.raises(Undelivered):
                await now.send(at(0))
            assert now_s() == before_s and await times_of(now) == [0]
            now.published.acknowledges.set()
            await asyncio.sleep(0)
            assert await now.send(at(0)) == Answer()
            assert now.of(Metric.TX_BYTES) == [1, 1]

    loop.run(work())


def test_a_reading_that_has_no_room_is_repeated() -> None:
    """A full buffer loses the reading, so that its sender receives no success."""

    async def work() -> None:
        async with sending() as now:
            await now.send(at(0))
            now.published.is_full = True
            with pytest.raises(Undelivered):
                await now.send(at(1))
            with pytest.raises(Overload):  # before it is read
                await now.send(at(1))
            now.published.is_full = False
            await asyncio.sleep(1.0)
            assert await now.send(at(1)) == Answer()
            assert await times_of(now) == [0, 1]

    loop.run(work())


def test_requests_that_arrive_while_others_wait_share_one_flush() -> None:
    """Three requests that arrive during a flush are one reading of the next one."""

    async def work() -> None:
        async with sending() as now:
            now.published.acknowledges.clear()
            answers = [asyncio.create_task(now.send(at(0)))]
            await asyncio.sleep(0.1)
            answers += [asyncio.create_task(now.send(at(second))) for second in (1.0, 1.1, 1.2)]
            await asyncio.sleep(0.1)
            assert await times_of(now) == [0]
            now.published.acknowledges.set()
            assert await asyncio.gather(*answers) == [Answer()] * 4
            assert len(now.published.of(Samples)) == 2

    loop.run(work())


def test_a_request_without_values_needs_no_acknowledgement() -> None:
    """An empty request, and one whose points are all rejected, are answered at once."""

    async def work() -> None:
        async with sending() as now:
            now.published.acknowledges.clear()
            assert await now.send({}) == Answer()
            assert (await now.send({OUT: [Given(1, {"interface": "swp1"}, 0)]})).rejected == 1

    loop.run(work())


def test_a_request_that_waits_does_not_store_its_message() -> None:
    """The limit of memory is that of the records: many senders may wait, each with messages of 4 MiB."""

    async def work() -> None:
        async with sending() as now:
            now.published.acknowledges.clear()
            body = message(at(0)).SerializeToString()
            before = sys.getrefcount(body)
            answer = asyncio.create_task(now.send_bytes(body))
            await asyncio.sleep(0.1)
            # The task's own coroutine and the fixture have it; the receiver does not.
            assert sys.getrefcount(body) == before + 1
            answer.cancel()

    loop.run(work())
