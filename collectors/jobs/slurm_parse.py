"""Parses Slurm's JSON of jobs, from `squeue --json` or slurmrestd, 22.05 to 25.11, and its host lists. Pure.

The forms differ by the version of Slurm's data parser, which `meta` names: 23.02 writes some numbers as `{"set",
"infinite", "number"}`, and 23.11 a job's state as a list. The start of a waiting job and the end of a running job are
Slurm's estimates, and are not used.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import orjson

from collectors.jobs.ledger import MAX_NUMBER, MAX_SECONDS, Snapshot, bounded, text
from collectors.jobs.params import SlurmParams
from streams.wire.errors import Reject, Retry
from streams.wire.models import Job

MAX_HOSTS = 1 << 16

_ITEM = re.compile(r"((?:[^\[\],\s]|\[[0-9,-]+\])+)(?:,|$)")
_PART = re.compile(r"\[([0-9,-]+)\]|([^\[\]]+)")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def expand(hostlist: str) -> tuple[str, ...]:
    """Return the hosts of `h[0-1,07],gpu-a1,r[1-2]n[01-03]` in Slurm's order.

    Raises Reject for an invalid list, or for more than MAX_HOSTS hosts. No library is used: ClusterShell is LGPL and
    reads the machine's configuration, and python-hostlist is GPL.
    """
    hosts: list[str] = []
    at = 0
    while at < len(hostlist):
        found = _ITEM.match(hostlist, at)
        if found is None:
            raise Reject(f"host list {hostlist[:80]!r}: not readable at character {at}")
        hosts += _item(found[1], MAX_HOSTS - len(hosts))
        at = found.end()
    return tuple(hosts)


def _item(item: str, room: int) -> list[str]:
    choices = [_numbers(part[1], room) if part[1] else [part[2]] for part in _PART.finditer(item)]
    count = 1
    for choice in choices:
        count *= len(choice)
    if count > room:
        raise Reject(f"host list {item[:80]!r}: more than {MAX_HOSTS} hosts")
    return ["".join(parts) for parts in product(*choices)]


def _numbers(ranges: str, room: int) -> list[str]:
    numbers: list[str] = []
    for one in ranges.split(","):
        found = _RANGE.fullmatch(one)
        if found is None:
            raise Reject(f"host list: {ranges[:80]!r} is no range")
        first, last = int(found[1]), int(found[2] or found[1])
        if not first <= last < first + room:
            raise Reject(f"host list: range {one!r} is reversed, or has more than {MAX_HOSTS} hosts")
        numbers += [str(number).zfill(len(found[1])) for number in range(first, last + 1)]
    return numbers


FINAL = (
    "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "BOOT_FAIL", "DEADLINE",
)  # fmt: skip
_WAITS = frozenset({"PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "REVOKED"})
_COMPLETING = "COMPLETING"

_PARSER_OF_RELEASE = (((23, 11), 40), ((23, 2), 39), ((22, 5), 38))
"""The oldest release of each form; releases after 23.11 differ from it only in fields that are not read."""
_OLDEST = 38
_PARSER = re.compile(r"v0\.0\.(\d+)")
_GPUS = re.compile(r"(?:^|,)gpu:(?:[^:(),]+:)?(\d+)(?=[(,]|$)")
_PARTS = re.compile(r"(?:^|,)(?:(?:shard|mps):|gpu:[^:(),]*\d+g\.\d+gb[^:(),]*:)")
"""Parts of GPUs: shards, percentages of MPS, and MIG instances, whose type has their profile: `gpu:a100_3g.20gb:2`
(slurm.schedmd.com/gres.html)."""
_S = 1_000_000_000
_NOT_SET = (0xFFFFFFFE, 0xFFFFFFFF)
"""Slurm's NO_VAL and INFINITE, where a version writes plain numbers."""


def parse(data: bytes, params: SlurmParams, at_ns: int) -> Snapshot:
    """Return the jobs of an answer; raises Reject for an invalid answer, and Retry if it has errors of Slurm."""
    try:
        answer = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise Reject(f"slurm: the answer is no JSON: {error}") from error
    if not isinstance(answer, dict) or not isinstance(answer.get("jobs"), list):
        raise Reject("slurm: the answer has no list of jobs")
    if answer.get("errors"):
        raise Retry(f"slurm: {_first_error(answer['errors'])}")
    reader = _Reader(parser_version(answer.get("meta")), params, at_ns)
    for record in answer["jobs"]:
        reader.add(record)
    return reader.snapshot()


