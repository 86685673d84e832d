"""Queries the input of lemon scores: root faults of links and hosts, outcomes of repairs, the fleet, parts by time.

Returns rows without conclusions. Raises Retry while ClickHouse is unavailable.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from streams.store.clickhouse import QueryClient
from streams.store.enum_labels import enum_label
from streams.store.queries.job_history import batches
from streams.wire.models import Condition

PART_KINDS = ("transceiver", "nic")

NEWEST_NS = 2 * 86_400 * 10**9
"""The fleet has the devices that reported their parts in this time; Facts are read hourly."""


class FaultRow(NamedTuple):
    """A root finding; `device` is the lower end of its subject."""

    subject_id: str
    device: str
    condition: str
    at_ns: int


class OutcomeRow(NamedTuple):
    """A repair that did not help."""

    subject_id: str
    outcome: str
    at_ns: int


class LinkEnds(NamedTuple):
    """A link of the newest inventory."""

    id: str
    lower: str
    lower_port: str
    upper: str
    upper_port: str


class PartsRow(NamedTuple):
    """The parts of a device by one source, with the time of the report; the lists have one entry per part."""

    device: str
    source: str
    since_ns: int
    names: Sequence[str]
    kinds: Sequence[str]
    numbers: Sequence[str]
    firmware: Sequence[str]
    aliases: Sequence[Sequence[str]]


_FAULTS = (
    "SELECT subject_id, a_device, condition, toUnixTimestamp64Nano(started_at) AS at_ns FROM findings_latest"
    " WHERE at_ns >= {since:Int64} AND at_ns < {until:Int64} AND parent_id = '' AND NOT shadow"
    " AND status != 'retracted' AND severity != 'info' AND condition IN {conditions:Array(String)}"
    " ORDER BY at_ns, id"
)
# A restart may publish a transition twice, as two revisions.
_OUTCOMES = (
    "SELECT subject_id, repair_outcome, min(toUnixTimestamp64Nano(assumeNotNull(decided_at))) AS at_ns"
    " FROM remediations WHERE repair_outcome IN ('not_qualified', 'relapsed') AND decided_at IS NOT NULL"
    " GROUP BY id, subject_id, repair_outcome, JSONExtractString(json, 'outcomeStep')"
    " HAVING at_ns >= {since:Int64} AND at_ns < {until:Int64} ORDER BY at_ns, subject_id"
)
_VERSION = (
    "(digest, effective_at) = (SELECT digest, effective_at FROM inventory_devices"
    " ORDER BY toUnixTimestamp64Nano(effective_at) < {until:Int64} DESC, effective_at DESC LIMIT 1)"
)
_LINKS = f"SELECT DISTINCT id, a_device, a_port, z_device, z_port FROM inventory_links WHERE {_VERSION}"  # noqa: S608
_HOSTS = f"SELECT DISTINCT name FROM inventory_devices WHERE kind = 'host' AND {_VERSION}"  # noqa: S608 — ours
_COLUMNS = "components.name, components.kind, components.part_number, components.firmware, components.alias"
_NEWEST = (
    f"SELECT device, source, toUnixTimestamp64Nano(observed_at) AS at_ns, {_COLUMNS} FROM facts"  # noqa: S608 — ours
    " WHERE at_ns >= {since:Int64} AND at_ns < {until:Int64} ORDER BY at_ns DESC LIMIT 1 BY device, source"
)
_HISTORY = (
    f"SELECT device, source, min(toUnixTimestamp64Nano(observed_at)) AS at_ns, {_COLUMNS} FROM facts"  # noqa: S608
    " WHERE device IN {devices:Array(String)} AND toUnixTimestamp64Nano(observed_at) < {until:Int64}"
    f" GROUP BY device, source, {_COLUMNS} ORDER BY device, source, at_ns"
)


def query_faults(client: QueryClient, conditions: Iterable[Condition], since_ns: int, until_ns: int) -> list[FaultRow]:
    """Return the root findings of these conditions that started in [since, until)."""
    parameters = {"since": since_ns, "until": until_ns, "conditions": list(map(enum_label, conditions))}
    return [FaultRow(*row) for row in client.query(_FAULTS, parameters)]


def query_outcomes(client: QueryClient, since_ns: int, until_ns: int) -> list[OutcomeRow]:
    """Return the repairs in [since, until) that did not help, each once."""
    return [OutcomeRow(*row) for row in client.query(_OUTCOMES, {"since": since_ns, "until": until_ns})]


def query_links(client: QueryClient, until_ns: int) -> list[LinkEnds]:
    """Return the links of the inventory in effect."""
    return [LinkEnds(*row) for row in client.query(_LINKS, {"until": until_ns})]


def query_hosts(client: QueryClient, until_ns: int) -> list[str]:
    """Return the names of the hosts of the inventory in effect."""
    return [str(name) for (name,) in client.query(_HOSTS, {"until": until_ns})]


def query_newest_parts(client: QueryClient, until_ns: int) -> list[PartsRow]:
    """Return the newest parts of each source of each device."""
    parameters = {"since": until_ns - NEWEST_NS, "until": until_ns}
    return [PartsRow(*row) for row in client.query(_NEWEST, parameters)]


def query_parts(client: QueryClient, devices: Iterable[str], until_ns: int) -> Iterator[PartsRow]:
    """Yield the parts that devices had, in the order of time for each source."""
    for batch in batches(sorted(set(devices))):
        yield from (PartsRow(*row) for row in client.query(_HISTORY, {"devices": batch, "until": until_ns}))
