"""Checks links: contradictions between links, with the devices at their ends, and between the planes of a pod.

All planes of a pod must have the same shape, so that a host that loses one plane retains equal others. Planes are
compared within one pod, because a fabric may have pods with one plane and pods with two.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import chain
from operator import attrgetter, itemgetter

import numpy as np

from streams.fabric.checks.tables import (
    ABSENT,
    Ints,
    Mask,
    Problem,
    Rule,
    Tables,
    combined_key,
    duplicate_groups,
    join_names,
)
from streams.fabric.inventory_rows import HOST_LINK


def _problems(tables: Tables, wrong: Mask, rule: Rule) -> Iterator[tuple[int, Problem]]:
    """Yield, for each link of a mask, its index and a problem with the link's description as its message."""
    for index in np.flatnonzero(wrong).tolist():
        yield index, Problem("links", (tables.row("links", index),), rule, tables.describe_link(index))


def port_in_two_links(tables: Tables) -> Iterator[Problem]:
    """Report each port that is an end of several links, or both ends of one."""
    rows = tables.inventory.links
    ends = list(chain(map(itemgetter(0, 1), rows), map(itemgetter(2, 3), rows)))
    if len(set(ends)) == len(ends):
        return
    links_by_port: dict[tuple[str, str], list[int]] = defaultdict(list)
    for place, end in enumerate(ends):
        links_by_port[end].append(place % len(rows))
    for (device, port), indexes in links_by_port.items():
        distinct = sorted(set(indexes))
        if len(distinct) > 1:
            message = f"{device}/{port} is an end of {len(distinct)} links"
            yield Problem("links", tables.rows("links", distinct), "port-in-two-links", message, is_error=True)
        elif len(indexes) > 1:
            message = f"{device}/{port} is both ends"
            yield Problem("links", tables.rows("links", distinct), "port-in-two-links", message, is_error=True)


def unknown_device(tables: Tables) -> Iterator[Problem]:
    """Report each link end on a device that the table of devices does not contain."""
    links = tables.links
    for index in np.flatnonzero((links.a == ABSENT) | (links.z == ABSENT)).tolist():
        link = tables.inventory.links[index]
        for device in dict.fromkeys((link.a_device, link.z_device)):
            if not tables.is_known(device):
                message = f"{device} is not among the devices"
                yield Problem("links", (tables.row("links", index),), "unknown-device", message, is_error=True)


def both_ends_on_one_device(tables: Tables) -> Iterator[Problem]:
    """Report each link from a device to itself."""
    links = tables.links
    for index, problem in _problems(tables, (links.a == links.z) & (links.a != ABSENT), "link-within-a-device"):
        link = tables.inventory.links[index]
        if link.a_port != link.z_port:
            yield problem._replace(message=f"{problem.message} joins {link.a_device} to itself")


def between_two_hosts(tables: Tables) -> Iterator[Problem]:
    """Report each link between two hosts."""
    links, is_host = tables.links, tables.is_host
    wrong = is_host[links.a] & is_host[links.z] & (links.a != links.z)
    for _, problem in _problems(tables, wrong, "link-between-hosts"):
        yield problem._replace(message=f"{problem.message} joins two hosts")


def role_against_ends(tables: Tables) -> Iterator[Problem]:
    """Report each host-link without a host and each fabric-link with one; `between_two_hosts` reports two hosts."""
    links, is_host = tables.links, tables.is_host
    known = (links.a != ABSENT) & (links.z != ABSENT)
    no_host, a_host = ~is_host[links.a] & ~is_host[links.z], is_host[links.a] != is_host[links.z]
    wrong = known & np.where(links.is_host_link, no_host, a_host)
    for index, problem in _problems(tables, wrong, "role-against-ends"):
        what = "joins two switches" if tables.inventory.links[index].role == HOST_LINK else "ends at a host"
        yield problem._replace(message=f"{problem.message} is a {tables.inventory.links[index].role} and {what}")


