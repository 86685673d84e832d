"""From what contenders used to what a million port-samples cost, and how many times railsight's that is.

Every contender is run twice, on a small load and on the whole one; the difference is the price of the port-samples
between them, so that nobody pays for the start of an interpreter or for joining a consumer group.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from streams.bench.peers.contenders import Contender
from streams.bench.peers.contest import Run

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Line:
    """One contender's line: CPU seconds and bytes a million port-samples; `ratio` is of its CPU to railsight's."""

    name: str
    keeps: str
    port_samples: int
    cpu_s: float | None = None
    server_cpu_s: float | None = None
    ratio: float | None = None
    port_samples_per_s: int | None = None
    peak_mib: int | None = None
    bytes_a_port_sample: float | None = None
    bytes_ratio: float | None = None
    said: str = ""

    @property
    def total_cpu_s(self) -> float:
        """Its own and the server's."""
        return (self.cpu_s or 0.0) + (self.server_cpu_s or 0.0)

    def to_json(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return asdict(self)


def lines(contenders: Sequence[Contender], small: Sequence[Run], whole: Sequence[Run], all_rows: int) -> list[Line]:
    """The table, in the order of the contenders; the first of each kind is what the others are compared to."""
    table: list[Line] = []
    first: dict[bool, Line] = {}
    for contender, before, after in zip(contenders, small, whole, strict=True):
        line = _line(contender, before, after, all_rows)
        first.setdefault(contender.stores, line)
        table.append(_compared(line, first[contender.stores]))
    return table


def _line(contender: Contender, before: Run, after: Run, all_rows: int) -> Line:
    if missing := after.missing or before.missing:
        return Line(contender.name, contender.keeps, 0, said=f"not installed: {missing}")
    if wrong := after.wrong or before.wrong:
        return Line(contender.name, contender.keeps, after.port_samples, said=f"WRONG: {wrong}")
    rows = after.port_samples - before.port_samples
    if rows <= 0:
        return Line(contender.name, contender.keeps, 0, said="too few messages to tell")
    seconds = after.wall_s - before.wall_s
    return Line(
        contender.name,
        contender.keeps,
        after.port_samples,
        cpu_s=round((after.cpu_s - before.cpu_s) / rows * MILLION, 2),
        server_cpu_s=round((after.server_cpu_s - before.server_cpu_s) / rows * MILLION, 2)
        if contender.stores
        else None,
        port_samples_per_s=round(rows / seconds) if seconds > 0 else None,
        peak_mib=after.peak_bytes >> 20,
        bytes_a_port_sample=round(after.disk_bytes / after.port_samples, 1) if contender.stores else None,
        said="" if after.port_samples == all_rows else f"measured on {after.port_samples / all_rows:.0%} of the data",
    )


def _compared(line: Line, first: Line) -> Line:
    if line.cpu_s is None or not first.total_cpu_s > 0:
        return line
    size, own = line.bytes_a_port_sample, first.bytes_a_port_sample
    return Line(
        **asdict(line)
        | {
            "ratio": round(line.total_cpu_s / first.total_cpu_s, 2),
            "bytes_ratio": round(size / own, 2) if size and own else None,
        }
    )
