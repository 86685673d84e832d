"""Runs the notifier as a process: reads Kafka, posts to Alertmanager, and hands over to another notifier.

The group `railsight-notify` elects one of several: the owner of the partition of findings posts, the others wait. A new
owner reads the open state (board.py) and Alertmanager's active alerts before it posts, so a takeover neither pages
again nor loses an alert. It reads findings from the end for the details of ended episodes. It publishes unreadable
records on the rejected topic. While Alertmanager is unavailable, processing continues: each attempt computes the due
alerts from the current state, so an alert that ended meanwhile is never posted.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import structlog
from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError

from streams.health.input_checks import Place
from streams.instrument.clock import Attendance, BrokerClock, Clock
from streams.instrument.metrics import Metrics, NullMetrics
from streams.notify.alertmanager import Alertmanager
from streams.notify.board import TOPICS, Board
from streams.notify.election import SESSION_S, Ownership, open_clients, publish_rejected, rejected_record
from streams.notify.notifier import Notifier
from streams.notify.params import NotifyParams
from streams.wire.errors import Misconfigured, Reject, Retry
from streams.wire.kafka_clients import publish_loss, rejoin_after_error, require_tasks
from streams.wire.models import Control, Finding, InputLoss, Progress, Remediation, RemediationResult
from streams.wire.topics import BY_NAME, FINDINGS, INPUT_LOSSES, PROGRESS, REJECTED, Access, decode

GROUP = "railsight-notify"
STAGE = "notify"
"""The label `stage` of its metrics and rejected records."""
_FINDINGS = TopicPartition(FINDINGS.name, 0)
ACCESS = Access(reads=TOPICS, writes=(REJECTED, INPUT_LOSSES), groups=(GROUP,))
POLL_MS = 500
"""The maximum delay of a page beyond its hold."""
RETRY_BACKOFF_S, RETRY_BACKOFF_MAX_S = 1.0, 30.0
"""The first and the longest wait between attempts while Alertmanager is unavailable; each wait doubles.

