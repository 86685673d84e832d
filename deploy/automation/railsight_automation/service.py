"""Reads remediations from Kafka, passes them to the engine, and publishes its answers.

Needs no consumer group, because the journal has the offsets of handled records. A start reads the topic to its end
before any action, so that an approval that was revoked meanwhile is not carried out.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol

from railsight_automation.engine import Engine
from railsight_automation.journal import Journal
from railsight_automation.messages import decode_remediation, encode_loss, encode_result
from railsight_automation.signing import Headers, Signer, Verifier
from railsight_automation.status import Offsets, Status

log = logging.getLogger(__name__)

_POLL_MS = 500
_RETRY_S = 2.0
_LOSS_S = 10.0
_CHECK_S = 30.0
"""The interval at which own changes are read; two readings report that another party has undone them (choice)."""


class Consumer(Offsets, Protocol):
    """The methods of aiokafka's consumer that the service uses."""

    async def beginning_offsets(self, partitions: Any) -> dict[Any, int]: ...

    def seek(self, partition: Any, offset: int) -> None: ...

    async def position(self, partition: Any) -> int: ...

    async def getmany(self, *, timeout_ms: int) -> dict[Any, list[Any]]: ...


class Producer(Protocol):
    """The methods of aiokafka's producer that the service uses."""

    async def send_and_wait(self, topic: str, value: bytes, key: bytes, *, headers: Headers) -> Any: ...


