"""The notifier as a process: reads Kafka, keeps Alertmanager told, and gives way to another of its kind.

The group `railsight-notify` elects one of several: who owns the partition of findings posts, the others wait. A new
owner reads what is open (board.py) and what Alertmanager holds before it posts, so that a change of owner neither
pages again nor forgets. Findings are followed from their end, for what the board does not tell: how an episode ended.
What cannot be read goes to the rejected topic. An Alertmanager that is away holds up nothing: what is due is computed
anew at the next try, so that what was over meanwhile is never posted.
"""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from typing import Any

import structlog
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaConnectionError, KafkaError

from streams.instrument.clock import Clock
from streams.notify.alertmanager import Alertmanager
from streams.notify.notifier import Notifier
from streams.notify.open_findings import OpenFindings
from streams.notify.params import NotifyParams
from streams.wire.errors import Misconfigured, Reject, Retry
from streams.wire.models import Control, Finding, Rejected
from streams.wire.producer_backoff import throttle_metadata_refresh
from streams.wire.topics import BY_NAME, CONTROLS, FINDINGS, FINDINGS_OPEN, REJECTED, decode, encode

GROUP = "railsight-notify"
POLL_MS = 500
"""How long a page may be late beyond its hold."""
FIRST_DELAY_S, LAST_DELAY_S = 1.0, 30.0
"""Between tries while Alertmanager is away: doubled from the first to the last."""

log = structlog.get_logger()


class _Ownership(ConsumerRebalanceListener):  # type: ignore[misc] # aiokafka is untyped
    """Whether the findings are ours, and whether that is news."""

    def __init__(self) -> None:
        self.ours = False
        self.new = False

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self.ours = False

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self.ours = self.new = bool(list(assigned))


class NotifyService:
    """One process's part in notifying. `kafka` are aiokafka's own connection arguments (bootstrap_servers, TLS, SASL).

    `run` ends only by cancellation, with Misconfigured, or with Retry where Kafka or a topic is not there at the start.
    """

    def __init__(self, params: NotifyParams, kafka: Mapping[str, Any], clock: Clock) -> None:
        self._params = params
        self._kafka = kafka
        self._clock = clock
        self._notifier = Notifier(params)
        self._ownership = _Ownership()
        self._delay_s = 0.0
        self._not_before_ns = 0

    async def run(self) -> None:
        """Follow the topics and keep Alertmanager told until cancelled."""
        async with AsyncExitStack() as stack:
            self._alertmanager = await stack.enter_async_context(Alertmanager(self._params))
            self._producer = AIOKafkaProducer(**self._kafka, acks="all", enable_idempotence=True)
            throttle_metadata_refresh(self._producer)
            findings = AIOKafkaConsumer(
                **self._kafka, group_id=GROUP, enable_auto_commit=False, auto_offset_reset="latest"
            )
            stack.push_async_callback(self._producer.stop)
            stack.push_async_callback(findings.stop)
            try:
                self._board = await stack.enter_async_context(OpenFindings(self._kafka))
                await self._producer.start()
                await findings.start()
            except KafkaConnectionError as error:
                raise Retry(f"Kafka does not answer: {error}") from error
            # Kafka would let us wait for ever for a topic that nobody makes.
            if missing := {FINDINGS.name, FINDINGS_OPEN.name, CONTROLS.name} - await findings.topics():
                raise Retry(f"no topic {', '.join(sorted(missing))}: make them with `railsight topics`")
            findings.subscribe([FINDINGS.name], listener=self._ownership)
            while True:
                await self._step(findings)

    async def _step(self, findings: AIOKafkaConsumer) -> None:
        try:
            batches = await findings.getmany(timeout_ms=POLL_MS)
            if self._ownership.new:
                await self._take_over(findings)
                return
            if not self._ownership.ours:
                return
            records = [record for batch in batches.values() for record in batch]
            for record in (*records, *await self._board.changes()):
                await self._process(record)
            await self._post_due()
            if records:
                await findings.commit()
        except (Retry, KafkaError) as error:
            self._back_off(error)
            await asyncio.sleep(self._delay_s)

    async def _take_over(self, findings: AIOKafkaConsumer) -> None:
        """Become the owner: know what is open and what Alertmanager holds; on Retry it is tried again."""
        await findings.seek_to_end()
        notifier = self._notifier = Notifier(self._params)
        async for record in self._board.read_all():
            await self._process(record)
        notifier.restore(await self._alertmanager.active_alerts())
        self._ownership.new = False
        log.info("notify took over", standing=len(notifier.desired_alerts))

    async def _process(self, record: ConsumerRecord) -> None:
        arrived_ns = record.timestamp * 1_000_000
        if record.value is None:
            self._notifier.remove((record.key or b"").decode(errors="replace"), arrived_ns)
            return
        try:
            message = decode(BY_NAME[record.topic], record.value, record.headers)
        except Reject as error:
            await self._reject(record, str(error))
            return
        if isinstance(message, Finding | Control):
            self._notifier.process(message, arrived_ns)

    async def _reject(self, record: ConsumerRecord, reason: str) -> None:
        rejected = Rejected(
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            stage="notify",
            reason=reason,
            at_ns=self._clock.now_ns(),
            value=record.value,
        )
        sent = encode(REJECTED, rejected)
        await self._producer.send_and_wait(sent.topic.name, sent.value, key=sent.key, headers=list(sent.headers))
        log.warning("notify cannot read a record", topic=record.topic, offset=record.offset, reason=reason)

    async def _post_due(self) -> None:
        now_ns = self._clock.now_ns()
        due = self._notifier.due(now_ns)
        if not due or now_ns < self._not_before_ns:
            return
        try:
            await self._alertmanager.post(due)
        except Reject as error:
            # A repetition would be refused as well: the next resend tries again, by when the finding may have changed.
            log.warning("Alertmanager refuses an alert", reason=str(error))
        except (Retry, Misconfigured) as error:
            # What was right at the start (a password, a path) may be wrong for a while; the pager must survive it.
            self._back_off(error)
            return
        self._delay_s = 0.0
        self._notifier.posted(due, now_ns)

    def _back_off(self, error: Exception) -> None:
        self._delay_s = min(max(2 * self._delay_s, FIRST_DELAY_S), LAST_DELAY_S)
        self._not_before_ns = self._clock.now_ns() + round(self._delay_s * 1e9)
        log.warning("notify tries again later", after_s=self._delay_s, reason=str(error))
