"""Checks devices, jobs, port names and maintenance."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

import numpy as np

from streams.fabric.checks.tables import Problem, Rule, Tables, join_names
from streams.fabric.ids import tier_rank
from streams.fabric.inventory_rows import HOST_LINK, ROW_OF, Device, Job, Link, coded, coded_columns

_SWITCH_TIERS = frozenset({"T0", "T1", "T2"})


def _duplicates(tables: Tables, value_of: Callable[[Device], str]) -> Iterator[tuple[str, list[int]]]:
    """Yield each value that occurs in more than one row, with the row indexes; blank values do not count."""
    rows_by_value: dict[str, list[int]] = defaultdict(list)
    for index, device in enumerate(tables.inventory.devices):
        rows_by_value[value_of(device)].append(index)
    return ((value, indexes) for value, indexes in rows_by_value.items() if value and len(indexes) > 1)


def control_character(tables: Tables) -> Iterator[Problem]:
    """Report each text with a control or bidirectional character: a terminal would obey it, and topics replace it."""
    for table, row_type in ROW_OF.items():
        rows = getattr(tables.inventory, table)
        columns = coded_columns(rows) if table == "links" else map(coded, zip(*rows, strict=True))
        for name, column in zip(row_type._fields, columns, strict=False):  # without rows there are no columns
            for code, value in enumerate(column.values):
                if isinstance(value, str) and not value.isprintable():
                    found = tables.rows(table, np.flatnonzero(column.codes == code).tolist())
                    message = f"{value!r:.40} has a control character"
                    yield Problem(table, found, "control-character", message, is_error=True, column=name)


def device_listed_twice(tables: Tables) -> Iterator[Problem]:
    """Report each device name that occurs in several rows."""
    if len(tables.index) == len(tables.inventory.devices):
        return
    for name, indexes in _duplicates(tables, lambda device: device.name):
        rows = tables.rows("devices", indexes)
        yield Problem("devices", rows, "device-listed-twice", f"{name} is listed {len(rows)} times", is_error=True)


def device_identity_twice(tables: Tables) -> Iterator[Problem]:
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


def job_on_an_unknown_device(tables: Tables) -> Iterator[Problem]:
    """Report each job on a device that the table of devices does not contain."""
    for index, job in enumerate(tables.inventory.jobs):
        if not tables.is_known(job.device):
            message = f"{job.device} is not among the devices ({job.job})"
            yield Problem("jobs", (tables.row("jobs", index),), "unknown-device", message, is_error=True)


def job_on_a_switch(tables: Tables) -> Iterator[Problem]:
    """Report each job on a device that is not a host."""
    for index, job in enumerate(tables.inventory.jobs):
        device = tables.find_device(job.device)
        if device is not None and device.kind != "host":
            message = f"{job.job} runs on {job.device}, a {device.kind}"
            yield Problem("jobs", (tables.row("jobs", index),), "job-on-a-switch", message)


def job_ends_before_it_starts(tables: Tables) -> Iterator[Problem]:
    """Report each job that ends before it starts."""
    for index, job in enumerate(tables.inventory.jobs):
        if job.end is not None and job.end < job.start:
            message = f"{_describe(job)} ends before it starts"
            yield Problem("jobs", (tables.row("jobs", index),), "job-ends-before-it-starts", message, is_error=True)


def job_twice_on_a_host(tables: Tables) -> Iterator[Problem]:
    """Report overlapping allocations of one job on one host; several jobs may share a host."""
    rows_by_job: dict[tuple[str, str], list[int]] = defaultdict(list)
    jobs = tables.inventory.jobs
    for index, job in enumerate(jobs):
        rows_by_job[job.job, job.device].append(index)
    for indexes in rows_by_job.values():
        if len(indexes) > 1:
            ordered = sorted(indexes, key=lambda index: jobs[index].start)
            longest = ordered[0]
            for index in ordered[1:]:
                end, begin = jobs[longest].end, jobs[index].start
                if end is None or begin < end:
                    message = f"{_describe(jobs[longest])} and {_describe(jobs[index])} overlap"
                    yield Problem("jobs", tables.rows("jobs", (longest, index)), "job-twice-on-a-host", message)
                other = jobs[index].end
                if end is not None and (other is None or other > end):
                    longest = index


def _describe(job: Job) -> str:
    until = "" if job.end is None else f" to {job.end.isoformat()}"
    return f"{job.job} on {job.device} from {job.start.isoformat()}{until}"


def alias_on_an_unknown_device(tables: Tables) -> Iterator[Problem]:
    """Report each port name of a device that the table of devices does not contain."""
    for index, name in enumerate(tables.inventory.ports):
        if not tables.is_known(name.device):
            message = f"{name.device} is not among the devices"
            yield Problem("ports", (tables.row("ports", index),), "unknown-device", message, is_error=True)


def part_of_an_unknown_device(tables: Tables) -> Iterator[Problem]:
    """Report each shared part of a device that the table of devices does not contain."""
    for index, part in enumerate(tables.inventory.parts):
        if not tables.is_known(part.device):
            message = f"{part.device} is not among the devices"
            yield Problem("parts", (tables.row("parts", index),), "unknown-device", message, is_error=True)


def alias_of_two_ports(tables: Tables) -> Iterator[Problem]:
    """Report each alias of several ports; a look-up uses the device and the alias, without the source."""
    ports_by_alias: dict[tuple[str, str], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for index, name in enumerate(tables.inventory.ports):
        ports_by_alias[name.device, name.alias][name.port].append(index)
    for (device, alias), ports in ports_by_alias.items():
        if len(ports) > 1:
            rows = tables.rows("ports", [index for indexes in ports.values() for index in indexes])
            message = f"on {device}, {alias} is an alias of {' and of '.join(ports)}"
            yield Problem("ports", rows, "alias-of-two-ports", message)


def alias_of_an_alias(tables: Tables) -> Iterator[Problem]:
    """Report each alias of an alias, and each alias that is itself the end of a link; an alias is resolved once."""
    names = tables.inventory.ports
    if not names:
        return
    aliases = {(name.device, name.alias) for name in names if name.alias != name.port}
    linked = {end for link in tables.inventory.links for end in (link[:2], link[2:4])}
    for index, name in enumerate(names):
        if name.alias == name.port:
            continue
        row = (tables.row("ports", index),)
        if (name.device, name.alias) in linked:
            message = f"on {name.device}, {name.alias} is an alias of {name.port} and itself the end of a link"
            yield Problem("ports", row, "alias-of-an-alias", message)
        elif (name.device, name.port) in aliases:
            message = f"on {name.device}, {name.alias} is an alias of {name.port}, which is itself an alias"
            yield Problem("ports", row, "alias-of-an-alias", message)


class _LostUplinks(NamedTuple):
    """A device whose uplinks all lead to devices in maintenance, with the rail of a host; None for a switch."""

    device: str
    rail: int | None


def overlapping_maintenance(tables: Tables) -> Iterator[Problem]:
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
        yield _maintenance_problem(tables, until, sorted(isolating), rails)


def _maintenance_ends(tables: Tables) -> dict[str, datetime]:
    """Return the end of maintenance of each device in maintenance."""
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


def _maintenance_problem(
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
