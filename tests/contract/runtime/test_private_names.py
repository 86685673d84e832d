"""The private names of Faust and aiokafka that streams/runtime stands on are what they were when it was measured.

A failure here names the code to check before a version of either is raised.
"""

import inspect
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import aiokafka
import faust
import pytest
from aiokafka.client import AIOKafkaClient
from aiokafka.conn import AIOKafkaConnection
from aiokafka.consumer.fetcher import Fetcher, FetchResult, PartitionRecords
from aiokafka.consumer.group_coordinator import GroupCoordinator
from faust.app.base import App
from faust.transport import conductor, consumer
from faust.transport.drivers import aiokafka as driver
from faust.types import ConsumerMessage
from mode.threads import ServiceThread

from streams.config.kafka import KafkaSettings
from streams.config.runtime import RuntimeSettings
from streams.runtime.faust_app import ChunkApp, ChunkConsumer, make_app
from streams.runtime.ordered_input import Chunk


def parameters(function: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(function).parameters)


def test_the_versions_are_those_that_were_measured() -> None:
    """Another version of either is taken on purpose, with this suite and the integration tests at hand."""
    assert (version("faust-streaming"), version("aiokafka")) == ("0.15.3", "0.14.0")


@pytest.mark.parametrize(
    ("owner", "name", "expected"),
    [
        (consumer.Consumer, "getmany", ["self", "timeout"]),
        (consumer.Consumer, "_drain_messages", ["self", "fetcher"]),
        (consumer.Consumer, "_wait_next_records", ["self", "timeout"]),
        (consumer.Consumer, "_filter_tps_with_pending_acks", ["self", "topics"]),
        (consumer.Consumer, "_new_offset", ["self", "tp"]),
        (consumer.Consumer, "on_partitions_revoked", ["self", "revoked"]),
        (consumer.Consumer, "perform_seek", ["self"]),
        (consumer.ThreadDelegateConsumer, "assignment", ["self"]),
        (consumer.ThreadDelegateConsumer, "highwater", ["self", "tp"]),
        (consumer.ThreadDelegateConsumer, "seek_wait", ["self", "partitions"]),
        (consumer.Consumer, "verify_all_partitions_active", ["self"]),
        (consumer.ThreadDelegateConsumer, "_new_consumer_thread", ["self"]),
        (driver.AIOKafkaConsumerThread, "_create_worker_consumer", ["self", "transport"]),
        (driver.AIOKafkaConsumerThread, "on_partitions_assigned", ["self", "assigned", "generation_id"]),
        (App, "_new_transport", ["self"]),
    ],
)
def test_what_is_overridden_or_called_is_there_with_its_arguments(owner: type, name: str, expected: list[str]) -> None:
    """Each private method has the arguments that our override takes or our call gives."""
    assert parameters(getattr(owner, name)) == expected


