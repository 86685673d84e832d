"""Rules for links: links that contradict each other or the devices at their ends."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from operator import itemgetter

import numpy as np

from streams.fabric.checks.problem import Problem, Rule
from streams.fabric.checks.tables import ABSENT, Mask, Tables, combined_key, duplicate_groups
from streams.fabric.inventory_rows import HOST_LINK


def _problems(tables: Tables, wrong: Mask, rule: Rule, *, impossible: bool = False) -> Iterator[tuple[int, Problem]]:
    """Yield for each link of a mask its index and a problem whose message is the link's description."""
    for index in np.flatnonzero(wrong).tolist():
        yield index, Problem("links", (tables.row("links", index),), rule, tables.describe_link(index), impossible)


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
    """Report each host-link without a host and each fabric-link with one; `between_two_hosts` covers two hosts."""
    links, is_host = tables.links, tables.is_host
    known = (links.a != ABSENT) & (links.z != ABSENT)
    no_host, a_host = ~is_host[links.a] & ~is_host[links.z], is_host[links.a] != is_host[links.z]
    wrong = known & np.where(links.is_host_link, no_host, a_host)
    for index, problem in _problems(tables, wrong, "role-against-ends"):
        what = "joins two switches" if tables.inventory.links[index].role == HOST_LINK else "ends at a host"
        yield problem._replace(message=f"{problem.message} is a {tables.inventory.links[index].role} and {what}")


def identity_twice(tables: Tables) -> Iterator[Problem]:
    """Report each id that several links share."""
    if not any(map(itemgetter(-1), tables.inventory.links)):
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
