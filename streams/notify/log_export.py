"""Sends findings and remediations to a receiver of OTLP: reads Kafka, and commits offsets after the receiver's answer.

The group `railsight-otlp` gives each of both topics to one of several processes. The topics are the spool: while the
receiver is unavailable, records wait in Kafka, and a restart continues at the committed offset. A new owner reads the
records before that offset again, without sending them, so that a revision which the pipeline has repeated is sent once.
Only an attempt without an answer is repeated, with the same `log.record.uid`. Without a committed offset it begins with
all that the topics retain.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import structlog
from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError

from streams.instrument.clock import Attendance, Clock
from streams.instrument.metrics import Counter, Metrics
from streams.notify.election import SESSION_S, Ownership, open_clients, publish_rejected, rejected_record
from streams.notify.log_records import log_row
from streams.wire.errors import Busy, Misconfigured, Reject, Retry
from streams.wire.kafka_clients import publish_loss, rejoin_after_error, require_tasks
from streams.wire.models import Finding, InputLoss, Remediation
from streams.wire.otlp_client import OtlpClient
from streams.wire.otlp_messages import LogRow, Value, encode_logs
from streams.wire.otlp_params import OtlpParams
from streams.wire.topics import BY_NAME, FINDINGS, INPUT_LOSSES, REJECTED, REMEDIATIONS, Access, decode

if TYPE_CHECKING:
    from streams.health.input_checks import Place

GROUP = "railsight-otlp"
STAGE = "otlp"
"""The label `stage` of its metrics and rejected records."""
PARTITIONS = tuple(TopicPartition(topic.name, 0) for topic in (FINDINGS, REMEDIATIONS))
ACCESS = Access(reads=(FINDINGS, REMEDIATIONS), writes=(REJECTED, INPUT_LOSSES), groups=(GROUP,))
POLL_MS = 500
BATCH = 256
"""The most records of a request: some 4 kB each, below the 4 MiB that receivers by gRPC accept by default."""
REREAD = 16_384
"""The records that a new owner reads again: two hours of a fleet's findings (2/s)."""
_MAX_REVISIONS = 65_536
_PAUSE_S = 0.1
_STOP_WITHIN_S = 5.0
"""The wait of a stop for the answer to a request, below the ten seconds of a supervisor."""

log = structlog.get_logger()


