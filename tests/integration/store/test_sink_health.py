"""The health of `railsight persist` while ClickHouse and the brokers come and go."""

import asyncio
from pathlib import Path

import pytest
from pydantic import SecretStr

from streams.config.kafka import KafkaSettings
from streams.embedded.clickhouse import ClickHouseParams, EmbeddedClickHouse
from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams
from streams.runtime.admin import ensure_topics
from streams.store.clickhouse import ClickHouse
from streams.store.migrate import apply, shipped_migrations
from streams.store.params import StoreParams
from streams.wire import topics
from tests.fixtures.ports import free_port
from tests.integration.runtime.health_rig import running
from tests.integration.store.rig import producing, samples

pytestmark = pytest.mark.timeout(280)


async def test_a_sink_that_starts_before_its_servers_waits_and_then_stores(tmp_path: Path) -> None:
    """It is live and not ready while ClickHouse or Kafka is away, names which, and ends in time with neither."""
    params = ClickHouseParams(data=tmp_path / "clickhouse", port=free_port())
    kafka = KafkaParams(data=tmp_path / "kafka", port=free_port())
    with EmbeddedClickHouse(params) as clickhouse:
        store = StoreParams(url=clickhouse.url, password=SecretStr(clickhouse.password), database="test")
        apply(ClickHouse(store), shipped_migrations())
    env = {
        "RAILSIGHT__STORE__URL": store.url,
        "RAILSIGHT__STORE__DATABASE": store.database,
        "RAILSIGHT__STORE__PASSWORD": store.password.get_secret_value(),
    }
    constants = {
        "store.timeout_s": 2,
        "persist.retry_backoff_max_s": 0.5,
        "persist.linger_s": 0.2,
        "persist.linger_max_s": 0.2,
    }
    with running(tmp_path / "sink.log", env, "persist", "--bootstrap", f"127.0.0.1:{kafka.port}", **constants) as sink:
        assert await sink.until_not_ready("start") == "start: not complete"
        await sink.until_logged("ClickHouse")
        clickhouse = EmbeddedClickHouse(params)
        await asyncio.to_thread(clickhouse.start)
        try:
            await sink.until_not_ready("brokers: no answer yet")
            await sink.until_logged("Kafka")
            with EmbeddedKafka(kafka) as broker:
                settings = KafkaSettings(bootstrap=broker.bootstrap)
                await ensure_topics(settings)
                await sink.until_ready()
                await asyncio.to_thread(clickhouse.stop)
                async with producing(broker.bootstrap) as producer:
                    record = topics.encode(topics.SAMPLES, samples("leaf-1", 0, 1))
                    await producer.send_and_wait(
                        record.topic.name, record.value, key=record.key, headers=list(record.headers), partition=0
                    )
                await sink.until_not_ready("clickhouse: a block of railsight.samples.v1/0 is not acknowledged for")
                await asyncio.to_thread(clickhouse.start)
                await sink.until_ready()
            await sink.until_not_ready("brokers: no answer for")
        finally:
            await asyncio.to_thread(clickhouse.stop)
        sink.terminate()
