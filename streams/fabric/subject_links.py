"""Maps a subject id (device, port, link, rail, plane or pod) to its links."""

from collections.abc import Callable, Iterable

import numpy as np

from streams.fabric.graph import NO_LINKS, Ints
from streams.fabric.ids import Port
from streams.fabric.topology import Topology, TopologyLink


def links_of_subject(topology: Topology, subject_id: str) -> Ints:
    """Return the numbers of the links that carry nothing while the subject is out of service, each once.

    A pod has the links of its devices, a plane all links of that plane, a port its link. An unknown subject has none.
    """
    kind, _, name = subject_id.partition(":")
    found = _LINKS_OF_KIND.get(kind)
    return NO_LINKS if found is None else found(topology, name)


def links_of_subjects(topology: Topology, subject_ids: Iterable[str]) -> Ints:
    """Return the numbers of the links of several subjects, each once."""
    links: list[TopologyLink] = []
    found: list[Ints] = []
    for subject_id in subject_ids:
        link = topology.links.get(subject_id)
        if link is None:
            found.append(links_of_subject(topology, subject_id))
        else:
            links.append(link)
    if links:
        found.append(topology.graph.numbers_of(links))
    return np.unique(np.concatenate(found)) if found else NO_LINKS


def _of_link(topology: Topology, name: str) -> Ints:
    link = topology.links.get(f"link:{name}")
    return NO_LINKS if link is None else topology.graph.numbers_of([link])


def _of_port(topology: Topology, name: str) -> Ints:
    device, _, port = name.partition("/")  # a device name contains no slash, a port name may
    link = topology.link_at(Port(device, port))
    return NO_LINKS if link is None else topology.graph.numbers_of([link])


def _of_device(topology: Topology, name: str) -> Ints:
    graph = topology.graph
    number = graph.number.get(name)
    return NO_LINKS if number is None else graph.links_of(np.array([number], np.int64))


def _of_rail(topology: Topology, name: str) -> Ints:
    host, _, rail = name.partition("/")
    return topology.graph.links_of_hosts([host], rail=int(rail)) if rail.isdecimal() else NO_LINKS


def _of_plane(topology: Topology, name: str) -> Ints:
    return np.flatnonzero(topology.graph.plane == int(name)) if name.isdecimal() else NO_LINKS


def _of_pod(topology: Topology, name: str) -> Ints:
    members = [number for number, device in enumerate(topology.devices.values()) if device.pod == name != ""]
    return topology.graph.links_of(np.array(members, np.int64))


_LINKS_OF_KIND: dict[str, Callable[[Topology, str], Ints]] = {
    "link": _of_link,
    "port": _of_port,
    "device": _of_device,
    "rail": _of_rail,
    "plane": _of_plane,
    "pod": _of_pod,
}
