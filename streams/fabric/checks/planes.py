"""Planes that are not alike: all planes have one shape, so that a host that loses one keeps the same of each other.

What is compared is what one pod says: a fabric may have pods of one plane beside pods of two.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

import numpy as np

from streams.fabric.checks.problem import Problem, join_names
from streams.fabric.checks.tables import ABSENT, Ints, Tables, combined_key
from streams.fabric.inventory_rows import Device

_Group = tuple[str, str]
"""The pod, or none, and the tier of switches."""


def link_against_switch(tables: Tables) -> Iterator[Problem]:
    """A link is in the plane of the switches at its ends, and these are in one."""
    links, of = tables.links, tables.plane_of
    a, z, own = of[links.a], of[links.z], links.own_plane
    wrong = ((a != ABSENT) & (z != ABSENT) & (a != z)) | (
        (own != ABSENT) & (((a != ABSENT) & (a != own)) | ((z != ABSENT) & (z != own)))
    )
    for index in np.flatnonzero(wrong).tolist():
        link = tables.inventory.links[index]
        said = [f"{tables.describe_link(index)} is in plane {link.plane}"] if link.plane is not None else []
        ends = (tables.find_device(link.a_device), tables.find_device(link.z_device))
        said += [f"{end.name} is in plane {end.plane}" for end in ends if end is not None and end.plane is not None]
        if link.plane is None:
            said.append(f"{tables.describe_link(index)} joins them")
        yield Problem("links", (tables.row("links", index),), "plane-against-switch", ", ".join(said))


def host_misses_a_plane(tables: Tables) -> Iterator[Problem]:
    """Each rail of a host has a port in every plane that the hosts of its pod have."""
    links, devices = tables.links, tables.inventory.devices
    counted = np.flatnonzero((links.host != ABSENT) & (links.rail >= 0) & (links.plane >= 0))
    if not tables.is_complete or np.all(links.plane[counted] == links.plane[counted[:1]]):
        return
    short: dict[tuple[int, tuple[int, ...]], list[int]] = defaultdict(list)
    planes_of_pod = _planes_of_pods(tables, counted)
    for (host, rail), planes in _short_rails(tables, counted, planes_of_pod).items():
        short[host, tuple(sorted(planes))].append(rail)
    for (host, has_only), rails in short.items():
        pod = devices[host].pod
        where = np.flatnonzero((links.host == host) & np.isin(links.rail, rails))
        says = (
            f"{devices[host].name}, rails {join_names(rails, 8)}: only in planes {join_names(has_only)}; "
            f"hosts of {'pod ' + pod if pod else 'no pod'} are in {join_names(sorted(planes_of_pod[pod]))}"
        )
        yield Problem("links", tables.rows("links", where), "asymmetric-plane", says)


def _planes_of_pods(tables: Tables, counted: Ints) -> dict[str, set[int]]:
    """The planes in which any host of a pod has a port."""
    links = tables.links
    _, first = np.unique(combined_key(links.host[counted], links.plane[counted]), return_index=True)
    planes: dict[str, set[int]] = defaultdict(set)
    for host, plane in zip(links.host[counted[first]].tolist(), links.plane[counted[first]].tolist(), strict=True):
        planes[tables.inventory.devices[host].pod].add(plane)
    return planes


def _short_rails(tables: Tables, counted: Ints, of_pod: Mapping[str, set[int]]) -> dict[tuple[int, int], set[int]]:
    """The planes of each (host, rail) that has fewer than its pod."""
    links = tables.links
    wanted = tables.device_column(lambda device: len(of_pod.get(device.pod, ())))
    _, first = np.unique(
        combined_key(links.host[counted], links.rail[counted], links.plane[counted]), return_index=True
    )
    cells = counted[first]  # a link for each plane of each rail of each host
    _, rail, has = np.unique(
        combined_key(links.host[cells], links.rail[cells]), return_inverse=True, return_counts=True
    )
    found: dict[tuple[int, int], set[int]] = defaultdict(set)
    for cell in cells[has[rail] < wanted[links.host[cells]]].tolist():
        found[int(links.host[cell]), int(links.rail[cell])].add(int(links.plane[cell]))
    return found


def switches_differ(tables: Tables) -> Iterator[Problem]:
    """Each plane of a pod has as many switches of a tier."""
    for group, by_plane in _switches(tables).items() if tables.is_complete else ():
        counts = {plane: len(indexes) for plane, indexes in by_plane.items()}
        if len(set(counts.values())) > 1:
            least = min(counts.values())
            indexes = [index for plane, n in counts.items() if n == least for index in by_plane[plane]]
            says = f"{_describe_group(group)}: {_describe_counts(counts, 'switches')}"
            yield Problem("devices", tables.rows("devices", indexes), "asymmetric-plane", says)


def paths_differ(tables: Tables) -> Iterator[Problem]:
    """Each plane of a pod has as many links between switches from a tier; the switches that have others are named."""
    ends = _fabric_ends(tables)
    for group, by_plane in _switches(tables).items() if tables.is_complete else ():
        totals = {plane: sum(ends[index] for index in indexes) for plane, indexes in by_plane.items()}
        if len(set(totals.values())) < 2:
            continue
        usual = Counter(ends[index] for indexes in by_plane.values() for index in indexes).most_common(1)[0][0]
        odd = [index for indexes in by_plane.values() for index in indexes if ends[index] != usual]
        if not odd:
            continue  # as many at each switch: `switches_differ` has said it
        named = join_names([f"{tables.inventory.devices[index].name} has {ends[index]}" for index in odd])
        totals_text = _describe_counts(totals, "links between switches")
        says = f"{_describe_group(group)}: {totals_text}; {named}, {usual} are usual"
        yield Problem("devices", tables.rows("devices", odd), "asymmetric-plane", says)


def _switches(tables: Tables) -> Mapping[_Group, Mapping[int, list[int]]]:
    """The switches with a plane, by pod and tier and plane; of groups that have more than one plane."""
    found: dict[_Group, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    planes: dict[str, set[int]] = defaultdict(set)
    for index, device in enumerate(tables.inventory.devices):
        if _has_plane(device):
            assert device.plane is not None
            found[device.pod, device.tier][device.plane].append(index)
            planes[device.pod].add(device.plane)
    return {
        group: {plane: by_plane.get(plane, []) for plane in sorted(planes[group[0]])}
        for group, by_plane in found.items()
        if len(planes[group[0]]) > 1
    }


def _has_plane(device: Device) -> bool:
    return device.kind == "switch" and device.plane is not None


def _fabric_ends(tables: Tables) -> list[int]:
    """How many links between switches end at each device."""
    links = tables.links
    between = (links.a >= 0) & (links.z >= 0) & ~tables.is_host[links.a] & ~tables.is_host[links.z]
    ends = np.concatenate((links.a[between], links.z[between]))
    counted: list[int] = np.bincount(ends, minlength=len(tables.inventory.devices)).tolist()
    return counted


def _describe_group(group: _Group) -> str:
    pod, tier = group
    return f"{tier} of {'pod ' + pod if pod else 'no pod'}"


def _describe_counts(counts: Mapping[int, int], what: str) -> str:
    return ", ".join(f"plane {plane} has {n} {what}" for plane, n in counts.items())
