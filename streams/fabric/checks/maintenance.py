"""Maintenance that overlaps: the planes of a host's rail, or all paths of a switch upwards, worked on at once.

The table says until when, not from when on: of two devices that are in it, both are until the earlier end.
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
    """Who hangs on the devices in maintenance, and by which of its rails; a switch by none."""

    device: str
    rail: int | None


def overlapping(tables: Tables) -> Iterator[Problem]:
    """Who is not in maintenance keeps a plane of each of its rails, or a path upwards."""
    until = _maintenance_ends(tables)
    if len(until) < 2:
        return
    reached: dict[_LostUplinks, set[str]] = defaultdict(set)
    for link in tables.inventory.links:
        if (lower_upper := _lower_and_upper(tables, link)) is not None:
            lower, upper = lower_upper
            if lower not in until:
                is_host = link.role == HOST_LINK
                reached[_LostUplinks(lower, link.rail if is_host else None)].add(upper)
    cut_off: dict[frozenset[str], list[_LostUplinks]] = defaultdict(list)
    for rail, uppers in reached.items():
        if len(uppers) > 1 and uppers <= until.keys():
            cut_off[frozenset(uppers)].append(rail)
    for together, rails in cut_off.items():
        yield _problem(tables, until, sorted(together), rails)


def _maintenance_ends(tables: Tables) -> dict[str, datetime]:
    """The devices that are in maintenance, and until when."""
    return {
        device.name: device.maintenance_until
        for device in tables.inventory.devices
        if device.maintenance_until is not None and device.maintenance_until.timestamp() * 1e9 > tables.now_ns
    }


def _lower_and_upper(tables: Tables, link: Link) -> tuple[str, str] | None:
    """A link's ends by name, the one nearer to the hosts first; None where neither is, or one is not known."""
    a, z = tables.find_device(link.a_device), tables.find_device(link.z_device)
    if a is None or z is None or tier_rank(a.tier) == tier_rank(z.tier):
        return None
    return (a.name, z.name) if tier_rank(a.tier) < tier_rank(z.tier) else (z.name, a.name)


def _problem(
    tables: Tables, until: dict[str, datetime], uppers: Sequence[str], rails: Sequence[_LostUplinks]
) -> Problem:
    first = min(until[upper] for upper in uppers)
    those = join_names([rail.device if rail.rail is None else f"{rail.device} rail {rail.rail}" for rail in rails])
    says = (
        f"{join_names(uppers)} are in maintenance at once, until {first.isoformat()}: "
        f"nothing upwards is left to {those}"
    )  # fmt: skip
    rows = tables.rows("devices", [tables.index[upper] for upper in uppers])
    return Problem("devices", rows, "overlapping-maintenance", says)
