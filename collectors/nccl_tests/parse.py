"""Parses the output of nccl-tests: the table of 2.0 and later, and the JSON of `-J` (2.17, 2.19). Pure.

A table may have the marks of `mpirun --tag-output` and `srun --label`, and several programs may follow each other. The
header names the columns: versions, `-I` and `-S` add some. A cell without a number is absent.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import orjson

from streams.wire.errors import Reject


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank, the group of ranks that shares its communicator, its host, and the PCI address of its GPU."""

    rank: int
    group: int
    host: str
    gpu: str


@dataclass(frozen=True, slots=True)
class Measurement:
    """The time of one operation, its bandwidths, and the wrong elements; None if the program prints none."""

    time_us: float | None
    algorithm_bytes_per_s: float | None
    bus_bytes_per_s: float | None
    wrong: float | None


@dataclass(frozen=True, slots=True)
class Result:
    """One line of results: a size, out of place and in place."""

    size_bytes: int
    elements: int
    type: str
    redop: str
    root: int
    placements: tuple[Measurement | None, Measurement | None]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One run of one program; `average_bus_bytes_per_s` is None if the output ends before the summary."""

    operation: str
    ranks: tuple[Rank, ...]
    results: tuple[Result, ...]
    average_bus_bytes_per_s: float | None = None
    began: str = ""
    """The local start time that the program prints; empty in a table."""

    @property
    def group_size(self) -> int:
        """The number of ranks of one communicator: results are per group, also if several groups run in parallel."""
        return max(Counter(rank.group for rank in self.ranks).values())

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts in the order of their ranks."""
        return tuple(dict.fromkeys(rank.host for rank in self.ranks))

    def row(self, result: Result) -> str:
        """Return the name of the row of a result: results with the same name are comparable."""
        return f"{self.operation}/{result.type}/{result.redop}/{result.root}/{result.size_bytes}"


MAX_RANKS = 1 << 17
"""The largest published cluster has 131,072 GPUs."""
_MAX_RESULTS = 1 << 12
_TAG = re.compile(r"^(?:\[\d+,\d+\]<std(?:out|err)>:|\s*\d+: )")
_BEGIN = re.compile(r"^# nThreads? \d+ nGpus \d+ minBytes")
_PROGRAM = re.compile(r"^# Collective test starting: (\S+)")
_RANK = re.compile(r"^#\s+Rank\s+(\d+)\s+(?:Group\s+(\d+)\s+)?Pid\s+\d+ on\s+(\S+) device\s+\d+ \[([0-9a-fA-Fx:.]+)\]")
_AVERAGE = re.compile(r"^# Avg bus bandwidth\s*: (\S+)")
_RESULT = re.compile(r"^\s*\d+\s+\d+\s+\w+\s+\w+\s+-?\d+\s")
_KEYS = 5
"""Columns before the measurements: size, count, type, redop, root."""
_BEFORE = 3
"""Lines before the settings' line in which the program may be named."""
_TIMES = ("time", "cputime")
_GB = 1e9
_NAME = 64


def parse(data: bytes, operation: str = "") -> list[Benchmark]:
    """Return the benchmarks of an output.

    `operation` applies to a table that does not name its program (before 2.14). Raises Reject if there are no results.
    """
    if data.lstrip()[:1] == b"{":
        found = [_json(data, operation)]
    else:
        found = list(_tables(data.decode(errors="replace"), operation))
    for benchmark in found:
        if not benchmark.ranks or not benchmark.results:
            lacks = "line `Rank … on HOST`" if not benchmark.ranks else "result"
            raise Reject(f"the output of {benchmark.operation} has no {lacks}; pass all that the program printed")
        if len(benchmark.ranks) > MAX_RANKS or len(benchmark.results) > _MAX_RESULTS:
            raise Reject(f"the output has more than {MAX_RANKS} ranks or {_MAX_RESULTS} results")
    if not found:
        raise Reject("this is no output of nccl-tests: neither its table nor its JSON")
    return found


def _tables(text: str, operation: str) -> Iterator[Benchmark]:
    """Yield the benchmark of each table; a table starts with its settings, after the line that names the program."""
    lines = [_TAG.sub("", line) for line in text.splitlines()]
    begins = [number for number, line in enumerate(lines) if _BEGIN.match(line)]
    for begin, end in pairwise([*begins, len(lines)]):
        program = next(filter(None, map(_PROGRAM.match, lines[max(0, begin - _BEFORE) : begin])), None)
        name = operation_of(program[1]) if program else operation
        if not name:
            raise Reject("the table does not name its program; set operation, for example to all_reduce")
        yield _table(name, lines[begin:end])


