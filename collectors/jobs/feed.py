"""Publishes the changes of one scheduler's jobs, and what is known while the scheduler does not answer."""

from collections.abc import Iterable

import structlog

from collectors.core.context import CollectorContext
from collectors.jobs.ledger import Ledger
from collectors.jobs.snapshot import Snapshot
from streams.wire.models import Job
from streams.wire.topics import JOBS, Record, encode, tombstone

_log = structlog.get_logger("railsight.jobs")


class JobFeed:
    """The feed of one scheduler; `name` is the scheduler's."""

    def __init__(self, name: str, ledger: Ledger, context: CollectorContext, stale_ns: int) -> None:
        self._name = name
        self._ledger = ledger
        self._context = context
        self._stale_ns = stale_ns
        self._refused: dict[bytes, Record] = {}
        """Records beyond the limit of the buffer, by key: they are offered again, because nothing else repeats them."""
        self._answered_ns = context.clock.now_ns()
        self._problem: str | None = "no answer yet"
        context.health.ready_while(f"scheduler {name}", lambda: self._problem or "")

    def observe(self, snapshot: Snapshot) -> None:
        """Publish what changed with an answer."""
        now_ns = self._answered_ns = self._context.clock.now_ns()
        if self._problem is not None:
            _log.info("scheduler reached", scheduler=self._name, jobs=len(snapshot.runs))
            self._problem = None
        for reason in snapshot.unreadable:
            _log.warning("job unreadable", scheduler=self._name, why=reason)
        self._context.metrics.add("unreadable", self._name, len(snapshot.unreadable))
        self._context.metrics.add("updates", self._name, len(snapshot.jobs))
        self._publish(self._ledger.observe(snapshot, now_ns))
        for job in self._ledger.expire(now_ns):
            self._offer(tombstone(JOBS, encode(JOBS, job).key.decode()))

    def failed(self, why: str) -> None:
        """Mark the running jobs as stale once the scheduler has not answered for too long."""
        if why != self._problem:
            _log.warning("scheduler does not answer, the last known jobs stay", scheduler=self._name, why=why)
            self._problem = why
        now_ns = self._context.clock.now_ns()
        if now_ns - self._answered_ns > self._stale_ns:
            self._publish(self._ledger.mark_stale(now_ns))

    def _publish(self, jobs: Iterable[Job]) -> None:
        refused, self._refused = self._refused, {}
        for record in refused.values():
            self._offer(record)
        for job in jobs:
            self._offer(encode(JOBS, job))

    def _offer(self, record: Record) -> None:
        # A newer record of the same stay replaces one that was refused.
        self._refused.pop(record.key, None)
        if not self._context.publisher.offer(record):
            self._refused[record.key] = record
