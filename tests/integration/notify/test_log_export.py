"""Tests the export by OTLP with a broker: each revision once, through refusals, outages, kills and takeovers."""

import itertools
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from aiokafka import AIOKafkaProducer, TopicPartition

from collectors.core.clock import SystemClock
from lab.constants import params_of
from streams.notify.log_export import GROUP, STAGE, LogExport
from streams.wire.models import Finding, Rejected, Remediation
from streams.wire.otlp_params import OtlpParams
from streams.wire.topics import FINDINGS, INPUT_LOSSES, REJECTED, REMEDIATIONS, Record, encode
from streams.wire.v1 import otlp_pb2
from tests.fakes.otlp_receiver import OK, Answer, Receiver
from tests.fixtures.notify_examples import finding, remediation
from tests.fixtures.runtime_bindings import CountedMetrics
from tests.integration.notify.conftest import (
    delete_before,
    empty_topics,
    losses,
    messages,
    running_command,
    running_service,
    send,
    until,
    until_committed,
)

_FINDINGS, _REMEDIATIONS = (TopicPartition(topic.name, 0) for topic in (FINDINGS, REMEDIATIONS))
_ids = itertools.count(1)


@pytest.fixture
async def bootstrap(broker: str) -> AsyncIterator[str]:
    """Yield the broker with the topics empty and the group without offsets."""
    async with empty_topics(broker, FINDINGS, REMEDIATIONS, REJECTED, INPUT_LOSSES):
        yield broker


@pytest.fixture(params=["http", "grpc"])
def receiver(request: pytest.FixtureRequest) -> Iterator[Receiver]:
    receiver = Receiver(request.param)
    receiver.start()
    yield receiver
    receiver.stop()


def export(bootstrap: str, receiver: Receiver, metrics: CountedMetrics | None = None) -> LogExport:
    """Return the export with short waits."""
    params = params_of(OtlpParams, {"logs": receiver.url, "backoff_s": 0.1, "backoff_max_s": 0.3, "timeout_s": 5})
    kafka = {"bootstrap_servers": bootstrap}
    return LogExport(params, {"service.name": "notify"}, kafka, SystemClock(), metrics or CountedMetrics())


def record(message: Finding | Remediation) -> Record:
    return encode(FINDINGS if isinstance(message, Finding) else REMEDIATIONS, message)


async def publish(producer: AIOKafkaProducer, *published: Finding | Remediation) -> list[str]:
    """Publish revisions and return their uids."""
    await send(producer, *map(record, published))
    return [f"{one.id}/{one.revision}" for one in published]


async def test_each_revision_is_sent_once_through_refusals_outages_and_restarts(
    bootstrap: str, producer: AIOKafkaProducer, receiver: Receiver
) -> None:
    """The receiver is overloaded, is killed and returns; the export ends and starts; revisions are repeated."""
    sent = await publish(producer, finding(id="f1"), remediation(id="r1"), finding(id="f1", revision=2))
    metrics = CountedMetrics()
    service = export(bootstrap, receiver, metrics)
    async with running_service(service):
        await until(lambda: sorted(receiver.uids) == sorted(sent), 60)
        attempts = receiver.attempts
        receiver.respond = lambda _: Answer(503 if receiver.scheme == "http" else grpc.StatusCode.UNAVAILABLE)
        sent += await publish(producer, finding(id="f2"))
        await until(lambda: receiver.attempts >= attempts + 3)
        await until(lambda: service.is_retrying)
        receiver.stop()
        sent += await publish(producer, remediation(id="r1", revision=2), finding(id="f2", revision=3))
        failures = metrics.counts["railsight_log_send_failures_total"]
        await until(lambda: metrics.counts["railsight_log_send_failures_total"] > failures)
        receiver.respond = lambda _: OK
        receiver.start()
        await until(lambda: sorted(receiver.uids) == sorted(sent))
        await until_committed(bootstrap, GROUP, _FINDINGS, 4)
        await until_committed(bootstrap, GROUP, _REMEDIATIONS, 2)
        await until(lambda: not service.is_retrying)
    # Repetitions of the pipeline after a restart, and one new revision.
    await publish(producer, finding(id="f1", revision=2), finding(id="f2", revision=3), remediation(id="r1"))
    sent += await publish(producer, finding(id="f1", revision=3))
    async with running_service(export(bootstrap, receiver)):
        await until_committed(bootstrap, GROUP, _FINDINGS, 7)
        await until_committed(bootstrap, GROUP, _REMEDIATIONS, 3)
    assert sorted(receiver.uids) == sorted(sent)
    assert metrics.counts["railsight_log_records_sent_total"] == len(sent) - 1