def _table(operation: str, lines: list[str]) -> Benchmark:
    ranks, results = [], []
    columns: tuple[str, ...] = ()
    average = None
    for line in lines:
        if found := _RANK.match(line):
            ranks.append(Rank(int(found[1]), int(found[2] or 0), found[3][:_NAME], _pci(found[4])))
        elif found := _AVERAGE.match(line):
            average = _scaled(_number(found[1]), _GB)
        elif line.startswith("#") and line.split()[1:_KEYS] == ["size", "count", "type", "redop"]:
            columns = tuple(line.split()[1:])
        elif _RESULT.match(line):
            results.append(_line(line.split(), columns))
    return Benchmark(operation, tuple(ranks), tuple(results), average)


def _line(cells: list[str], columns: tuple[str, ...]) -> Result:
    """Return the result of a line; a line with one set of measurements has only those in place."""
    begins = [number for number, column in enumerate(columns) if column in _TIMES]
    if len(begins) != 2:
        raise Reject("a line of results is not below a header with two times")
    if len(cells) < begins[1] + 3:
        begins = [len(cells), begins[0]]
    placements = tuple(_measured(cells[begin : begin + 4], columns, columns[begins[1]]) for begin in begins)
    return Result(int(cells[0]), int(cells[1]), cells[2], cells[3], int(cells[4]), (placements[0], placements[1]))


def _measured(cells: list[str], columns: tuple[str, ...], time: str) -> Measurement | None:
    if len(cells) < 3:
        return None
    numbers = [_number(cell) for cell in cells]
    # Before 2.13 the fourth column is the largest error of a result, not a count.
    wrong = numbers[3] if len(numbers) > 3 and "#wrong" in columns else None
    return Measurement(
        numbers[0] if time == "time" else None, _scaled(numbers[1], _GB), _scaled(numbers[2], _GB), wrong
    )  # fmt: skip


def _json(data: bytes, operation: str) -> Benchmark:
    try:
        root = orjson.loads(data)
        config, args = root["config"], root.get("args") or [""]
        name = operation_of(str(args[0])) or operation
        average = _scaled(_number((root.get("average_bus_bandwidth") or {}).get("bandwidth")), _GB)
        if not name:
            raise Reject("the JSON does not name its program; set operation, for example to all_reduce")
        return Benchmark(
            name, tuple(_ranks(config)), tuple(map(_json_result, root["results"])), average,
            str(root.get("start_time") or ""),
        )  # fmt: skip
    except (orjson.JSONDecodeError, KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise Reject(f"the JSON of nccl-tests is incomplete or of another form: {error!r}") from error


def _ranks(config: Mapping[str, Any]) -> Iterator[Rank]:
    """Yield the ranks; the JSON has only the first GPU of each process (2.19), so the others have no address."""
    each = int(config["nthreads"]) * int(config["ngpus"])
    devices = config["devices"]
    if not 1 <= each <= MAX_RANKS or len(devices) * each > MAX_RANKS:
        raise ValueError(f"{len(devices)} processes of {each} GPUs")
    listed = {int(device["rank"]) for device in devices}
    each = 1 if any(rank + 1 in listed for rank in listed) else each
    for device in devices:
        first, group, host = int(device["rank"]), int(device.get("group") or 0), str(device["hostname"])[:_NAME]
        yield Rank(first, group, host, _pci(str(device["device_hex"])))
        yield from (Rank(rank, group, host, "") for rank in range(first + 1, first + each))


def _json_result(result: Mapping[str, Any]) -> Result:
    places = tuple(_json_measured(result.get(key)) for key in ("out_of_place", "in_place"))
    return Result(
        int(result["size"]), int(result["count"]), str(result["type"])[:_NAME], str(result["redop"])[:_NAME],
        int(str(result["root"]).strip()), (places[0], places[1]),
    )  # fmt: skip


def _json_measured(measured: Mapping[str, Any] | None) -> Measurement | None:
    if measured is None:
        return None
    return Measurement(
        _number(measured.get("time")), _scaled(_number(measured.get("alg_bw")), _GB),
        _scaled(_number(measured.get("bus_bw")), _GB), _number(measured.get("nwrong")),
    )  # fmt: skip


def operation_of(program: str) -> str:
    """Return the operation of a program: `all_reduce` for `/opt/bin/all_reduce_perf_mpi`; empty for other names."""
    name, separator, _ = program.rpartition("/")[2].rpartition("_perf")
    return name[:_NAME] if separator else ""


def _pci(text: str) -> str:
    """Return a PCI address in the kernel's form; before 2.14 the programs print only the bus (`0x07`)."""
    if ":" not in text:
        return f"0000:{int(text, 16):02x}:00.0"
    return f"{text.lower()}.0"


def _number(value: object) -> float | None:
    """Return a finite number that is not negative; None for `N/A`, `nan` and null."""
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
