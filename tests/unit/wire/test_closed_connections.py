"""A request on a connection that the broker has closed, on uvloop: a broken connection, and no other error."""

import asyncio

import pytest
import uvloop
from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.admin import ApiVersionRequest

from streams.wire.kafka_refusals import explain_refusals


async def _request_on_a_closed_transport() -> AIOKafkaConnection:
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    connection = AIOKafkaConnection("127.0.0.1", port)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    connection._reader, connection._writer = reader, writer  # without the requests of a login
    connection._read_task = asyncio.create_task(reader.read())
    writer.transport.abort()
    await connection._read_task  # until the loop has closed the handle
    try:
        with pytest.raises(KafkaConnectionError, match="broken"):
            connection.send(ApiVersionRequest())
    finally:
        server.close()
    return connection


def test_a_request_on_a_closed_connection_is_a_broken_connection() -> None:
    """The request is repeated with another connection then, as after every KafkaError."""
    explain_refusals()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert not runner.run(_request_on_a_closed_transport()).connected()
