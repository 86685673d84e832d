"""Models the output of one program of nccl-tests: its ranks, and a result for each size."""

from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank, the group of ranks that shares its communicator, its host, and the PCI address of its GPU."""

    rank: int
    group: int
    host: str
    gpu: str


@dataclass(frozen=True, slots=True)
class Measurement:
    """The time of one operation, its bandwidths, and the wrong elements; None where the program has none."""

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
    """One run of one program; `average_bus_bytes_per_s` is None where the output ends before the summary."""

    operation: str
    ranks: tuple[Rank, ...]
    results: tuple[Result, ...]
    average_bus_bytes_per_s: float | None = None
    began: str = ""
    """The local time at which the program began, as it writes it; empty in a table."""

    @property
    def group_size(self) -> int:
        """The ranks of one communicator: results are those of a group, also where several run in parallel."""
        return max(Counter(rank.group for rank in self.ranks).values())

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts in the order of their ranks."""
        return tuple(dict.fromkeys(rank.host for rank in self.ranks))

    def row(self, result: Result) -> str:
        """Return the name of the row of a result: results with the same name are comparable."""
        return f"{self.operation}/{result.type}/{result.redop}/{result.root}/{result.size_bytes}"