class KafkaAnswers:
    """Publishes results, and retries until Kafka has them."""

    def __init__(
        self,
        producer: Producer,
        topic: str,
        actor: str,
        now_ns: Callable[[], int],
        retry_on: type[Exception],
        signer: Signer | None = None,
        retry_s: float = _RETRY_S,
        status: Status | None = None,
        losses: str = "",
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._losses = losses
        self._actor = actor
        self._now_ns = now_ns
        self._retry_on = retry_on
        self._signer = signer
        self._retry_s = retry_s
        self._status = status or Status(lambda: 0.0)

    async def report_loss(self, topic: str, partition: int, first: int, records: int, *, is_recreated: bool) -> None:
        """Publish once, without retries, that unread records were deleted; the log and the metric have the loss too."""
        if not self._losses:
            return
        now_ns = self._now_ns()
        value = encode_loss(self._actor, topic, partition, first, records, now_ns, is_recreated=is_recreated)
        key = f"{self._actor}/{topic}/{partition}".encode()
        try:
            async with asyncio.timeout(_LOSS_S):
                await self._producer.send_and_wait(self._losses, value, key, headers=[])
        except (self._retry_on, TimeoutError) as error:
            log.warning("cannot publish a loss of input topic=%s error=%s", self._losses, error or type(error).__name__)

    async def send(
        self, remediation_id: str, outcome: str, detail: str, prior_values: Mapping[str, str], instance: str
    ) -> None:
        while True:
            now_ns = self._now_ns()  # of each attempt, because a signature expires
            value = encode_result(remediation_id, outcome, self._actor, instance, detail, prior_values, now_ns)
            headers = [] if self._signer is None else self._signer.headers(remediation_id, value, now_ns)
            try:
                await self._producer.send_and_wait(self._topic, value, remediation_id.encode(), headers=headers)
            except self._retry_on as error:
                log.warning("retrying answer remediation=%s error=%s", remediation_id, error)
                self._status.retries.inc()
                await asyncio.sleep(self._retry_s)
            else:
                self._status.answers.labels(outcome).inc()
                return


class Service:
    """Follows the topic of remediations and carries them out."""

    def __init__(
        self,
        consumer: Consumer,
        engine: Engine,
        journal: Journal,
        status: Status | None = None,
        answers: KafkaAnswers | None = None,
        verifier: Verifier | None = None,
        check_s: float = _CHECK_S,
    ) -> None:
        self._verifier = verifier or Verifier((), "")
        self._check_s = check_s
        self._consumer = consumer
        self._engine = engine
        self._journal = journal
        self._status = status or Status(lambda: 0.0)
        self._answers = answers
        self._tasks: set[asyncio.Task[None]] = set()
        self._positions = dict(journal.positions)

    async def run(self) -> None:
        """Read to the end, resume interrupted actions, then follow the topic until cancelled."""
        ids = await self._catch_up()
        log.info("ready positions=%s", self._positions)
        self._status.caught_up()
        try:
            for remediation_id in self._engine.interrupted():
                self._start(self._engine.resume(remediation_id))
            check: asyncio.Task[None] | None = None
            check_s = asyncio.get_running_loop().time() + self._check_s
            while True:
                now_s = asyncio.get_running_loop().time()
                if now_s >= check_s and (check is None or check.done()):
                    check, check_s = self._start(self._engine.check_changes()), now_s + self._check_s
                for remediation_id in ids:
                    self._start(self._engine.carry_out(remediation_id))
                await asyncio.sleep(0)
                self._collect()
                self._status.open.set(len(self._engine.interrupted()))
                ids = await self._observe(await self._consumer.getmany(timeout_ms=_POLL_MS))
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        return task

    def _collect(self) -> None:
        for task in [task for task in self._tasks if task.done()]:
            self._tasks.discard(task)
            task.result()  # an unexpected error ends the process; the journal has the finished steps
        if not self._tasks:
            self._journal.move(dict(self._positions))

    async def _catch_up(self) -> list[str]:
        partitions = self._consumer.assignment()
        ends = await self._consumer.end_offsets(partitions)
        begins = await self._consumer.beginning_offsets(partitions)
        for partition in partitions:
            known = self._positions.get(str(partition.partition))
            start = begins[partition]
            if known is not None and begins[partition] <= known <= ends[partition]:
                start = known
            elif known is not None:
                await self._report_lost(partition, known, begins[partition], ends[partition])
            self._consumer.seek(partition, start)
            self._positions[str(partition.partition)] = start
        seen: dict[str, None] = {}
        while any(self._positions[str(partition.partition)] < ends[partition] for partition in partitions):
            batches = await self._consumer.getmany(timeout_ms=_POLL_MS)
            seen.update(dict.fromkeys(await self._observe(batches)))
        return list(seen)

    async def _report_lost(self, partition: Any, known: int, begin: int, end: int) -> None:
        """Report the records between the journal's position and the first record that Kafka has."""
        is_recreated = known > end
        first = 0 if is_recreated else known
        log.error(
            "input is lost, records were deleted before they were read: topic=%s partition=%d records=%d recreated=%s",
            partition.topic, partition.partition, begin - first, is_recreated,
        )  # fmt: skip
        self._status.lost.inc(begin - first)
        if self._answers is not None:
            await self._answers.report_loss(
                partition.topic, partition.partition, first, begin - first, is_recreated=is_recreated
            )

    async def _observe(self, batches: dict[Any, list[Any]]) -> list[str]:
        """Pass a batch to the engine; return the ids in the order of their last record."""
        seen: dict[str, None] = {}
        for records in batches.values():
            self._status.records.inc(len(records))
            for record in records:
                if record.value is None:
                    continue
                try:
                    if why := self._verifier.problem(
                        record.key, record.value, record.headers, record.timestamp * 10**6
                    ):
                        raise ValueError(why)
                    remediation = decode_remediation(record.value)
                except ValueError as error:
                    log.warning("skipped record offset=%s error=%s", record.offset, error)
                    self._status.unreadable.inc()
                    continue
                await self._engine.observe(remediation)
                seen.pop(remediation.id, None)
                seen[remediation.id] = None
        for partition in self._consumer.assignment():  # also passes the gaps of transactions after the last record
            self._positions[str(partition.partition)] = await self._consumer.position(partition)
        self._status.read(self._positions.values())
        return list(seen)
