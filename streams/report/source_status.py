"""Reports the sources of each device, with their newest readings and errors, and devices without a collector.

Statuses and the inventory come from Kafka. A running collector repeats the status of a target at least every
`status_every_s`, so its time of the newest reading can be that old; ClickHouse has the exact time.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from streams.config.kafka import KafkaSettings
from streams.config.settings import Settings
from streams.fabric.inventory import Inventory
from streams.fabric.name_resolution import NameResolver
from streams.fabric.topology import Topology
from streams.runtime.inventory_reader import inventory_in_effect
from streams.runtime.inventory_versions import unknown_hosts_text
from streams.runtime.topic_io import read_newest
from streams.store.clickhouse import QueryClient
from streams.store.enum_labels import source_name
from streams.wire.errors import Misconfigured, Retry
from streams.wire.models import CollectorStatus, Job
from streams.wire.topics import COLLECTOR_STATUS, JOBS

STALE_CADENCES = 3.0
STALE_LEAST_NS = 30_000_000_000
"""A source is silent after max(3 x its cadence, 30 s), as in telemetry/stale (DESIGN 2)."""
STATUS_EVERY_NS = 60_000_000_000
"""The default interval of the statuses of a target with samples."""
_NAMES = 5
"""The limit of names on a line."""
UNKNOWN_NAMES = 16
"""The limit of names of devices with lines that no table knows."""
_QUERY_NS = 3_600_000_000_000
_NEWEST = (
    "SELECT device, source, toUnixTimestamp64Nano(max(sampled_at)) FROM sample_messages"
    " WHERE sampled_at >= fromUnixTimestamp64Nano({since:Int64}, 'UTC') GROUP BY device, source"
)
"""The query for the newest readings of the last hour."""


class SourceState(StrEnum):
    """The state of one source of one device."""

    UP = "up"
    UNREACHABLE = "unreachable"
    SILENT = "silent"
    """No status and no reading within the limit: the collector has stopped or cannot reach Kafka."""
    ENDED = "ended"
    """The collector ended gracefully, or no longer has this target."""
    NO_COLLECTOR = "no collector"
    """A device of the inventory without any source."""
    WAITING = "waiting"
    """The same right after the start of the pipeline, before its first readings are due."""


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One source of one device at one time."""

    device: str
    source: str
    state: SourceState
    collector: str = ""
    last_reading_ns: int | None = None
    cadence_ns: int | None = None
    error: str = ""
    unknown_lines: int = 0
    """Lines of syslog that no table knows."""

    @property
    def has_problem(self) -> bool:
        """True unless the source is up and reads everything, or has ended."""
        return self.state is not SourceState.ENDED and (self.state is not SourceState.UP or bool(self.error))

    def lag_ns(self, now_ns: int) -> int | None:
        """Return the age of the newest reading."""
        return None if self.last_reading_ns is None else max(0, now_ns - self.last_reading_ns)

    def as_dict(self, now_ns: int) -> dict[str, Any]:
        """Return the row as JSON values."""
        return {
            "device": self.device, "source": self.source, "state": str(self.state), "collector": self.collector,
            "last_reading_ns": self.last_reading_ns, "lag_ns": self.lag_ns(now_ns), "cadence_ns": self.cadence_ns,
            "error": self.error, "unknown_lines": self.unknown_lines,
        }  # fmt: skip


async def read_statuses(kafka: KafkaSettings) -> list[CollectorStatus]:
    """Return the newest status of each device, source and collector; raises Retry."""
    statuses = await read_newest(kafka, COLLECTOR_STATUS)
    return [status for status in statuses.newest.values() if isinstance(status, CollectorStatus)]


async def unknown_job_hosts(kafka: KafkaSettings, inventory: Inventory | None) -> frozenset[str]:
    """Return the hosts of running jobs that the inventory lacks, also with folded names; raises Retry."""
    if inventory is None:
        return frozenset()
    jobs = (await read_newest(kafka, JOBS)).newest.values()
    resolver = NameResolver(Topology(inventory))
    running = {job.device for job in jobs if isinstance(job, Job) and job.end_ns is None}
    return frozenset(host for host in running if resolver.resolve_device(host) is None)


