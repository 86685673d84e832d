"""Publishes an InputLoss with the producer of a part that is no stage."""

import asyncio
import logging
from typing import Any

from aiokafka.errors import KafkaError

from streams.wire.models import InputLoss
from streams.wire.topics import INPUT_LOSSES, encode

log = logging.getLogger(__name__)

_SEND_S = 10.0
"""The loss is in the log and in the metric already: what it delays is the work of the part."""


async def publish_loss(producer: Any, loss: InputLoss) -> None:
    """Send it with an aiokafka producer, once; a failure is logged and not repeated."""
    record = encode(INPUT_LOSSES, loss)
    try:
        async with asyncio.timeout(_SEND_S):
            await producer.send_and_wait(record.topic.name, record.value, key=record.key, partition=0)
    except (KafkaError, TimeoutError) as error:
        reason = str(error) or type(error).__name__
        log.warning(
            "cannot publish a loss of input: topic=%s: %s; check it with `railsight topics`", record.topic.name, reason
        )
