"""Runs the delivery of tickets as a process: reads remediations in order, and commits offsets after the delivery.

The group `railsight-tickets` elects one of several. A new owner reads the topic from its beginning: up to the committed
offset it rebuilds the open tickets, after it the owner delivers. The first owner of a cluster, without a committed
offset, opens the tickets that are open now, and none of the past. An offset is committed after the delivery of its
ticket, so an unavailable ticket system misses nothing; a delivery without a commit is repeated, without a second
effect. After a pause in which another process may have been elected, the process takes over again before it delivers.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import structlog
from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError

from streams.health.input_checks import Place
from streams.instrument.clock import Attendance, Clock
from streams.instrument.metrics import Counter, Metrics
from streams.notify.election import SESSION_S, Ownership, open_clients, publish_rejected, rejected_record
from streams.notify.params import NotifyParams
from streams.notify.tickets.book import Change, ChangeKind, TicketBook
from streams.notify.tickets.http_client import HttpClient, authorization
from streams.notify.tickets.jira import Jira
from streams.notify.tickets.params import TicketParams
from streams.notify.tickets.webhook import TicketSystem, Webhook
from streams.wire.errors import Busy, Misconfigured, Reject, Retry
from streams.wire.kafka_clients import publish_loss, rejoin_after_error, require_tasks
from streams.wire.models import InputLoss, Rejected, Remediation
from streams.wire.topics import INPUT_LOSSES, REJECTED, REMEDIATIONS, Access, decode

PARTITION = TopicPartition(REMEDIATIONS.name, 0)


@dataclass(slots=True)
class Delivery:
    """One delivery; without a change and a rejected record, it only commits the offset."""

    next_offset: int
    """The offset to commit after it."""
    change: Change | None = None
    rejected: Rejected | None = None
    is_done: bool = False
    """True if it was delivered but its offset is not committed yet."""


GROUP = "railsight-tickets"
ACCESS = Access(reads=(REMEDIATIONS,), writes=(REJECTED, INPUT_LOSSES), groups=(GROUP,))
STAGE = "tickets"
"""The label `stage` of its metrics and rejected records."""
POLL_MS = 500
_WATCH_S = 1.0
_PAUSE_S = 0.1
"""The pause after every failure, so that a failing broker is not called in a loop."""

log = structlog.get_logger()


class TicketService:
    """The delivery of one process; `kafka` are aiokafka's connection arguments (bootstrap_servers, TLS, SASL).

    `run` ends only by cancellation, with Misconfigured if the token's file or the CA is unreadable at the start, or
    with Retry if Kafka or the topic is missing.
    """

    def __init__(
        self,
        params: TicketParams,
        notify: NotifyParams,
        kafka: Mapping[str, Any],
        clock: Clock,
        metrics: Metrics,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._params, self._notify, self._kafka = params, notify, kafka
        self._clock, self._metrics, self._now_s = clock, metrics, now_s
        self._ownership = Ownership(PARTITION)
        self._attendance = Attendance(SESSION_S, time.monotonic, time.process_time)
        self._book = TicketBook(notify)
        self._deliveries: deque[Delivery] = deque()
        """Deliveries without a committed offset, in the order of the topic."""
        self._openings: dict[str, int] = {}
        """Open ticket -> the offset of the record that opened it."""
        self._past_end, self._past_open = 0, frozenset[str]()
        """The end of the topic at the first start, and the tickets that were open then; earlier others are not sent."""
        self._election = 0
        """The election in which the deliveries were read."""
        self._is_prepared = False
        self._delay_s = 0.0
        self._not_before_s = 0.0
        self._position = 0
        """The next offset to read."""
        self.steps = 0

    @property
    def is_active(self) -> bool:
        """True if this process is elected and has taken over."""
        return self._ownership.is_owner and not self._ownership.takeover_pending

    @property
    def positions(self) -> Mapping[Place, int]:
        """The next offset of the remediations; empty while deliveries wait or the process is not active."""
        if not self.is_active or self._deliveries:
            return {}
        return {(PARTITION.topic, PARTITION.partition): self._position}

    @property
    def is_retrying(self) -> bool:
        """True while a delivery fails and is repeated."""
        return self._delay_s > 0 and bool(self._deliveries)

    async def run(self) -> None:
        """Deliver tickets until cancelled."""
        authorization(self._params)
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(HttpClient(self._params, conflicts=self._params.jira is None))
            self._system = _ticket_system(self._params, client, self._now_s)
            topics = {REMEDIATIONS.name}
            self._consumer, self._producer = await open_clients(stack, self._kafka, GROUP, topics, "earliest")
            self._consumer.subscribe([REMEDIATIONS.name], listener=self._ownership)
            watch = asyncio.create_task(self._watch())
            stack.callback(watch.cancel)
            while True:
                require_tasks(self._consumer, self._producer)
                await self._step()

    async def _watch(self) -> None:
        """Measure pauses of the process, even while a request waits for its response."""
        while True:
            self._attendance.was_away()
            await asyncio.sleep(_WATCH_S)

    async def _step(self) -> None:
        self.steps += 1
        try:
            if (error := rejoin_after_error(self._consumer)) is not None:
                raise error
            self._ownership.check_attendance(self._attendance)
            wait_s = self._not_before_s - self._now_s()
            if not self._ownership.is_owner:
                self._report(is_blocked=False)
                await self._consumer.getmany(timeout_ms=POLL_MS)
            elif self._ownership.takeover_pending:
                await self._take_over()
            else:
                # While deliveries wait, the partition is paused, but polls continue, or Kafka elects another owner.
                timeout_ms = min(POLL_MS, max(0, round(wait_s * 1000))) if self._deliveries else POLL_MS
                self._read(await self._poll(timeout_ms))
                self._position = await self._consumer.position(PARTITION)
                if wait_s <= 0:
                    await self._deliver_next()
        except (Retry, Misconfigured, KafkaError) as error:
            # A refused login or address may be corrected at the server; nothing may be lost until then.
            self._back_off(error)
            self._report(is_blocked=True)
            await asyncio.sleep(_PAUSE_S)

    async def _poll(self, timeout_ms: int) -> list[ConsumerRecord]:
        if self._deliveries:
            self._consumer.pause(PARTITION)
        else:
            self._consumer.resume(PARTITION)
        batches = await self._consumer.getmany(timeout_ms=timeout_ms)
        return [record for batch in batches.values() for record in batch]

    async def _take_over(self) -> None:
        """Rebuild the open tickets up to the committed offset; the caller repeats it after an error."""
        consumer, election = self._consumer, self._ownership.election
        first = await consumer.committed(PARTITION)
        begin = (await consumer.beginning_offsets([PARTITION]))[PARTITION]
        end = (await consumer.end_offsets([PARTITION]))[PARTITION]
        self._past_end = 0
        if first is not None and first > end:
            log.warning("the topic is not the one of the committed offset, beginning as for the first time")
            await self._publish_loss(0, 0, is_recreated=True)
            first = None
        if first is None:
            await self._rebuild(election, end)
            first = min(self._openings.values(), default=end)
            self._past_end, self._past_open = end, frozenset(self._openings)
        elif first < begin:
            log.error("remediations were deleted by retention before they were read", records=begin - first)
            self._count("railsight_input_lost_records_total", begin - first)
            await self._publish_loss(first, begin - first)
            first = begin
        if not self._is_replaced(election):
            # Kafka refuses the commit if another process was elected while this one was stopped.
            await consumer.commit({PARTITION: first})
            await self._rebuild(election, first)
        if self._is_replaced(election):
            return
        self._position = await consumer.position(PARTITION)
        self._election, self._is_prepared = election, False
        self._ownership.takeover_pending = False
        log.info("took over as the deliverer of tickets", open=len(self._book.open_tickets), offset=first)

    async def _publish_loss(self, first: int, count: int, *, is_recreated: bool = False) -> None:
        now_ns = self._clock.now_ns()
        loss = InputLoss(STAGE, PARTITION.topic, PARTITION.partition, first, count, now_ns, is_recreated=is_recreated)
        await publish_loss(self._producer, loss)

    async def _rebuild(self, election: int, first: int) -> None:
        """Read from the beginning up to the offset `first`, and queue the following records."""
        self._book, self._deliveries, self._openings = TicketBook(self._notify), deque(), {}
        await self._consumer.seek_to_beginning(PARTITION)
        while not self._is_replaced(election) and await self._consumer.position(PARTITION) < first:
            self._read(await self._poll(POLL_MS), first)

    def _is_replaced(self, election: int) -> bool:
        """Return whether another process may have been elected since that election."""
        return self._ownership.election != election or not self._ownership.is_owner or self._attendance.was_away()

    def _read(self, records: list[ConsumerRecord], first: int = 0) -> None:
        """Process records; records before the offset `first` were delivered."""
        for record in records:
            self.steps += 1
            change, rejected = None, None
            try:
                message = decode(REMEDIATIONS, record.value, record.headers)
                assert isinstance(message, Remediation)
                change = self._select(record.offset, self._book.process(message))
            except Reject as error:
                rejected = (
                    None if record.value is None else rejected_record(record, STAGE, str(error), self._clock.now_ns())
                )
            if record.offset >= first:
                self._enqueue(record.offset + 1, change, rejected)

    def _enqueue(self, next_offset: int, change: Change | None, rejected: Rejected | None) -> None:
        """Add a record to the queue; consecutive records without an effect share one delivery."""
        if change is None and rejected is None and self._deliveries:
            self._deliveries[-1].next_offset = next_offset
        else:
            self._deliveries.append(Delivery(next_offset, change, rejected))

    async def _deliver_next(self) -> None:
        """Deliver the head of the queue and commit its offset; after an error, a finished delivery is not repeated."""
        async with self._ownership.delivering:
            if self._is_replaced(self._election):
                return
            if not self._is_prepared:
                await self._system.prepare()
                self._is_prepared = True
            if self._deliveries:
                head = self._deliveries[0]
                if not head.is_done:
                    await self._deliver(head)
                    head.is_done = True
                await self._consumer.commit({PARTITION: head.next_offset})
                self._deliveries.popleft()
        self._delay_s = 0.0
        self._report(is_blocked=False)

    async def _deliver(self, delivery: Delivery) -> None:
        if delivery.rejected is not None:
            await publish_rejected(self._producer, delivery.rejected)
            self._count("railsight_rejected_total")
            log.warning("record rejected", offset=delivery.rejected.offset, reason=delivery.rejected.reason)
        if (change := delivery.change) is None:
            return
        ticket = change.ticket
        try:
            await self._system.deliver(change)
        except Reject as error:
            # The system would refuse a repetition too, and the following tickets would wait forever.
            self._count("railsight_tickets_refused_total")
            log.warning("ticket refused", ticket=ticket.id, change=change.kind.value, reason=str(error))
            return
        self._count("railsight_tickets_delivered_total")
        log.info("ticket delivered", ticket=ticket.id, change=change.kind.value, revision=ticket.revision)

    def _back_off(self, error: Exception) -> None:
        longest_s = self._params.backoff_max_s
        self._delay_s = min(max(2 * self._delay_s, self._params.backoff_s), longest_s)
        wait_s = error.after_s if isinstance(error, Busy) else self._delay_s
        self._not_before_s = self._now_s() + wait_s
        self._count("railsight_ticket_failures_total")
        log.warning("retrying", after_s=round(wait_s, 1), waiting=len(self._deliveries), reason=str(error))

    def _report(self, *, is_blocked: bool) -> None:
        is_owner = self._ownership.is_owner
        self._metrics.set("railsight_tickets_blocked", STAGE, PARTITION.partition, float(is_blocked and is_owner))
        open_tickets = len(self._book.open_tickets) if is_owner else 0
        self._metrics.set("railsight_tickets_open", STAGE, PARTITION.partition, open_tickets)

    def _count(self, name: Counter, by: float = 1) -> None:
        self._metrics.count(name, STAGE, PARTITION.partition, topic=REMEDIATIONS.name, by=by)

    def _select(self, offset: int, change: Change | None) -> Change | None:
        """Return the change, or None if its ticket was closed before the first start."""
        if change is None:
            return None
        identity = change.ticket.id
        if change.kind in (ChangeKind.OPENED, ChangeKind.REOPENED):
            self._openings[identity] = offset
        elif change.kind is ChangeKind.CLOSED:
            self._openings.pop(identity, None)
        return change if offset >= self._past_end or identity in self._past_open else None


def _ticket_system(params: TicketParams, client: HttpClient, now_s: Callable[[], float]) -> TicketSystem:
    return Webhook(client) if params.jira is None else Jira(client, params.jira, now_s)
