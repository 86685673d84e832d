"""Compares two versions of an inventory: what the second one adds, removes and changes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from streams.fabric.inventory_rows import Device, Inventory, Link

_SHOWN = 5
_Row = TypeVar("_Row", Device, Link)


@dataclass(frozen=True, slots=True)
class RowChanges:
    """The names of the rows of one table that were added, removed and changed, in the order of the tables."""

    table: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yield `added`, `removed` or `changed` with the name, for each row."""
        for what, names in (("added", self.added), ("removed", self.removed), ("changed", self.changed)):
            yield from ((what, name) for name in names)

    def __str__(self) -> str:
        parts = [
            f"{len(names)} {what} ({', '.join(names[:_SHOWN])}{', …' if len(names) > _SHOWN else ''})"
            for what, names in (("added", self.added), ("removed", self.removed), ("changed", self.changed))
            if names
        ]
        return f"{self.table}: {'; '.join(parts) or 'unchanged'}"


def compare(before: Inventory, after: Inventory) -> tuple[RowChanges, RowChanges]:
    """Return the changes of devices and of links. A link is known by its two ports, whichever is named first."""
    return (
        _changes("devices", _devices(before.devices), _devices(after.devices)),
        _changes("links", _links(before.links), _links(after.links)),
    )


def _devices(rows: Iterable[Device]) -> dict[str, object]:
    return {row.name: row for row in rows}


def _links(rows: Iterable[Link]) -> dict[str, object]:
    found: dict[str, object] = {}
    for row in rows:
        ends = sorted((f"{row.a_device}/{row.a_port}", f"{row.z_device}/{row.z_port}"))
        found[" -- ".join(ends)] = row._replace(a_device="", a_port="", z_device="", z_port="")
    return found


def filled(draft: Inventory, present: Inventory) -> Inventory:
    """Return a draft with its blank columns filled from the present rows: what a draft does not know is no change."""
    devices = {row.name: row for row in present.devices}
    links = {frozenset((row.a, row.z)): row for row in present.links}
    return replace(
        draft,
        devices=tuple(_filled(row, devices.get(row.name)) for row in draft.devices),
        links=tuple(_filled(row, links.get(frozenset((row.a, row.z)))) for row in draft.links),
    )


def _filled(row: _Row, present: _Row | None) -> _Row:
    if present is None:
        return row
    blank = {
        name: getattr(present, name)
        for name, default in row._field_defaults.items()
        if getattr(row, name) == default != getattr(present, name)
    }
    return row._replace(**blank)


def _changes(table: str, before: dict[str, object], after: dict[str, object]) -> RowChanges:
    return RowChanges(
        table,
        tuple(name for name in after if name not in before),
        tuple(name for name in before if name not in after),
        tuple(name for name, row in after.items() if name in before and before[name] != row),
    )