The service does not use streams.wire.retry, because it reads between attempts and each attempt posts other alerts."""

_CLOCK_WAIT_S = 2.0
"""The wait for the first Progress after a takeover, which has the brokers' time; without running stages the host's
clock is used."""

log = structlog.get_logger()


class NotifyService:
    """The notifier of one process; `kafka` are aiokafka's connection arguments (bootstrap_servers, TLS, SASL).

    `run` ends only by cancellation, with Misconfigured, or with Retry if Kafka or a topic is missing at the start.
    """

    def __init__(
        self, params: NotifyParams, kafka: Mapping[str, Any], clock: Clock, metrics: Metrics | None = None
    ) -> None:
        self._params = params
        self._metrics = metrics or NullMetrics()
        self._kafka = kafka
        self._clock = BrokerClock(clock, time.monotonic_ns)
        self._notifier = Notifier(params)
        self._ownership = Ownership(_FINDINGS)
        self._attendance = Attendance(SESSION_S, time.monotonic, time.process_time)
        self._delay_s = 0.0
        self._not_before_ns = 0
        self._clock_wanted_until = 0.0
        self._position = 0
        """The next offset of the topic of findings."""
        self.steps = 0
        self.is_retrying = False

    @property
    def is_active(self) -> bool:
        """True if this process is elected and has taken over."""
        return self._ownership.is_owner and not self._ownership.takeover_pending

    @property
    def positions(self) -> Mapping[Place, int]:
        """The next offset of each partition that this process reads, while it is active."""
        if not self.is_active:
            return {}
        return {**self._board.positions, (_FINDINGS.topic, _FINDINGS.partition): self._position}

    async def run(self) -> None:
        """Read the topics and post alerts until cancelled."""
        async with AsyncExitStack() as stack:
            self._alertmanager = await stack.enter_async_context(Alertmanager(self._params))
            self._board = await stack.enter_async_context(Board(self._kafka, self._params))
            topics = {topic.name for topic in TOPICS}
            findings, self._producer = await open_clients(stack, self._kafka, GROUP, topics, "latest")
            findings.subscribe([FINDINGS.name], listener=self._ownership)
            while True:
                require_tasks(findings, self._producer)
                await self._step(findings)

    async def _step(self, findings: AIOKafkaConsumer) -> None:
        self.steps += 1
        try:
            if (error := rejoin_after_error(findings)) is not None:
                raise error
            batches = await findings.getmany(timeout_ms=POLL_MS)
            self._ownership.check_attendance(self._attendance)
            if self._ownership.takeover_pending:
                await self._take_over(findings)
                return
            if not self._ownership.is_owner:
                return
            records = [record for batch in batches.values() for record in batch]
            changes = await self._board.changes()
            self._observe_time(changes)
            self._position = max([self._position, *(record.offset + 1 for record in records)])
            for record in (*records, *changes):
                await self._process(record)
            await self._post_due()
            if records:
                await findings.commit()
        except (Retry, KafkaError) as error:
            self._back_off(error)
            await asyncio.sleep(self._delay_s)

    async def _take_over(self, findings: AIOKafkaConsumer) -> None:
        """Load the open state and Alertmanager's active alerts; the caller repeats it after Retry."""
        await findings.seek_to_end()
        notifier = self._notifier = Notifier(self._params)
        now_ns = self._clock.now_ns()
        async for record in self._board.read_all(now_ns):
            await self._process(record, is_history=record.topic == FINDINGS.name)
        notifier.restore(await self._alertmanager.active_alerts(), now_ns)
        await self._report_lost(findings)
        self._position = await findings.position(_FINDINGS)
        self._ownership.takeover_pending = False
        self._clock_wanted_until = time.monotonic() + _CLOCK_WAIT_S
        log.info("took over as the notifier", alerts=len(notifier.desired_alerts))

    async def _report_lost(self, findings: AIOKafkaConsumer) -> None:
        """Report findings that were deleted unread; the alerts that they end are ended without their details."""
        first = await findings.committed(_FINDINGS)
        begin = (await findings.beginning_offsets([_FINDINGS]))[_FINDINGS]
        if first is None:
            # From this offset on a loss can be detected, even before the first finding.
            await findings.commit({_FINDINGS: await findings.position(_FINDINGS)})
            return
        if first >= begin:
            return
        count = begin - first
        log.error("findings were deleted by retention before they were read", records=count)
        self._metrics.count("railsight_input_lost_records_total", STAGE, 0, topic=FINDINGS.name, by=count)
        loss = InputLoss(STAGE, FINDINGS.name, 0, first, count, self._clock.now_ns())
        await publish_loss(self._producer, loss)
        await findings.commit({_FINDINGS: begin})  # else the next takeover would report them again

    def _observe_time(self, changes: Sequence[ConsumerRecord]) -> None:
        """Update the brokers' time from Progress, which each stage sends every second."""
        appended_ms = [record.timestamp for record in changes if record.topic == PROGRESS.name]
        if appended_ms:
            self._clock.observe(max(appended_ms) * 1_000_000)

    async def _process(self, record: ConsumerRecord, *, is_history: bool = False) -> None:
        self.steps += 1
        arrived_ns = record.timestamp * 1_000_000
        if record.value is None:
            self._notifier.remove((record.key or b"").decode(errors="replace"), arrived_ns)
            return
        try:
            message = decode(BY_NAME[record.topic], record.value, record.headers)
        except Reject as error:
            await self._reject(record, str(error))
            return
        if is_history and not (isinstance(message, Finding) and message.is_closed):
            return  # findings-open has the open findings
        if isinstance(message, Finding | Control | Remediation | RemediationResult | Progress):
            self._notifier.process(message, arrived_ns)

    async def _reject(self, record: ConsumerRecord, reason: str) -> None:
        await publish_rejected(self._producer, rejected_record(record, STAGE, reason, self._clock.now_ns()))
        log.warning("record rejected", topic=record.topic, offset=record.offset, reason=reason)

    async def _post_due(self) -> None:
        # With a clock that is behind, an alert would end before its begin, and Alertmanager would resolve it.
        if not self._clock.is_known and time.monotonic() < self._clock_wanted_until:
            return
        now_ns = self._clock.now_ns()
        if now_ns < self._not_before_ns:
            return
        if not (due := self._notifier.due(now_ns)):
            self.is_retrying = False
            return
        try:
            await self._alertmanager.post(due)
        except Reject as error:
            # Alertmanager would refuse a repetition too; the next resend retries, when the finding may have changed.
            log.warning("alert refused by Alertmanager", reason=str(error))
        except (Retry, Misconfigured) as error:
            # Valid settings (a password, a path) may fail temporarily; the notifier must continue.
            self._notifier.unavailable()
            self._back_off(error)
            return
        self._delay_s, self.is_retrying = 0.0, False
        self._notifier.posted(due, now_ns)

    def _back_off(self, error: Exception) -> None:
        self.is_retrying = True
        self._delay_s = min(max(2 * self._delay_s, RETRY_BACKOFF_S), RETRY_BACKOFF_MAX_S)
        self._not_before_ns = self._clock.now_ns() + round(self._delay_s * 1e9)
        log.warning("retrying", after_s=self._delay_s, reason=str(error))
