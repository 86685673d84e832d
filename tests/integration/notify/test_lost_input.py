"""Retention overtakes the notifier: what was lost is counted and reported, and the work goes on."""

import time

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition

from streams.notify.service import GROUP
from streams.wire.models import Status
from streams.wire.topics import FINDINGS
from tests.fixtures.runtime_bindings import CountedMetrics
from tests.integration.notify.conftest import (
    Receivers,
    Server,
    delete_before,
    fresh,
    losses,
    publish,
    running,
    until,
    until_committed,
)

AT = TopicPartition(FINDINGS.name, 0)


@pytest.mark.peer("prometheus-alertmanager")
async def test_findings_that_were_deleted_unread_are_counted_and_their_pages_end(
    bootstrap: str, producer: AIOKafkaProducer, alertmanager: Server, receivers: Receivers
) -> None:
    """Its end was among them: findings-open no longer has it. A second start reports nothing again."""
    async with running(bootstrap, alertmanager):
        await publish(producer, fresh())
        await until(lambda: receivers.to("on-call"), 30)
        await publish(producer, fresh(revision=2, status=Status.UPDATED))
        await until_committed(bootstrap, GROUP, AT, 2)
    for number in range(6):
        await publish(producer, fresh(id=f"x{number}", revision=1, status=Status.RESOLVED))
    await publish(producer, fresh(revision=3, status=Status.RESOLVED, resolved_at_ns=time.time_ns()))
    await delete_before(bootstrap, AT, 9)
    metrics = CountedMetrics()
    async with running(bootstrap, alertmanager, metrics=metrics):
        await until(lambda: receivers.to("on-call", "resolved"), 30)
        await publish(producer, fresh(id="f2"))
        await until(lambda: len(receivers.to("on-call", "firing")) == 2, 30)
    assert metrics.counts == {"railsight_input_lost_records_total": 7}
    assert await losses(bootstrap) == [("notify", FINDINGS.name, 2, 7)]
    async with running(bootstrap, alertmanager, metrics=metrics):
        await publish(producer, fresh(id="f3"))
        await until(lambda: len(receivers.to("on-call", "firing")) == 3, 30)
    assert metrics.counts == {"railsight_input_lost_records_total": 7}