def identity_twice(tables: Tables) -> Iterator[Problem]:
    """Report each id that several links share."""
    if not any(map(attrgetter("id"), tables.inventory.links)):
        return
    links_by_id: dict[str, list[int]] = defaultdict(list)
    for index, link in enumerate(tables.inventory.links):
        links_by_id[link.id].append(index)
    for identity, indexes in links_by_id.items():
        if identity and len(indexes) > 1:
            message = (
                f"id {identity} belongs to {len(indexes)} links: {' and '.join(map(tables.describe_link, indexes[:4]))}"
            )
            yield Problem("links", tables.rows("links", indexes), "link-id-twice", message)


def rail_used_twice(tables: Tables) -> Iterator[Problem]:
    """Report each host that has several links of one rail in one plane."""
    links = tables.links
    counted = np.flatnonzero((links.host != ABSENT) & (links.rail >= 0))
    keys = combined_key(links.host[counted], links.rail[counted], links.plane[counted])
    for members in duplicate_groups(keys):
        indexes = counted[members]
        first, plane = int(indexes[0]), int(links.plane[indexes[0]])
        host = tables.inventory.devices[int(links.host[first])].name
        used = f"{host} has {len(indexes)} links of rail {int(links.rail[first])}"
        within = f" in plane {plane}" if plane != ABSENT else ""
        names = " and ".join(tables.describe_link(index) for index in indexes[:4].tolist())
        yield Problem("links", tables.rows("links", indexes), "rail-used-twice", f"{used}{within}: {names}")


_Group = tuple[str, str]
"""The pod (may be empty) and the tier of switches."""


def link_against_switch(tables: Tables) -> Iterator[Problem]:
    """Report each link whose plane differs from that of its switches, and each whose switches differ."""
    links, plane_of = tables.links, tables.plane_of
    a, z, link_plane = plane_of[links.a], plane_of[links.z], links.own_plane
    wrong = ((a != ABSENT) & (z != ABSENT) & (a != z)) | (
        (link_plane != ABSENT) & (((a != ABSENT) & (a != link_plane)) | ((z != ABSENT) & (z != link_plane)))
    )
    for index in np.flatnonzero(wrong).tolist():
        link = tables.inventory.links[index]
        statements = [f"{tables.describe_link(index)} is in plane {link.plane}"] if link.plane is not None else []
        ends = (tables.find_device(link.a_device), tables.find_device(link.z_device))
        statements += [
            f"{end.name} is in plane {end.plane}" for end in ends if end is not None and end.plane is not None
        ]
        if link.plane is None:
            statements.append(f"{tables.describe_link(index)} joins them")
        yield Problem("links", (tables.row("links", index),), "plane-against-switch", ", ".join(statements))


def host_misses_a_plane(tables: Tables) -> Iterator[Problem]:
    """Report each host with a rail that misses a plane which other hosts of its pod have."""
    links, devices = tables.links, tables.inventory.devices
    railed = np.flatnonzero((links.host != ABSENT) & (links.rail >= 0) & (links.plane >= 0))
    if not tables.is_complete or np.all(links.plane[railed] == links.plane[railed[:1]]):
        return
    rails_by_host: dict[tuple[int, tuple[int, ...]], list[int]] = defaultdict(list)
    planes_of_pod = _planes_of_pods(tables, railed)
    for (host, rail), planes in _short_rails(tables, railed, planes_of_pod).items():
        rails_by_host[host, tuple(sorted(planes))].append(rail)
    for (host, has_only), rails in rails_by_host.items():
        pod = devices[host].pod
        where = np.flatnonzero((links.host == host) & np.isin(links.rail, rails))
        message = (
            f"{devices[host].name}, rails {join_names(rails, 8)}: only in planes {join_names(has_only)}; "
            f"hosts of {'pod ' + pod if pod else 'no pod'} are in {join_names(sorted(planes_of_pod[pod]))}"
        )
        yield Problem("links", tables.rows("links", where), "asymmetric-plane", message)


def _planes_of_pods(tables: Tables, railed: Ints) -> dict[str, set[int]]:
    """Return the planes of each pod in which any of its hosts has a port."""
    links = tables.links
    _, first = np.unique(combined_key(links.host[railed], links.plane[railed]), return_index=True)
    planes: dict[str, set[int]] = defaultdict(set)
    for host, plane in zip(links.host[railed[first]].tolist(), links.plane[railed[first]].tolist(), strict=True):
        planes[tables.inventory.devices[host].pod].add(plane)
    return planes