async def test_only_the_records_that_a_receiver_cannot_read_are_lost(
    bootstrap: str, producer: AIOKafkaProducer, receiver: Receiver
) -> None:
    """A refused request is halved; an unreadable record of Kafka is rejected; a partial success counts."""
    refusal = Answer(400 if receiver.scheme == "http" else grpc.StatusCode.INVALID_ARGUMENT)
    receiver.respond = lambda body: refusal if b"f3/1" in body else OK
    sent = await publish(producer, *(finding(id=f"f{number}") for number in range(1, 8)))
    await send(producer, Record(FINDINGS, b"k", b"{", ()))
    metrics = CountedMetrics()
    async with running_service(export(bootstrap, receiver, metrics)):
        await until_committed(bootstrap, GROUP, _FINDINGS, 8)
        assert sorted(receiver.uids) == sorted(set(sent) - {"f3/1"})
        partial = otlp_pb2.PartialSuccess(rejected=1, error_message="too old")
        body = otlp_pb2.ExportResponse(partial_success=partial).SerializeToString()
        receiver.respond = lambda _: Answer(body=body)
        await publish(producer, finding(id="f9"))
        await until_committed(bootstrap, GROUP, _FINDINGS, 9)
    (rejected,) = await messages(bootstrap, REJECTED)
    assert isinstance(rejected, Rejected) and (rejected.offset, rejected.stage) == (7, STAGE)
    assert metrics.counts["railsight_log_records_refused_total"] == 2


async def test_a_killed_process_loses_and_doubles_nothing(
    bootstrap: str, producer: AIOKafkaProducer, tmp_path: Path
) -> None:
    """`railsight notify otlp` is killed while the receiver refuses; the next process sends what waited, once."""
    receiver = Receiver("grpc", lambda _: Answer(grpc.StatusCode.UNAVAILABLE))
    receiver.start()
    config = tmp_path / "railsight.toml"
    config.write_text(f'[kafka]\nbootstrap = "{bootstrap}"\n[otlp]\nlogs = "{receiver.url}"\n')
    command: tuple[Any, ...] = ({"otlp.backoff_s": 0.1, "otlp.backoff_max_s": 0.3}, "notify", config, "otlp")
    try:
        sent = await publish(producer, *(finding(id=f"f{number}") for number in range(300)), remediation(id="r1"))
        async with running_command(*command) as killed:
            await until(lambda: receiver.attempts >= 2, 120)
            killed.send_signal(signal.SIGKILL)
            await killed.wait()
        receiver.respond = lambda _: OK
        async with running_command(*command):
            await until(lambda: len(receiver.uids) >= len(sent), 120)
            await until_committed(bootstrap, GROUP, _FINDINGS, 300)
            await until_committed(bootstrap, GROUP, _REMEDIATIONS, 1)
        assert sorted(receiver.uids) == sorted(sent)
    finally:
        receiver.stop()


async def test_records_deleted_before_they_were_sent_are_reported(bootstrap: str, producer: AIOKafkaProducer) -> None:
    """Retention may pass the committed offset during a long outage; the loss is counted and published."""
    receiver = Receiver("http")
    receiver.start()
    try:
        sent = await publish(producer, finding(id="f1"))
        async with running_service(export(bootstrap, receiver)):
            await until_committed(bootstrap, GROUP, _FINDINGS, 1)
        await publish(producer, finding(id="f2"), finding(id="f3"))
        sent += await publish(producer, finding(id="f4"))
        await delete_before(bootstrap, _FINDINGS, 3)
        async with running_service(export(bootstrap, receiver)):
            await until_committed(bootstrap, GROUP, _FINDINGS, 4)
        assert receiver.uids == sent
        assert await losses(bootstrap) == [(STAGE, FINDINGS.name, 1, 2)]
    finally:
        receiver.stop()


async def test_a_second_process_continues_where_the_first_stopped(bootstrap: str, producer: AIOKafkaProducer) -> None:
    """Both run together while revisions are published; each revision has one record."""
    receiver = Receiver("http")
    receiver.start()
    try:
        sent: list[str] = []
        first = export(bootstrap, receiver)
        async with running_service(first):
            await until(lambda: first.is_active, 60)
            async with running_service(second := export(bootstrap, receiver)):
                for number in range(10):
                    sent += await publish(producer, finding(id=f"f{number}"), remediation(id=f"r{number}"))
                await until(lambda: second.is_active and first.is_active, 60)
                sent += await publish(producer, finding(id="g"), remediation(id="s"))
                await until(lambda: sorted(receiver.uids) == sorted(sent), 60)
            sent += await publish(producer, finding(id="h"), remediation(id="t"))
            await until(lambda: sorted(receiver.uids) == sorted(sent), 60)
        assert len(receiver.uids) == len(sent)
    finally:
        receiver.stop()
