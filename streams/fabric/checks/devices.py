"""Rules for devices: duplicate names and identities, and a kind that contradicts the tier."""

from collections import defaultdict
from collections.abc import Callable, Iterator

from streams.fabric.checks.problem import Problem, Rule
from streams.fabric.checks.tables import Tables
from streams.fabric.inventory_rows import Device

_SWITCH_TIERS = frozenset({"T0", "T1", "T2"})


def _duplicates(tables: Tables, value_of: Callable[[Device], str]) -> Iterator[tuple[str, list[int]]]:
    """Yield each value that occurs in more than one row, with the row indexes; blank values do not count."""
    rows_by_value: dict[str, list[int]] = defaultdict(list)
    for index, device in enumerate(tables.inventory.devices):
        rows_by_value[value_of(device)].append(index)
    return ((value, indexes) for value, indexes in rows_by_value.items() if value and len(indexes) > 1)


def listed_twice(tables: Tables) -> Iterator[Problem]:
    """Report each device name that occurs in several rows."""
    if len(tables.index) == len(tables.inventory.devices):
        return
    for name, indexes in _duplicates(tables, lambda device: device.name):
        rows = tables.rows("devices", indexes)
        yield Problem("devices", rows, "device-listed-twice", f"{name} is listed {len(rows)} times", is_error=True)


def identity_twice(tables: Tables) -> Iterator[Problem]:
    """Report each id or serial number that several devices share."""
    rules: tuple[tuple[str, Rule], ...] = (("id", "device-id-twice"), ("serial", "device-serial-twice"))
    for column, rule in rules:
        for value, indexes in _duplicates(tables, lambda device, column=column: getattr(device, column)):  # type: ignore[misc]
            names = sorted({tables.inventory.devices[index].name for index in indexes})
            if len(names) > 1:
                message = f"{column} {value} belongs to {' and '.join(names)}"
                yield Problem("devices", tables.rows("devices", indexes), rule, message)


def kind_against_tier(tables: Tables) -> Iterator[Problem]:
    """Report each host in a tier of switches and each switch in the tier of hosts."""
    for index, device in enumerate(tables.inventory.devices):
        if device.tier in _SWITCH_TIERS if device.kind == "host" else device.tier == "host":
            message = f"{device.name} is a {device.kind} of tier {device.tier}"
            yield Problem("devices", (tables.row("devices", index),), "kind-against-tier", message)


def switch_with_gpus(tables: Tables) -> Iterator[Problem]:
    """Report each switch that has GPUs."""
    for index, device in enumerate(tables.inventory.devices):
        if device.gpus and device.kind == "switch":
            message = f"{device.name} is a switch with {device.gpus} GPUs"
            yield Problem("devices", (tables.row("devices", index),), "switch-with-gpus", message)