def _short_rails(tables: Tables, railed: Ints, of_pod: Mapping[str, set[int]]) -> dict[tuple[int, int], set[int]]:
    """Return the planes of each (host, rail) that has fewer planes than its pod."""
    links = tables.links
    wanted = tables.device_column(lambda device: len(of_pod.get(device.pod, ())))
    _, first = np.unique(combined_key(links.host[railed], links.rail[railed], links.plane[railed]), return_index=True)
    cells = railed[first]  # a link for each plane of each rail of each host
    _, rail, has = np.unique(
        combined_key(links.host[cells], links.rail[cells]), return_inverse=True, return_counts=True
    )
    found: dict[tuple[int, int], set[int]] = defaultdict(set)
    for cell in cells[has[rail] < wanted[links.host[cells]]].tolist():
        found[int(links.host[cell]), int(links.rail[cell])].add(int(links.plane[cell]))
    return found


def switches_differ(tables: Tables) -> Iterator[Problem]:
    """Report each pod whose planes differ in the number of switches of a tier."""
    for group, by_plane in _switches(tables).items() if tables.is_complete else ():
        counts = {plane: len(indexes) for plane, indexes in by_plane.items()}
        if len(set(counts.values())) > 1:
            least = min(counts.values())
            indexes = [index for plane, n in counts.items() if n == least for index in by_plane[plane]]
            message = f"{_describe_group(group)}: {_describe_counts(counts, 'switches')}"
            yield Problem("devices", tables.rows("devices", indexes), "asymmetric-plane", message)


def paths_differ(tables: Tables) -> Iterator[Problem]:
    """Report each pod whose planes differ in the number of fabric links of a tier, with the deviating switches."""
    ends = _fabric_ends(tables)
    for group, by_plane in _switches(tables).items() if tables.is_complete else ():
        totals = {plane: sum(ends[index] for index in indexes) for plane, indexes in by_plane.items()}
        if len(set(totals.values())) < 2:
            continue
        usual = Counter(ends[index] for indexes in by_plane.values() for index in indexes).most_common(1)[0][0]
        deviating = [index for indexes in by_plane.values() for index in indexes if ends[index] != usual]
        if not deviating:
            continue  # equal at each switch: reported by `switches_differ`
        named = join_names([f"{tables.inventory.devices[index].name} has {ends[index]}" for index in deviating])
        totals_text = _describe_counts(totals, "links between switches")
        message = f"{_describe_group(group)}: {totals_text}; {named}, {usual} is the common number"
        yield Problem("devices", tables.rows("devices", deviating), "asymmetric-plane", message)


def _switches(tables: Tables) -> Mapping[_Group, Mapping[int, list[int]]]:
    """Return the switches by (pod, tier) and plane, for pods that have more than one plane."""
    found: dict[_Group, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    planes: dict[str, set[int]] = defaultdict(set)
    for index, device in enumerate(tables.inventory.devices):
        if device.kind == "switch" and device.plane is not None:
            assert device.plane is not None
            found[device.pod, device.tier][device.plane].append(index)
            planes[device.pod].add(device.plane)
    return {
        group: {plane: by_plane.get(plane, []) for plane in sorted(planes[group[0]])}
        for group, by_plane in found.items()
        if len(planes[group[0]]) > 1
    }


def _fabric_ends(tables: Tables) -> list[int]:
    """Return the number of links between switches at each device."""
    links = tables.links
    between = (links.a >= 0) & (links.z >= 0) & ~tables.is_host[links.a] & ~tables.is_host[links.z]
    ends = np.concatenate((links.a[between], links.z[between]))
    railed: list[int] = np.bincount(ends, minlength=len(tables.inventory.devices)).tolist()
    return railed


def _describe_group(group: _Group) -> str:
    pod, tier = group
    return f"{tier} of {'pod ' + pod if pod else 'no pod'}"


def _describe_counts(counts: Mapping[int, int], what: str) -> str:
    return ", ".join(f"plane {plane} has {n} {what}" for plane, n in counts.items())
