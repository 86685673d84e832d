"""Devices that contradict each other or themselves: names and identities listed twice, a host that is a leaf."""

from collections import defaultdict
from collections.abc import Callable, Iterator

from streams.fabric.checks.problem import Problem, Rule
from streams.fabric.checks.tables import Tables
from streams.fabric.inventory_rows import Device

_SWITCH_TIERS = frozenset({"T0", "T1", "T2"})


def _duplicates(tables: Tables, of: Callable[[Device], str]) -> Iterator[tuple[str, list[int]]]:
    """What more than one row says, and where; a blank is nothing said."""
    said: dict[str, list[int]] = defaultdict(list)
    for index, device in enumerate(tables.inventory.devices):
        said[of(device)].append(index)
    return ((value, indexes) for value, indexes in said.items() if value and len(indexes) > 1)


def listed_twice(tables: Tables) -> Iterator[Problem]:
    """A name is one device."""
    if len(tables.index) == len(tables.inventory.devices):
        return
    for name, indexes in _duplicates(tables, lambda device: device.name):
        rows = tables.rows("devices", indexes)
        yield Problem("devices", rows, "device-listed-twice", f"{name} is listed {len(rows)} times", is_error=True)


def identity_twice(tables: Tables) -> Iterator[Problem]:
    """An id or a serial number is of one device, whatever its name."""
    rules: tuple[tuple[str, Rule], ...] = (("id", "device-id-twice"), ("serial", "device-serial-twice"))
    for column, rule in rules:
        for value, indexes in _duplicates(tables, lambda device, column=column: getattr(device, column)):  # type: ignore[misc]
            names = sorted({tables.inventory.devices[index].name for index in indexes})
            if len(names) > 1:
                says = f"{column} {value} is that of {' and '.join(names)}"
                yield Problem("devices", tables.rows("devices", indexes), rule, says)


def kind_against_tier(tables: Tables) -> Iterator[Problem]:
    """Hosts are not among the tiers of switches, nor switches among the hosts."""
    for index, device in enumerate(tables.inventory.devices):
        if device.tier in _SWITCH_TIERS if device.kind == "host" else device.tier == "host":
            says = f"{device.name} is a {device.kind} of tier {device.tier}"
            yield Problem("devices", (tables.row("devices", index),), "kind-against-tier", says)


def switch_with_gpus(tables: Tables) -> Iterator[Problem]:
    """GPUs are in hosts."""
    for index, device in enumerate(tables.inventory.devices):
        if device.gpus and device.kind == "switch":
            says = f"{device.name} is a switch with {device.gpus} GPUs"
            yield Problem("devices", (tables.row("devices", index),), "switch-with-gpus", says)
