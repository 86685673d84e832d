"""Reads the results of a run independently of the pipeline: with aiokafka and ClickHouse's HTTP interface only.

Findings are JSON by contract (docs); samples and events are counted in ClickHouse by the identities of their messages.
"""

import asyncio
import base64
import json
import urllib.error
import urllib.request
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from streams.wire.standalone_consumer import READ_COMMITTED

Offsets = dict[tuple[str, int], int]

_FINDINGS = "railsight.findings.v1"
_FINDINGS_OPEN = "railsight.findings-open.v1"
_READ_MS = 500
_TIMEOUT_MS = 5000
_ERROR_BYTES = 2000


@dataclass(frozen=True, slots=True)
class Revision:
    """One record of the findings topic."""

    id: str
    revision: int
    value: bytes
    offset: int

    @property
    def fields(self) -> dict[str, Any]:
        """The finding as JSON."""
        return dict(json.loads(self.value))


class KafkaReader:
    """A consumer and an admin client without a group, opened at the first use; its methods raise KafkaError."""

    def __init__(self, bootstrap: str, groups: tuple[str, ...]) -> None:
        self._options = {"bootstrap_servers": bootstrap, "request_timeout_ms": _TIMEOUT_MS}
        self._groups = groups
        self._consumer: AIOKafkaConsumer | None = None
        self._admin: AIOKafkaAdminClient | None = None

    async def ends(self) -> Offsets:
        """Return the end of every partition of every topic; raise KafkaError."""
        consumer, admin = await self._clients()
        partitions = [
            TopicPartition(topic["topic"], partition["partition"])
            for topic in await admin.describe_topics()
            for partition in topic["partitions"]
            if not topic["topic"].startswith("__")
        ]
        ends = await consumer.end_offsets(partitions)
        return {(at.topic, at.partition): int(end) for at, end in ends.items()}

    async def lag(self, ends: Offsets) -> int:
        """Return the number of records before `ends` that the groups have not acknowledged, at least 1 without a group.

        The inputs of a group are the partitions that it has ever acknowledged.
        """
        _, admin = await self._clients()
        partitions = [TopicPartition(*at) for at in ends]
        lag = 0
        for group in self._groups:
            committed = await admin.list_consumer_group_offsets(group, partitions=partitions)
            inputs = {at: int(state.offset) for at, state in committed.items() if state.offset >= 0}
            lag += not inputs
            lag += sum(max(0, ends[at.topic, at.partition] - offset) for at, offset in inputs.items())
        return lag

    async def findings(self) -> list[Revision]:
        """Return every record of the findings topic that is a finding."""
        found = []
        for offset, _, value in await self._read(_FINDINGS):
            with suppress(ValueError, KeyError, TypeError, AttributeError):
                fields = json.loads(value or b"")
                found.append(Revision(fields["id"], int(fields["revision"]), value or b"", offset))
        return found

    async def open_topic(self) -> dict[str, bytes | None]:
        """Return the last record of each key of the compacted topic of open findings."""
        return {key.decode(): value for _, key, value in await self._read(_FINDINGS_OPEN) if key and key != b"poison"}

    async def close(self) -> None:
        """Close the clients."""
        consumer, admin = self._consumer, self._admin
        self._consumer = self._admin = None
        for client in (consumer and consumer.stop, admin and admin.close):
            if client is not None:
                with suppress(KafkaError, OSError, TimeoutError):
                    await asyncio.wait_for(client(), 5)

    async def _read(self, topic: str) -> list[tuple[int, bytes | None, bytes | None]]:
        consumer, _ = await self._clients()
        at = TopicPartition(topic, 0)
        first = (await consumer.beginning_offsets([at]))[at]
        end = (await consumer.end_offsets([at]))[at]
        consumer.assign([at])
        consumer.seek(at, first)
        found: list[tuple[int, bytes | None, bytes | None]] = []
        while await consumer.position(at) < end:
            batches = await consumer.getmany(at, timeout_ms=_READ_MS)
            found += [(record.offset, record.key, record.value) for record in batches.get(at, ())]
        return found

    async def _clients(self) -> tuple[AIOKafkaConsumer, AIOKafkaAdminClient]:
        if self._consumer is None:
            consumer = AIOKafkaConsumer(**self._options, enable_auto_commit=False, isolation_level=READ_COMMITTED)
            await consumer.start()
            self._consumer = consumer
        if self._admin is None:
            admin = AIOKafkaAdminClient(**self._options)
            await admin.start()
            self._admin = admin
        return self._consumer, self._admin


@dataclass(frozen=True, slots=True)
class ClickHouseReader:
    """Queries ClickHouse over HTTP; its methods block, and raise OSError with ClickHouse's message if it refuses."""

    url: str
    user: str
    password: str
    database: str

    def messages(self, collector: str) -> dict[str, Counter[tuple[str, int]]]:
        """Return the number of stored copies of each message of samples and of events, by (device, sequence)."""
        return {
            "samples": Counter(self._identities("sample_messages", collector)),
            "events": Counter(self._identities("events", collector)),
        }

    def sample_rows(self, collector: str) -> dict[tuple[str, int], int]:
        """Return the number of stored rows of each message of samples."""
        sql = f"SELECT device, sequence, count() FROM samples WHERE collector = '{collector}' GROUP BY ALL"  # noqa: S608 — a constant
        return {(str(device), int(sequence)): int(rows) for device, sequence, rows in self._query(sql)}

    def findings(self) -> Counter[tuple[str, int]]:
        """Return the number of stored copies of each (id, revision)."""
        return Counter((str(i), int(revision)) for i, revision in self._query("SELECT id, revision FROM findings"))

    def rejected(self, stage: str) -> Counter[tuple[str, int, int]]:
        """Return the number of stored copies of each rejected record of a stage, by (topic, partition, offset)."""
        rows = self._query(f"SELECT topic, partition, offset FROM rejected WHERE stage = '{stage}'")  # noqa: S608 — a constant
        return Counter((str(topic), int(partition), int(offset)) for topic, partition, offset in rows)

    def _identities(self, table: str, collector: str) -> list[tuple[str, int]]:
        sql = f"SELECT device, sequence FROM {table} WHERE collector = '{collector}'"  # noqa: S608 — constants
        return [(str(device), int(sequence)) for device, sequence in self._query(sql)]

    def _query(self, sql: str) -> list[list[Any]]:
        login = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        request = urllib.request.Request(  # noqa: S310 — an address of loopback
            f"{self.url}/?database={self.database}",
            data=f"{sql} FORMAT JSONCompactEachRow".encode(),
            headers={"Authorization": f"Basic {login}"},
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 — as above
                return [json.loads(line) for line in answer.read().splitlines() if line]
        except urllib.error.HTTPError as error:
            message = error.read(_ERROR_BYTES).decode(errors="replace").strip()
            raise OSError(f"ClickHouse answered HTTP {error.code}: {message}") from error
