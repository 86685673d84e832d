"""Rule for overlapping maintenance: all planes of a host's rail, or all uplinks of a switch, at the same time.

The table has the end of a maintenance and no start: two devices in maintenance overlap until the earlier end.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from streams.fabric.checks.problem import Problem, join_names
from streams.fabric.checks.tables import Tables
from streams.fabric.ids import tier_rank
from streams.fabric.inventory_rows import HOST_LINK, Link


class _LostUplinks(NamedTuple):
    """A device whose uplinks all lead to devices in maintenance, and the rail of a host; a switch has none."""

    device: str
    rail: int | None


def overlapping(tables: Tables) -> Iterator[Problem]:
    """Report each group of devices in maintenance that leaves a rail without a plane, or a switch without uplinks."""
    until = _maintenance_ends(tables)
    if len(until) < 2:
        return
    uppers_of: dict[_LostUplinks, set[str]] = defaultdict(set)
    for link in tables.inventory.links:
        if (lower_upper := _lower_and_upper(tables, link)) is not None:
            lower, upper = lower_upper
            if lower not in until:
                is_host = link.role == HOST_LINK
                uppers_of[_LostUplinks(lower, link.rail if is_host else None)].add(upper)
    isolated: dict[frozenset[str], list[_LostUplinks]] = defaultdict(list)
    for rail, uppers in uppers_of.items():
        if len(uppers) > 1 and uppers <= until.keys():
            isolated[frozenset(uppers)].append(rail)
    for isolating, rails in isolated.items():
        yield _problem(tables, until, sorted(isolating), rails)


def _maintenance_ends(tables: Tables) -> dict[str, datetime]:
    """Return the end of maintenance by device, for devices that are in maintenance."""
    return {
        device.name: device.maintenance_until
        for device in tables.inventory.devices
        if device.maintenance_until is not None and device.maintenance_until.timestamp() * 1e9 > tables.now_ns
    }


def _lower_and_upper(tables: Tables, link: Link) -> tuple[str, str] | None:
    """Return a link's devices, the one nearer to the hosts first; None for equal tiers or an unknown device."""
    a, z = tables.find_device(link.a_device), tables.find_device(link.z_device)
    if a is None or z is None or tier_rank(a.tier) == tier_rank(z.tier):
        return None
    return (a.name, z.name) if tier_rank(a.tier) < tier_rank(z.tier) else (z.name, a.name)


def _problem(
    tables: Tables, until: dict[str, datetime], uppers: Sequence[str], rails: Sequence[_LostUplinks]
) -> Problem:
    first = min(until[upper] for upper in uppers)
    affected = join_names([rail.device if rail.rail is None else f"{rail.device} rail {rail.rail}" for rail in rails])
    message = (
        f"{join_names(uppers)} are in maintenance at once, until {first.isoformat()}: "
        f"no uplink remains for {affected}"
    )  # fmt: skip
    rows = tables.rows("devices", [tables.index[upper] for upper in uppers])
    return Problem("devices", rows, "overlapping-maintenance", message)
