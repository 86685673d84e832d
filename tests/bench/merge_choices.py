"""Computes how often ClickHouse rewrites a row in merges, by its part selection rules, under settings and over hours.

    python -m tests.bench.merge_choices [--hours 1] [--least 32] [--most-mib 416] [--trim]

An insert of one part every 1.25 s (8 partitions, a block each 10 s), of the sizes that fabrics of different size make.
The rules are those of SimpleMergeSelector (ClickHouse 25 and 26): of all ranges of neighbours that are allowed, the one
with the smallest parts on average; with `--trim`, less its small parts at the right. What a merge takes in time is left
out, so that a merge is over before the next insert: if it prints hundreds, a server merges all the time.
"""

import argparse
import math
import sys
from dataclasses import dataclass

MIB = 1 << 20
PART_MIB = (0.1, 0.6, 1.5, 3, 4, 5, 6, 7, 8, 10, 12)
EVERY_S = 1.25
FIXED = 5 * MIB
"""The fixed cost of each part in bytes."""

BASE, LEAST_BASE = 5.0, 2.0
MOST_PARTS = 100
WINDOW = 400
MERGED = 0.66
"""A merged part of samples beside those that it was made of (clickhouse_parts: 56 and 39 bytes a row)."""

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings: parts and bytes of one merge, and whether small parts at the right are left out again."""

    least: int
    most: float
    trim: bool


@dataclass(slots=True)
class Part:
    """One part on disk. `bytes` is its size, `rows` what it holds, in parts as they were inserted."""

    bytes: float
    rows: int
    made_s: float


def share(value: float, least: float, most: float) -> float:
    """Return the position of a value between two others, from 0 to 1."""
    return min(1.0, max(0.0, (value - least) / (most - least)))


def base(size: float, age_s: float, parts: int) -> float:
    """Return the required ratio of a range to its largest part: lower for old parts, and for many parts."""
    large = share(math.log1p(size), math.log1p(MIB), math.log1p(100 * MIB))
    from_s, to_s = 10.0, 3600 + (30 * DAY_S - 3600) * large
    lowered = min(1.0, share(age_s, from_s, to_s) + share(parts, 10, 50))
    return BASE + (LEAST_BASE - BASE) * lowered


def choice(parts: list[Part], now_s: float, rules: Rules) -> tuple[int, int] | None:
    """The range of parts that is merged next."""
    best: tuple[float, int, int, float] | None = None
    for begin in range(len(parts)):
        size, largest, newest_s = 0.0, 0.0, 0.0
        for end in range(begin + 1, min(len(parts), begin + MOST_PARTS) + 1):
            part = parts[end - 1]
            size, largest, newest_s = size + part.bytes, max(largest, part.bytes), max(newest_s, part.made_s)
            count = end - begin
            if size > rules.most:
                break
            if count < max(2, rules.least):
                continue
            if (size + count * FIXED) / (largest + FIXED) < base(size, now_s - newest_s, len(parts)):
                continue
            score = (size + count * FIXED) / (count - 1.9)
            if best is None or score < best[0]:
                best = (score, begin, end, size)
    if best is None:
        return None
    _, begin, end, size = best
    while rules.trim and end >= begin + 3 and parts[end - 1].bytes < 0.01 * size:
        end -= 1
    return begin, end


def play(part_bytes: float, hours: float, rules: Rules) -> tuple[float, int]:
    """Return the rewrites of a row after its insert, and the number of remaining parts."""
    parts: list[Part] = []
    inserts = int(hours * 3600 / EVERY_S)
    written = 0
    for turn in range(inserts):
        now_s = turn * EVERY_S
        parts.append(Part(part_bytes, 1, now_s))
        older = max(0, len(parts) - WINDOW)
        chosen = choice(parts[older:], now_s, rules)
        if chosen is not None:
            begin, end = older + chosen[0], older + chosen[1]
            rows = sum(part.rows for part in parts[begin:end])
            written += rows
            parts[begin:end] = [Part(rows * part_bytes * MERGED, rows, now_s)]
    return written / inserts, len(parts)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--least", type=int, default=32, help="min_parts_to_merge_at_once")
    parser.add_argument("--most-mib", type=float, default=416, help="max_bytes_to_merge_at_max_space_in_pool")
    parser.add_argument("--trim", action="store_true", help="merge_selector_enable_heuristic_to_remove_small_parts…")
    given = parser.parse_args()
    rules = Rules(given.least, given.most_mib * MIB, given.trim)
    for size in PART_MIB:
        again, left = play(size * MIB, given.hours, rules)
        sys.stdout.write(f"parts of {size:4} MiB: written again {again:7.2f} times, {left:4} parts left\n")


if __name__ == "__main__":
    main()
