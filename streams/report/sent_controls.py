"""Sends the controls of a person, and waits for the answers of `decide`.

The time of a control is the broker's, which a tombstone of CLOCK_KEY returns first; the clock of this machine counts
only for a planned begin and end, so that one that is off by more than a minute is refused.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from aiokafka import TopicPartition

from streams.config.kafka import KafkaSettings
from streams.decide.controls import CLOCK_NS
from streams.fabric.subject_search import FoundSubject, find_subject
from streams.instrument.text import format_duration
from streams.report.records import current_answers, current_controls
from streams.runtime.inventory_reader import topology_in_effect
from streams.runtime.topic_io import kafka_errors_as_retry, open_producer, send
from streams.wire.control_scope import has_ended
from streams.wire.errors import Misconfigured, Reject
from streams.wire.models import Control, ControlAnswer, ControlEffect, ControlKind, Rejected
from streams.wire.standalone_consumer import open_consumer
from streams.wire.topics import CLOCK_KEY, CONTROL_ANSWERS, CONTROLS, REJECTED, Record, decode, encode

if TYPE_CHECKING:
    from streams.wire.signatures import Signer

ANSWER_S = 5.0
"""The longest wait for an answer: `decide` answers within a second unless it starts or its input has a backlog."""
_APPEND_TIME = 1
_OVER_NS = 86_400 * 10**9
"""Ended controls are removed from the topic after a day, when no signature of an older one is valid any more."""


@dataclass(frozen=True, slots=True)
class SentControl:
    """A published control with the answer of `decide`; None if none arrived, or was awaited."""

    control: Control
    answer: ControlAnswer | None


async def send_controls(
    kafka: KafkaSettings,
    controls_at: Callable[[int], Sequence[Control]],
    signer: "Signer | None" = None,
    wait_s: float = ANSWER_S,
    now_ns: Callable[[], int] = time.time_ns,
    tombstones: Iterable[Record] = (),
) -> list[SentControl]:
    """Publish the controls that are made for the broker's time, and return each with its answer.

    Raises Misconfigured if the clock of this machine is off by more than a minute, Retry without Kafka.
    """
    async with AsyncExitStack() as stack:
        producer = await stack.enter_async_context(open_producer(kafka))
        stack.enter_context(kafka_errors_as_retry(kafka))
        at_ns = await _broker_time(producer, now_ns)
        consumer = None
        if wait_s > 0:
            consumer = await stack.enter_async_context(open_consumer(kafka.client_options()))
            partitions = [TopicPartition(topic.name, 0) for topic in (CONTROL_ANSWERS, REJECTED)]
            consumer.assign(partitions)
            await consumer.seek_to_end(*partitions)
            for partition in partitions:
                await consumer.position(partition)
        sent: dict[int, Control] = {}
        for control in controls_at(at_ns):
            control = replace(control, sent_at_ns=at_ns)  # noqa: PLW2901 — as it is published
            record = encode(CONTROLS, control)
            record = record if signer is None else signer.sign(record, at_ns)
            metadata = await (await send(producer, record, 0))
            sent[metadata.offset] = control
        for record in tombstones:
            await send(producer, record, 0)
        answers = await _answers(consumer, sent, wait_s) if consumer is not None else {}
        return [SentControl(control, answers.get(offset)) for offset, control in sent.items()]


async def _broker_time(producer: Any, now_ns: Callable[[], int]) -> int:
    """Return the broker's time; raises Misconfigured if the clock of this machine differs by more than a minute."""
    before_ns = now_ns()
    metadata = await (await send(producer, Record(CONTROLS, CLOCK_KEY, None), 0))
    own_ns = (before_ns + now_ns()) // 2
    if metadata.timestamp_type != _APPEND_TIME:
        return own_ns
    broker_ns = int(metadata.timestamp) * 10**6
    if abs(own_ns - broker_ns) > CLOCK_NS:
        side = "behind" if own_ns < broker_ns else "ahead of"
        difference = format_duration(abs(own_ns - broker_ns))
        raise Misconfigured(
            f"the clock of this machine is {difference} {side} the broker's; correct it (NTP), then repeat the command"
        )
    return broker_ns


async def _answers(consumer: Any, sent: Mapping[int, Control], wait_s: float) -> dict[int, ControlAnswer]:
    """Return the answers by the offset of the control; a record that was rejected counts as refused."""
    found: dict[int, ControlAnswer] = {}
    loop = asyncio.get_running_loop()
    until_s = loop.time() + wait_s
    while len(found) < len(sent) and (left_s := until_s - loop.time()) > 0:
        for records in (await consumer.getmany(timeout_ms=max(1, round(left_s * 1000)))).values():
            for record in records:
                if (answer := _answer(record, sent)) is not None and answer.control is not None:
                    found[answer.control.offset] = answer
    return found


def _answer(record: Any, sent: Mapping[int, Control]) -> ControlAnswer | None:
    """Return the answer to one of the controls in a record; None for another record."""
    if record.value is None:
        return None
    try:
        message = decode(CONTROL_ANSWERS if record.topic == CONTROL_ANSWERS.name else REJECTED, record.value)
    except Reject:
        return None
    if isinstance(message, Rejected):
        control = sent.get(message.offset) if message.topic == CONTROLS.name else None
        if control is None:
            return None
        return ControlAnswer(replace(control, offset=message.offset), ControlEffect.REFUSED, message.reason)
    if not isinstance(message, ControlAnswer) or message.control is None:
        return None
    own = sent.get(message.control.offset)
    return message if own is not None and own.id == message.control.id else None


async def find_subject_now(kafka: KafkaSettings, text: str, now_ns: int) -> FoundSubject:
    """Return the subject of a text in the inventory in effect; without an inventory, every text is a subject."""
    topology = await topology_in_effect(kafka, now_ns)
    return FoundSubject(text) if topology is None else find_subject(topology, text)


async def controls_in_effect(
    kafka: KafkaSettings, kind: ControlKind, now_ns: int
) -> tuple[list[Control], list[Record]]:
    """Return the controls of a kind that `decide` holds or has not answered, and the tombstones of ended ones.

    A control without an arrival has no answer. The topic of controls alone is not enough: `decide` may have refused a
    control, or not have read its end yet.
    """
    published = await current_controls(kafka)
    answers = [(answer.effect, answer.control) for answer in await current_answers(kafka) if answer.control is not None]
    found = [one for effect, one in answers if effect is ControlEffect.TAKEN]
    answered = {(one.id, one.sent_at_ns) for _, one in answers}
    found += [one for one in published if (one.id, one.sent_at_ns) not in answered]
    in_effect = [one for one in found if one.kind is kind and not has_ended(one, now_ns)]
    over = [one for one in published if one.kind is not ControlKind.ACKNOWLEDGE and has_ended(one, now_ns - _OVER_NS)]
    return in_effect, [Record(CONTROLS, one.id.encode(), None) for one in over]