def parser_version(meta: object) -> int:
    """Return the number of Slurm's data parser, such as 38 for v0.0.38; raises Reject if it is unknown or too old."""
    parts = _object(meta)
    plugin, slurm = _object(parts.get("plugin")), _object(parts.get("slurm") or parts.get("Slurm"))
    for name in ("data_parser", "type"):
        if found := _PARSER.search(str(plugin.get(name) or "")):
            number = int(found[1])
            break
    else:
        number = _of_release(_object(slurm.get("version")))
    if number < _OLDEST:
        raise Reject(f"slurm: release {slurm.get('release') or 'unknown'} is not supported; 22.05 or later is needed")
    return number


def _object(value: object) -> Mapping[str, object]:
    """Return an object of JSON; empty for any other value."""
    return value if isinstance(value, dict) else {}


def _of_release(version: Mapping[str, object]) -> int:
    try:
        release = int(str(version["major"])), int(str(version["minor"]))
    except (KeyError, ValueError):
        return 0
    return next((number for oldest, number in _PARSER_OF_RELEASE if release >= oldest), 0)


def _first_error(errors: object) -> str:
    first = errors[0] if isinstance(errors, list) else errors
    described = first.get("description") or first.get("error") if isinstance(first, dict) else first
    return text(str(described)) or "an error without a description"


class _Reader:
    """Parses the records of one answer."""

    def __init__(self, parser: int, params: SlurmParams, at_ns: int) -> None:
        self._has_objects = parser >= 39
        self._has_lists = parser >= 40
        self._params = params
        self._at_ns = at_ns
        self._stays: dict[tuple[str, str, int], Job] = {}
        self._runs: dict[str, int] = {}
        self._unreadable: list[str] = []

    def snapshot(self) -> Snapshot:
        return Snapshot(tuple(self._stays.values()), self._runs, tuple(self._unreadable))

    def add(self, record: object) -> None:
        """Add one job; the components of a heterogeneous job have a record each, and are one stay on each host."""
        try:
            if not isinstance(record, dict):
                raise Reject("a job is no object")
            job, run = self._identity(record)
            stays = list(self._stays_of(record, job, run))
        except (Reject, KeyError, TypeError, ValueError) as error:
            identity = record.get("job_id") if isinstance(record, dict) else None
            self._unreadable.append(f"job {identity}: {error!r}")
            return
        self._runs[job] = max(run, self._runs.get(job, 0))
        for stay in stays:
            key = stay.job, stay.device, stay.run
            other = self._stays.get(key)
            self._stays[key] = stay if other is None else _together(other, stay)

    def _identity(self, record: Mapping[str, Any]) -> tuple[str, int]:
        """Return the job's displayed id, and its run."""
        array, task, het = (self._number(record.get(f"{name}_id")) for name in ("array_job", "array_task", "het_job"))
        identity = str(self._count(record["job_id"]))
        if array and task is not None:
            identity = f"{array}_{task}"
        elif het:
            identity = str(het)
        return self._params.prefix + identity, bounded(self._count(record["restart_cnt"]))

    def _stays_of(self, record: Mapping[str, Any], job: str, run: int) -> Iterable[Job]:
        states = self._states(record["job_state"])
        start_s = self._count(record["start_time"])
        if not states.isdisjoint(_WAITS) or not record.get("nodes") or not start_s:
            return
        params, team = self._params, self._team(record)
        array = self._number(record.get("array_job_id"))
        nodes = expand(record["nodes"])
        for node, gpus in zip(nodes, _gpus(record.get("gres_detail"), len(nodes)), strict=True):
            if params.is_excluded(node):
                continue
            start_ns = start_s * _S
            yield Job(
                job, text(params.host(node)), start_ns, self._end_ns(record, states, start_ns),
                text(record.get("name")), text(record.get("user_name")), team, text(params.tenant_of(team)), gpus, run,
                text("+".join(sorted(states))), params.name, (str(record["job_id"]),),
                f"{params.prefix}{array}" if array else "",
            )  # fmt: skip

    def _end_ns(self, record: Mapping[str, Any], states: frozenset[str], start_ns: int) -> int | None:
        """Return the end of a job that has ended; a completing job's processes have ended."""
        end_ns = self._count(record["end_time"]) * _S
        if not states.isdisjoint(FINAL):
            return max(end_ns or self._at_ns, start_ns + 1)
        if _COMPLETING in states and 0 < end_ns <= self._at_ns:
            return max(end_ns, start_ns + 1)
        return None

    def _team(self, record: Mapping[str, Any]) -> str:
        value = record.get({"account": "account", "comment": "comment", "user": "user_name"}[self._params.team_by])
        # 23.11 writes a comment as `{"user", "administrator", "system"}` in jobs of slurmdbd, others write text.
        name = text(value.get("user") if isinstance(value, dict) else value)
        return text(self._params.team(name)) if name else ""

    def _states(self, value: object) -> frozenset[str]:
        if self._has_lists:
            if isinstance(value, list) and value and all(isinstance(state, str) for state in value):
                return frozenset(value)
        elif isinstance(value, str) and value:
            return frozenset((value,))
        raise Reject(f"its state is {value!r}")

    def _count(self, value: object) -> int:
        """Return a number; 0 if Slurm has none."""
        return self._number(value) or 0

    def _number(self, value: object) -> int | None:
        """Return a number in this version's form; None if it is not set. Raises Reject for another form."""
        if self._has_objects and isinstance(value, dict) and isinstance(value.get("set"), bool):
            value = value["number"] if value["set"] and not value.get("infinite") else None
        if value is None or value in _NOT_SET:
            return None
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_SECONDS:
            return value
        raise Reject(f"{value!r} is no number")


