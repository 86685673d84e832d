"""Lets aiokafka take a write to a closed connection for a broken one, whichever event loop runs.

Of a connection that the broker has just closed, asyncio raises an OSError or nothing, and uvloop a RuntimeError
("the handler is closed"), which aiokafka 0.14 does not expect: it would end the process that commits or fetches just
then. This replaces `AIOKafkaConnection.send`; tests/contract/runtime/test_private_names.py checks the names.
"""

from typing import Any

from aiokafka.conn import AIOKafkaConnection, CloseReason
from aiokafka.errors import KafkaConnectionError, KafkaError

_send = AIOKafkaConnection.send


def expect_closed_connections() -> None:
    """Use this for all clients of this process; a second call changes nothing."""
    AIOKafkaConnection.send = _send_or_close


def _send_or_close(connection: Any, *args: Any, **options: Any) -> Any:
    try:
        return _send(connection, *args, **options)
    except KafkaError:  # which is a RuntimeError as well
        raise
    except RuntimeError as error:
        connection.close(reason=CloseReason.CONNECTION_BROKEN)
        raise KafkaConnectionError(f"Connection at {connection.host}:{connection.port} broken: {error}") from error
