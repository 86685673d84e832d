"""Gathers the samples of one device until it falls quiet; times are of the device by row, and local. Pure."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

_MAX_DELAY_US = 2**31 - 1


@dataclass(slots=True)
class Burst:
    """The samples since the last reading was emitted."""

    row_at_ns: dict[str, int] = field(default_factory=dict)
    first_at_ns: int = 0
    began_ns: int = 0
    received_ns: int = 0
    updates: int = 0


def row_delays(
    rows: Iterable[str], at_ns: Mapping[str, int], sampled_at_ns: int, row_of: Callable[[str], str] | None
) -> tuple[int, ...]:
    """Return each row's delay after the first one in µs; empty if all were read at once.

    `row_of` returns the port of a module's row: a module's values go to its port, and the later time counts.
    """
    if row_of is not None:
        reported: dict[str, int] = {}
        for row, at in at_ns.items():
            port = row_of(row)
            reported[port] = max(reported.get(port, at), at)
        at_ns = reported
    if len(set(at_ns.values())) == 1:
        return ()
    delays = tuple(min((at_ns.get(row, sampled_at_ns) - sampled_at_ns) // 1000, _MAX_DELAY_US) for row in rows)
    return delays if any(delays) else ()