def newest_readings(client: QueryClient, now_ns: int) -> dict[tuple[str, str], int]:
    """Return the time of the newest stored reading of each device and source; raises Retry or Misconfigured."""
    return {(device, source): at for device, source, at in client.query(_NEWEST, {"since": now_ns - _QUERY_NS})}


def source_rows(
    statuses: Iterable[CollectorStatus],
    inventory: Inventory | None,
    now_ns: int,
    newest: Mapping[tuple[str, str], int] | None = None,
) -> list[SourceRow]:
    """Return a row for each source of each device, and one for each device of the inventory without a source.

    If several collectors read one source, the row has the best: `up` before `unreachable`, then the newest; and the
    highest number of unknown lines, because they may receive the same ones.
    """
    best: dict[tuple[str, str], SourceRow] = {}
    for status in statuses:
        row = _row(status, now_ns)
        known = best.setdefault((row.device, row.source), row)
        if known is not row:
            lines = max(known.unknown_lines, row.unknown_lines)
            best[row.device, row.source] = replace(max(known, row, key=_rank), unknown_lines=lines)
    rows = [_with_reading(row, now_ns, newest or {}) for row in best.values()]
    observed = {row.device for row in rows if row.state is not SourceState.ENDED}
    missing = [
        SourceRow(device.name, "", SourceState.NO_COLLECTOR)
        for device in (inventory.devices if inventory is not None else ())
        if device.name not in observed
    ]
    return sorted((*rows, *missing), key=lambda row: (row.device, row.source))


def unknown_devices(rows: Iterable[SourceRow]) -> list[tuple[str, int]]:
    """Return the devices with syslog lines that no table knows, with their number, the highest first."""
    found = [(row.device, row.unknown_lines) for row in rows if row.unknown_lines]
    return sorted(found, key=lambda one: (-one[1], one[0]))


def unknown_lines(rows: Iterable[SourceRow]) -> Iterator[str]:
    """Yield a line that names the devices with the most syslog lines that no table knows; none without one."""
    if found := unknown_devices(rows):
        shown = ", ".join(f"{device}: {lines}" for device, lines in found[:UNKNOWN_NAMES])
        shown += f" and {len(found) - UNKNOWN_NAMES} more" if len(found) > UNKNOWN_NAMES else ""
        yield f"no table knows syslog lines of {len(found)} devices ({shown}): the log of `collect syslog` has examples"


def blind_lines(
    rows: Iterable[SourceRow], inventory: Inventory | None, unknown_hosts: Collection[str] = ()
) -> Iterator[str]:
    """Yield a line for each target without readings, and one for each kind's devices without a collector.

    `unknown_hosts` are the hosts of running jobs that the inventory lacks.
    """
    missing = set()
    for row in rows:
        if row.state is SourceState.NO_COLLECTOR:
            missing.add(row.device)
        elif row.has_problem:
            yield f"{row.device} is {row.state} by {row.source}" + (f": {row.error}" if row.error else "")
    if inventory is None:
        yield "no inventory is published: links and peers are unknown; run `railsight inventory apply DIR`"
        return
    if unknown_hosts:
        yield f"jobs run on {unknown_hosts_text(unknown_hosts)}"
    if len(inventory.devices) > 1 and not inventory.links:
        yield (
            "the inventory has no links, so both ends of a cable are found apart: complete its links.csv, or draft one"
            " from LLDP by `railsight inventory draft DIR`, and run `railsight inventory apply DIR`"
        )
    for kind, remedy in _REMEDIES.items():
        names = sorted(device.name for device in inventory.devices if device.kind == kind and device.name in missing)
        if names:
            shown = ", ".join(names[:_NAMES]) + (f" and {len(names) - _NAMES} more" if len(names) > _NAMES else "")
            yield f"no collector reads {len(names)} of the inventory's devices of kind {kind} ({shown}): {remedy}"


_REMEDIES = {
    "switch": "add it to the targets of [collect.gnmi] or [collect.snmp]",
    "host": "run `railsight collect nic` and `railsight collect host` on it",
}