class LogExport:
    """The export of one process; `kafka` are aiokafka's connection arguments, `resource` describes the sender.

    `run` ends only by cancellation, with Misconfigured if the files of TLS are unusable at the start, or with Retry if
    Kafka or a topic is missing.
    """

    def __init__(
        self,
        params: OtlpParams,
        resource: Mapping[str, Value],
        kafka: Mapping[str, Any],
        clock: Clock,
        metrics: Metrics,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._params, self._resource, self._kafka = params, resource, kafka
        self._clock, self._metrics, self._now_s = clock, metrics, now_s
        if not params.logs:
            raise Misconfigured("otlp.logs: required and not set; set it in [otlp] or as RAILSIGHT__OTLP__LOGS")
        self._client = OtlpClient(params, "logs")
        self._ownership = Ownership(*PARTITIONS)
        self._attendance = Attendance(SESSION_S, time.monotonic, time.process_time)
        self._election = 0
        """The election in which the rows were read."""
        self._first: dict[TopicPartition, int] = {}
        """The offset from which on records are sent."""
        self._next: dict[TopicPartition, int] = {}
        """The offsets to commit after the rows are sent."""
        self._rows: list[tuple[str, LogRow]] = []
        """Topic and row, in the order of reading."""
        self._revisions: dict[tuple[str, str], int] = {}
        """Topic and id -> the highest revision that was sent or waits, the last used at the end."""
        self._delay_s = 0.0
        self._not_before_s = 0.0
        self.positions: Mapping[Place, int] = {}
        self.steps = 0

    @property
    def is_active(self) -> bool:
        """True if this process has a topic and knows its committed offset."""
        return self._ownership.is_owner and not self._ownership.takeover_pending

    @property
    def is_retrying(self) -> bool:
        """True while a request fails and is repeated."""
        return self._delay_s > 0 and bool(self._rows or self._next)

    async def run(self) -> None:
        """Send log records until cancelled."""
        async with AsyncExitStack() as stack:
            topics = {at.topic for at in PARTITIONS}
            self._consumer, self._producer = await open_clients(stack, self._kafka, GROUP, topics, "earliest")
            self._consumer.subscribe(sorted(topics), listener=self._ownership)
            while True:
                require_tasks(self._consumer, self._producer)
                await self._step()

    async def _step(self) -> None:
        self.steps += 1
        try:
            if (error := rejoin_after_error(self._consumer)) is not None:
                raise error
            self._ownership.check_attendance(self._attendance)
            if self._ownership.is_owner and self._ownership.takeover_pending:
                await self._take_over()
            wait_s = self._not_before_s - self._now_s()
            await self._read(wait_s)
            if wait_s <= 0 and (self._rows or self._next):
                await self._finish(asyncio.ensure_future(self._deliver()))
        except (Retry, Misconfigured, KafkaError) as error:
            # A refused login or address may be corrected at the receiver; nothing may be lost until then.
            self._back_off(error)
            await asyncio.sleep(_PAUSE_S)

    async def _take_over(self) -> None:
        """Continue each topic at its committed offset; the caller repeats it after an error."""
        election, owned = self._ownership.election, self._ownership.owned
        self._rows, self._next, self._revisions = [], {}, {}
        begins = await self._consumer.beginning_offsets(owned)
        ends = await self._consumer.end_offsets(owned)
        for at in owned:
            first, begin = await self._consumer.committed(at), begins[at]
            if first is not None and first > ends[at]:
                log.warning("the topic is not the one of the committed offset, beginning at its start", topic=at.topic)
                await self._publish_loss(at, 0, 0, is_recreated=True)
                first = None
            elif first is not None and first < begin:
                log.error(
                    "records were deleted by retention before they were sent", topic=at.topic, count=begin - first
                )
                self._count("railsight_input_lost_records_total", at.topic, begin - first)
                await self._publish_loss(at, first, begin - first)
            first = max(begin, first or 0)
            # A later takeover detects a loss from this offset on, and does not report this one again.
            await self._consumer.commit({at: first})
            self._first[at] = first
            self._consumer.seek(at, max(begin, first - REREAD))
        if election == self._ownership.election:
            self._election = election
            self._ownership.takeover_pending = False
            log.info("took over the export of log records", offsets={at.topic: self._first[at] for at in owned})

    async def _publish_loss(self, at: TopicPartition, first: int, count: int, *, is_recreated: bool = False) -> None:
        now_ns = self._clock.now_ns()
        loss = InputLoss(STAGE, at.topic, at.partition, first, count, now_ns, is_recreated=is_recreated)
        await publish_loss(self._producer, loss)

    async def _read(self, wait_s: float) -> None:
        """Read a batch; while rows wait the topics are paused, but polls continue, or Kafka elects another owner."""
        owned = self._ownership.owned if self.is_active else frozenset()
        if self._rows or self._next:
            self._consumer.pause(*owned)
            timeout_ms = min(POLL_MS, max(0, round(wait_s * 1000)))
        else:
            self._consumer.resume(*owned)
            timeout_ms = POLL_MS
        batches = await self._consumer.getmany(timeout_ms=timeout_ms, max_records=BATCH)
        if not self.is_active or self._is_replaced():
            return  # the takeover reads them again
        for at, records in batches.items():
            for record in records:
                await self._process(at, record)
        waiting = self._rows or self._next
        self.positions = (
            {} if waiting else {(at.topic, at.partition): await self._consumer.position(at) for at in owned}
        )

    def _is_replaced(self) -> bool:
        return self._ownership.election != self._election or self._attendance.was_away()

    async def _process(self, at: TopicPartition, record: ConsumerRecord) -> None:
        self.steps += 1
        is_sent = record.offset < self._first[at]
        if not is_sent:
            self._next[at] = record.offset + 1
        if record.value is None:
            return
        try:
            message = decode(BY_NAME[at.topic], record.value, record.headers)
        except Reject as error:
            if not is_sent:
                await publish_rejected(self._producer, rejected_record(record, STAGE, str(error), self._clock.now_ns()))
                self._count("railsight_rejected_total", at.topic)
                log.warning("record rejected", topic=at.topic, offset=record.offset, reason=str(error))
            return
        assert isinstance(message, Finding | Remediation)
        if self._is_new(at.topic, message) and not is_sent:
            self._rows.append((at.topic, log_row(message, record.timestamp * 1_000_000)))

    def _is_new(self, topic: str, message: Finding | Remediation) -> bool:
        key = (topic, message.id)
        known = self._revisions.pop(key, -1)
        self._revisions[key] = max(known, message.revision)
        while len(self._revisions) > _MAX_REVISIONS:
            del self._revisions[next(iter(self._revisions))]
        return message.revision > known

    async def _finish(self, delivery: "asyncio.Future[None]") -> None:
        """Await a delivery; a stop waits for the answer to its request, because it would be sent again otherwise."""
        try:
            await asyncio.shield(delivery)
        except asyncio.CancelledError:
            await asyncio.wait({delivery}, timeout=_STOP_WITHIN_S)
            if not delivery.cancel() and not delivery.cancelled():
                delivery.exception()  # retrieved, so that asyncio does not log it
            raise

    async def _deliver(self) -> None:
        """Send the rows and commit their offsets; after an error, accepted rows are not sent again."""
        async with self._ownership.delivering:
            if self._is_replaced():
                return
            await self._send_rows()
            if self._next:
                await self._consumer.commit(self._next)
                self._next = {}
        self._delay_s = 0.0

    async def _send_rows(self) -> None:
        """Send all rows; a refused request is halved, so that only the rows that the receiver cannot read are lost."""
        size = BATCH
        while batch := self._rows[:size]:
            request = encode_logs(self._resource, (row for _, row in batch))
            try:
                refused = await asyncio.to_thread(self._client.send, request)
            except Reject as error:
                if len(batch) > 1:
                    size = len(batch) // 2
                    continue
                self._count("railsight_log_records_refused_total", batch[0][0])
                log.warning("log record refused", uid=batch[0][1].attributes["log.record.uid"], reason=str(error))
            else:
                for topic, _ in batch:
                    self._count("railsight_log_records_sent_total", topic)
                if refused is not None:
                    self._count("railsight_log_records_refused_total", "", refused.count)
                    log.warning("the receiver refused log records", count=refused.count, reason=refused.reason)
                size = min(2 * size, BATCH)
            del self._rows[: len(batch)]

    def _back_off(self, error: Exception) -> None:
        self._delay_s = min(max(2 * self._delay_s, self._params.backoff_s), self._params.backoff_max_s)
        wait_s = error.after_s if isinstance(error, Busy) else self._delay_s
        self._not_before_s = self._now_s() + wait_s
        self._count("railsight_log_send_failures_total", "")
        log.warning("retrying", after_s=round(wait_s, 1), waiting=len(self._rows), reason=str(error))

    def _count(self, name: Counter, topic: str, by: float = 1) -> None:
        self._metrics.count(name, STAGE, 0, topic=topic, by=by)
