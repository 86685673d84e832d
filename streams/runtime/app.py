"""The Faust app of a stage: explicit topics, no autodiscovery, and the settings that measurements chose.

Nothing here decides what a stage does; the agent hands every chunk to the runner.
"""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import faust
from faust.auth import OAuthCredentials

from streams.config.kafka import KafkaSettings
from streams.config.runtime import RuntimeSettings
from streams.runtime.chunk import Chunk
from streams.runtime.chunk_consumer import ChunkApp, ChunkSchema

Take = Callable[[Chunk, int], Awaitable[None]]
"""Takes a chunk, and the generation of the consumer group in which it was fetched."""


def make_app(
    group: str,
    inputs: Sequence[str],
    take: Take,
    kafka: KafkaSettings,
    runtime: RuntimeSettings,
    data: Path,
    bulk: frozenset[str] = frozenset(),
) -> Any:
    """Return an app of one agent over all inputs; `take` must raise nothing, as Faust would go on to the next event.

    Inputs that are `bulk` are assigned to the app, and read by a reader of their own.
    """
    app = ChunkApp(
        group,
        broker=[f"kafka://{address}" for address in kafka.bootstrap.split(",")],
        broker_credentials=_credentials(kafka),
        # The consumer group's.
        broker_session_timeout=runtime.session_s,
        broker_heartbeat_interval=1.0,
        broker_rebalance_timeout=10.0,
        # A new owner begins where its snapshot ends; the group's offsets are for those who watch its lag.
        broker_commit_interval=2.0,
        consumer_group_instance_id=runtime.instance and f"{group}.{runtime.instance}",
        consumer_auto_offset_reset="earliest",
        # Without tables this only chooses Faust's assignor: co-partitioned and sticky, which the default is not.
        table_standby_replicas=1,
        # producer_request_timeout stays at its default: with a short one, an outage loses outputs silently.
        producer_acks=-1,
        # Nearly all bytes are snapshots, compressed already; the many batches are of one Progress each.
        producer_compression_type=None,
        producer_max_request_size=4 << 20,
        # With True, a worker that holds acknowledgements back never stops.
        stream_wait_empty=False,
        stream_buffer_maxsize=64,
        topic_disable_leader=True,
        topic_allow_declare=False,
        autodiscover=False,
        web_enabled=False,
        datadir=data,
        key_serializer="raw",
        value_serializer="raw",
    )
    app.bulk = bulk
    topic = app.topic(*inputs, schema=ChunkSchema())

    async def agent(stream: Any) -> None:
        async for event in stream.noack().events():
            await take(event.value, event.message.generation_id)

    app.agent(topic, name=f"{group}.agent", concurrency=1)(agent)
    return app


def _credentials(kafka: KafkaSettings) -> Any:
    """Return the arguments of a client as Faust has them; `SSLCredentials` takes a context only (others raise)."""
    options = kafka.client_options()
    context = options.get("ssl_context")
    match options.get("sasl_mechanism"):
        case None:
            return None if context is None else faust.SSLCredentials(context=context)
        case "OAUTHBEARER":
            return OAuthCredentials(oauth_cb=options["sasl_oauth_token_provider"], ssl_context=context)
        case mechanism:
            return faust.SASLCredentials(
                username=options["sasl_plain_username"],
                password=options["sasl_plain_password"],
                mechanism=mechanism,
                ssl_context=context,
            )