def _row(status: CollectorStatus, now_ns: int) -> SourceRow:
    cadence_ns = status.cadence_ns or None
    limit_ns = max(STALE_CADENCES * (cadence_ns or 0), STALE_LEAST_NS) + STATUS_EVERY_NS
    state = SourceState.UP if status.reachable else SourceState.UNREACHABLE
    if status.ended:
        state = SourceState.ENDED
    elif now_ns - status.at_ns > limit_ns:
        state = SourceState.SILENT
    error = status.error if not status.ended else ""
    if state is SourceState.SILENT:
        error = f"no status of its collector {status.collector} any more"
    return SourceRow(
        status.device, source_name(status.source), state, status.collector,
        status.last_sample_at_ns or None, cadence_ns, error, 0 if status.ended else status.unknown_lines,
    )  # fmt: skip


def _with_reading(row: SourceRow, now_ns: int, newest: Mapping[tuple[str, str], int]) -> SourceRow:
    """Return the row with the stored time of its newest reading, which may show that a silent source is up."""
    at_ns = max(newest.get((row.device, row.source), 0), row.last_reading_ns or 0) or None
    limit_ns = max(STALE_CADENCES * (row.cadence_ns or 0), STALE_LEAST_NS)
    if row.state is SourceState.SILENT and at_ns is not None and now_ns - at_ns <= limit_ns:
        return replace(row, last_reading_ns=at_ns, state=SourceState.UP, error="")
    return row if at_ns == row.last_reading_ns else replace(row, last_reading_ns=at_ns)


def _rank(row: SourceRow) -> tuple[int, int]:
    order = (SourceState.ENDED, SourceState.SILENT, SourceState.UNREACHABLE, SourceState.UP)
    return order.index(row.state), row.last_reading_ns or 0


FIRST_S = 20.0
"""The first wait, longer than any collector's first attempt: SNMP times out after 6 s (3 tries of 2 s)."""
EVERY_S = 30.0
_RETRY_S = 2.0
"""The interval of checks until first readings are due."""


async def watch_blindness(
    settings: Callable[[], Settings | None], print_line: Callable[[str], None], cadence_s: float
) -> None:
    """Print the lines of blind_lines() until cancelled; `settings` returns None while the servers start.

    `cadence_s` is the longest cadence of the collectors.
    """
    while (found := settings()) is None:  # noqa: ASYNC110 — another process sets no event
        await asyncio.sleep(1.0)
    begin_s = time.monotonic()
    printed: frozenset[str] | None = None
    while True:
        try:
            now_ns = time.time_ns()
            inventory = await inventory_in_effect(found.kafka, now_ns)
            rows = source_rows(await read_statuses(found.kafka), inventory, now_ns)
        except (Retry, Misconfigured):
            # The brokers are unavailable or restarting, which the supervisor and the parts' logs report.
            await asyncio.sleep(EVERY_S)
            continue
        if printed is None and not are_due(rows, inventory, time.monotonic() - begin_s, cadence_s):
            await asyncio.sleep(_RETRY_S)
            continue
        lines = list(blind_lines(rows, inventory))
        for line in changes(printed, lines, rows):
            print_line(line)
        printed = frozenset(lines)
        await asyncio.sleep(EVERY_S)


def are_due(rows: list[SourceRow], inventory: Inventory | None, waited_s: float, cadence_s: float) -> bool:
    """Return whether all targets had time for a first reading, which collectors spread over their cadence."""
    if rows and inventory is not None and all(row.state is SourceState.UP for row in rows):
        return True
    return waited_s >= FIRST_S + cadence_s


def changes(printed: frozenset[str] | None, lines: list[str], rows: list[SourceRow]) -> list[str]:
    """Return the new lines, and after a change also the number of devices that are read."""
    if printed is not None and printed == frozenset(lines):
        return []
    up = sum(row.state is SourceState.UP for row in rows)
    expected = sum(row.state is not SourceState.ENDED for row in rows)
    summary = f"reading {up} of {expected} sources; `railsight status` lists them"
    return [*(f"blind: {line}" for line in lines if printed is None or line not in printed), summary]