_ALLOCATED = frozenset({"ALLOCATED", "ALLOC", "MIXED", "MIX", "DRAINING", "DRNG"})


def allocated_hosts(data: bytes, params: SlurmParams) -> frozenset[str]:
    """Return the hosts on which jobs run, of JSON or lines of nodes; raises Reject for an invalid answer."""
    if data.lstrip()[:1] == b"{":
        try:
            nodes = orjson.loads(data)["nodes"]
            states = [(str(node["name"]), _node_flags(node["state"])) for node in nodes]
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise Reject(f"slurm: the answer has no list of nodes: {error!r}") from error
    else:
        rows = [line.split() for line in data.decode("utf-8", "replace").splitlines()]
        states = [(row[0], _node_flags(row[1])) for row in rows if len(row) == 2]
    found = {node for node, flags in states if not flags.isdisjoint(_ALLOCATED) and not params.is_excluded(node)}
    return frozenset(text(params.host(node)) for node in found)


def _node_flags(state: object) -> frozenset[str]:
    """Return the state of a node and its flags: `alloc*`, `ALLOCATED+DRAIN`, or a list."""
    parts = state if isinstance(state, list) else re.split(r"[^A-Za-z_]+", str(state))
    return frozenset(str(part).upper() for part in parts)


def _gpus(detail: object, hosts: int) -> list[int | None]:
    """Return the GPUs of each host: None if it has parts of GPUs, or if Slurm does not list each host's resources."""
    if not isinstance(detail, list) or len(detail) != hosts:
        return [None] * hosts
    return [
        None if _PARTS.search(str(entry)) else bounded(sum(map(int, _GPUS.findall(str(entry))))) for entry in detail
    ]


def _together(one: Job, other: Job) -> Job:
    """Merge the stays of two components of one heterogeneous job on the same host."""
    ends = [one.end_ns, other.end_ns]
    return replace(
        one,
        start_ns=min(one.start_ns, other.start_ns),
        end_ns=None if None in ends else max(end for end in ends if end is not None),
        gpus=None if one.gpus is None or other.gpus is None else min(one.gpus + other.gpus, MAX_NUMBER),
        scheduler_ids=tuple(sorted({*one.scheduler_ids, *other.scheduler_ids})),
    )