@pytest.mark.parametrize(
    ("function", "source"),
    [
        # Who calls what we override, and so decides when it is called.
        (consumer.Consumer.force_commit, "self._filter_tps_with_pending_acks(topics)"),
        (consumer.Consumer._filter_committable_offsets, "self._new_offset(tp)"),
        (consumer.Consumer._wait_next_records, "self._getmany("),
        (aiokafka.AIOKafkaConsumer.start, "isolation_level=self._isolation_level"),
        # Faust's assignor is chosen by this setting alone: co-partitioned, where the default is not.
        (driver.AIOKafkaConsumerThread._create_worker_consumer, "self.app.conf.table_standby_replicas > 0"),
        (driver.ConsumerRebalanceListener.on_partitions_assigned, "app.consumer_generation_id = generation"),
        # A revocation stops the flow, empties the agents' buffers and waits for nothing of ours.
        (App._on_partitions_revoked, "consumer.stop_flow"),
        (App._on_partitions_revoked, "self.flow_control.clear"),
        (consumer.Consumer.on_stop, "self.app.conf.stream_wait_empty"),
        (driver.Consumer._new_consumer_thread, "AIOKafkaConsumerThread(self, loop=self.loop, beacon=self.beacon)"),
        # The thread receives a new assignment, in the thread, before anything of it is handed out.
        (driver.ConsumerRebalanceListener.on_partitions_assigned, "self._thread.on_partitions_assigned("),
        (Fetcher._get_actions_per_node, "elif tp_state.paused:"),
        (aiokafka.AIOKafkaConsumer.start, "fetch_max_wait_ms=self._fetch_max_wait_ms"),
        # The consumer's thread runs on the loop that it is given, and closes it.
        (consumer.ConsumerThread.__init__, "super().__init__(**kwargs)"),
        (ServiceThread.__init__, "self.thread_loop = thread_loop or"),
        (ServiceThread._start_thread, "self._close_thread_loop_on_stop"),
        # Fetched records are taken out of these without `getmany`, and are reported as there does.
        (Fetcher._proc_fetch_request, "self._records[tp] = FetchResult("),
        (Fetcher.fetched_records, "waiter = self._create_fetch_waiter()"),
        (Fetcher.fetched_records, "self._notify(self._wait_consume_future)"),
        (Fetcher.fetched_records, "res_or_error.check_raise()"),
        (FetchResult.check_assignment, "self._partition_records.next_fetch_offset"),
        (FetchResult._update_position, "self._partition_records.next_fetch_offset"),
        (PartitionRecords._unpack_records, "records = self._records"),
        (PartitionRecords._unpack_records, "self._consume_aborted_up_to(next_batch.base_offset)"),
        (PartitionRecords._unpack_records, "self._contains_abort_marker(next_batch)"),
        (PartitionRecords._unpack_records, "self._aborted_producers.discard(next_batch.producer_id)"),
        (PartitionRecords._unpack_records, "if self._check_crcs and not next_batch.validate_crc()"),
        (aiokafka.AIOKafkaConsumer.getmany, "with self._subscription.fetch_context()"),
        (aiokafka.AIOKafkaConsumer.getmany, "self._coordinator.check_errors()"),
        (PartitionRecords._unpack_records, "self.next_fetch_offset = next_batch.next_offset"),
        # An error stops the coordination of a group until `check_errors` takes it, which Faust never does.
        (GroupCoordinator._push_error_to_user, "self._pending_exception = exc"),
        (GroupCoordinator.check_errors, "self._error_consumed_fut.set_result(None)"),
        (GroupCoordinator._coordination_routine, "raise kafka_exc from exc"),
        (driver.AIOKafkaConsumerThread._fetch_records, "fetcher.fetched_records("),
        # Every connection is made by `create_conn`, whose causes streams.wire.kafka_refusals states.
        (AIOKafkaClient.bootstrap, "bootstrap_conn = await create_conn("),
        (AIOKafkaClient.bootstrap, 'raise KafkaConnectionError(f"Unable to bootstrap from {self.hosts}")'),
        (AIOKafkaClient._get_conn, "await create_conn("),
        (AIOKafkaConnection.close, "error.__cause__ = exc"),
        # A write that a closed connection refuses must leave it as a KafkaError: streams.wire.kafka_refusals.
        (AIOKafkaConnection.send, "self._writer.write(size + message)\n        except OSError as err:"),
        (AIOKafkaConnection.authenticator_oauth, "return OAuthAuthenticator("),
        (AIOKafkaConnection._do_sasl_handshake, "auth_bytes = resp.sasl_auth_bytes"),
    ],
)
def test_faust_still_does_what_the_runner_relies_on(function: Callable[..., Any], source: str) -> None:
    """Lines of Faust that the runner's promises rest on are still there."""
    assert source in inspect.getsource(function)


def test_a_message_holds_what_a_chunk_gives_it() -> None:
    """ConsumerMessage takes its arguments in the order in which a chunk gives them."""
    assert parameters(ConsumerMessage)[:12] == [
        "topic", "partition", "offset", "timestamp", "timestamp_type", "headers", "key", "value", "checksum",
        "serialized_key_size", "serialized_value_size", "tp",
    ]  # fmt: skip
    assert "generation_id" in parameters(ConsumerMessage)


def test_a_fetch_hands_out_only_what_follows_the_last_seek() -> None:
    """Aiokafka drops what it had fetched for another position, so nothing stale follows a seek."""
    assert parameters(Fetcher.fetched_records) == ["self", "partitions", "timeout", "max_records"]
    checked = inspect.getsource(inspect.getmodule(Fetcher).FetchResult)  # type: ignore[union-attr]
    assert "position" in checked and "return False" in checked


def test_the_producer_behind_faust_is_aiokafkas() -> None:
    """Deliveries are awaited at `app.producer._producer`, made without idempotence, which keeps to the given order."""
    assert driver.Producer._producer is None
    assert driver.Producer._producer_type.fget(None) is aiokafka.AIOKafkaProducer  # type: ignore[attr-defined]
    assert parameters(aiokafka.AIOKafkaProducer.send) == [
        "self", "topic", "value", "key", "partition", "timestamp_ms", "headers",
    ]  # fmt: skip


def test_the_app_delivers_chunks_through_our_consumer(tmp_path: Path) -> None:
    """An app of ours has our consumer, one agent over all its topics, and neither tables nor autodiscovery."""

    async def take(chunk: Chunk, generation: int) -> None:
        raise AssertionError("nothing is running")

    app = make_app(
        "group", ["b", "a"], take, KafkaSettings.model_validate({}), RuntimeSettings.model_validate({}), tmp_path
    )
    assert isinstance(app, ChunkApp) and isinstance(app, faust.App)
    assert app.transport.Consumer is ChunkConsumer
    (agent,) = app.agents.values()
    assert (agent.concurrency, list(agent.channel.topics)) == (1, ["b", "a"])
    assert not app.tables
    conf: Any = app.conf  # Faust's own types of its settings contradict each other
    assert conf.autodiscover is False
    assert conf.table_standby_replicas == 1


def test_the_conductor_looks_callbacks_up_by_topic_and_partition() -> None:
    """A chunk finds its agent by `message.tp`, like a record."""
    assert "get_callback_for_tp(message.tp)" in inspect.getsource(conductor.Conductor._compile_message_handler)
