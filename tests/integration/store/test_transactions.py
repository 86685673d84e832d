"""The sink stores committed records, and the markers of transactions are neither lost records nor a lag."""

from dataclasses import replace

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from streams.runtime.topic_io import read_to_end
from streams.wire import topics
from tests.fixtures.wire_examples import REMEDIATION
from tests.integration.runtime.rig import wait_until
from tests.integration.store.rig import Database, Rig

pytestmark = pytest.mark.timeout(180)
AT = TopicPartition(topics.REMEDIATIONS.name, 0)


async def test_the_sink_passes_the_markers_of_transactions(rig: Rig, database: Database) -> None:
    """Three committed records and an aborted one: three rows, an offset after the last marker, and no loss."""
    options = rig.settings.client_options()
    async with AIOKafkaProducer(**options, transactional_id=database.name) as producer:
        for number, outcome in enumerate(("committed", "committed", "committed", "aborted")):
            record = topics.encode(topics.REMEDIATIONS, replace(REMEDIATION, id=f"{number}" * 32))
            await producer.begin_transaction()
            await producer.send_and_wait(
                AT.topic, record.value, key=record.key, headers=list(record.headers), partition=0
            )
            await (producer.commit_transaction() if outcome == "committed" else producer.abort_transaction())
    async with AIOKafkaConsumer(**options) as consumer:
        end = (await consumer.end_offsets([AT]))[AT]
    losses = len([one async for one in read_to_end(rig.settings, topics.INPUT_LOSSES)])
    database.start_sink()
    admin = AIOKafkaAdminClient(**options)
    await admin.start()

    async def committed() -> bool:
        try:
            found = await admin.list_consumer_group_offsets(database.name, partitions=[AT])
        except KafkaError:  # the first group of a broker has no coordinator yet
            return False
        return AT in found and int(found[AT].offset) == end

    await wait_until(committed, 90, f"the offset {end}")
    await admin.close()
    assert database.count("remediations") == 3
    assert len([one async for one in read_to_end(rig.settings, topics.INPUT_LOSSES)]) == losses
