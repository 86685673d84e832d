"""Derives look-ups from an inventory: the link of a port, the home pod of a link, the uplinks of a switch.

A Topology is one version of the inventory; it is immutable, and a new version is a new Topology. The constructor builds
all look-ups, in a separate thread (streams.runtime.inventory_reader), so that no stage pauses to build one.
"""

import copy
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np

from streams.fabric.graph import NO_LINKS, EquivalenceKey, Graph, Ints
from streams.fabric.ids import Port, port_id
from streams.fabric.inventory import Device, Inventory, Job
from streams.fabric.inventory_rows import HOST_LINK, Part, is_address
from streams.fabric.job_placement import JobPlacement
from streams.fabric.link_table import LinksById, LinksOfDevice, LinkTable, TopologyLink

__all__ = ["PEERS", "Topology", "TopologyLink", "links_of_subject", "links_of_subjects"]

PEERS: tuple[EquivalenceKey, ...] = ("role", "tier", "pod", "plane", "rail")
"""The columns in which peers are equal: links that carry the same kind of traffic in the same place."""


_HANDLED = ("cage", "module")
"""Parts that are touched when one of their ports is repaired; the others are only if they are at fault themselves."""


class Topology:
    """Look-ups over one version of the inventory.

    `links_of` has all links of each device with links. `uplinks_of` has the links whose lower end the device is,
    including links within a tier and to a device of no tier, which `is_uplink` distinguishes.
    """

    def __init__(self, inventory: Inventory, digest: str = "") -> None:
        self.digest = digest
        self._derived_from: Topology | None = None
        self._graph_cache: dict[str, Graph] = {}
        self.devices: dict[str, Device] = {device.name: device for device in inventory.devices}
        self._port_names = {(n.device, n.alias): n.port for n in inventory.ports}
        self.addresses = {n.alias: Port(n.device, n.port) for n in inventory.ports if is_address(n.alias)}
        """The ports by their IPv4 addresses, which the inventory has as aliases."""
        self.jobs = inventory.jobs
        self.placement = JobPlacement(inventory.jobs)
        self._pods_of_job: dict[str, frozenset[str]] = {}
        self._unknown_hosts: frozenset[str] | None = None
        self.table = LinkTable(self.devices, inventory.links)
        self.links = LinksById(self.table)
        self.link_row_ids, self.link_labels = self.table.row_ids(), self.table.labels()
        """Link -> its `links.id` and its `links.label`, where the inventory has one."""
        self.links_of = LinksOfDevice(self.table, self.table.first_end, self.table.ends)
        every = np.arange(len(self.table), dtype=np.int32)
        self.uplinks_of = LinksOfDevice(self.table, self.table.first, every)
        self._index_parts(inventory.parts)

    def _index_parts(self, parts: Iterable[Part]) -> None:
        self.parts = {part.id: part for part in parts}
        """The shared parts by id; of several rows of one part the last."""
        found: dict[str, dict[str, TopologyLink]] = defaultdict(dict)
        for part in parts:
            link = self.table.link_at(Port(part.device, part.port))
            links = self.links_of.get(part.device, ()) if not part.port else (link,) if link is not None else ()
            found[part.id].update((one.id, one) for one in links)
        self.links_of_part = {identity: tuple(links.values()) for identity, links in found.items()}
        self._parts_of: dict[str, tuple[str, ...]] = {}
        for identity, by_name in found.items():
            for name in by_name:
                self._parts_of[name] = (*self._parts_of.get(name, ()), identity)

    def parts_of(self, subject_id: str) -> tuple[str, ...]:
        """Return the ids of the parts that a link shares with others; empty for any other subject."""
        return self._parts_of.get(subject_id, ())

    def handled_with(self, link: TopologyLink) -> tuple[TopologyLink, ...]:
        """Return the other links in the cages and modules of a link, which a person interrupts at its repair."""
        others = {
            other.id: other
            for identity in self.parts_of(link.id)
            if self.parts[identity].kind in _HANDLED
            for other in self.links_of_part[identity]
            if other.id != link.id
        }
        return tuple(others.values())

    @property
    def graph(self) -> Graph:
        """Return the topology as arrays; built on first use, once for all topologies that differ only in their jobs."""
        graph = self._graph_cache.get("graph")
        if graph is None:
            graph = self._graph_cache["graph"] = Graph(self.devices, self.table)
        return graph

    def peers_of(self, link: TopologyLink, equal_in: Collection[EquivalenceKey] = PEERS) -> tuple[TopologyLink, ...]:
        """Return the other links with equal values in these columns, by default its peers.

        The peers of a host link have the same rail and plane at the other hosts of its pod; `("lower", "role")` selects
        the other rails and planes of its host.
        """
        graph = self.graph
        return graph.links_at(graph.equivalent_links(graph.number_of(link), equal_in))

    def resolve_port(self, device: str, name: str) -> Port:
        """Return the port for a source's name; for a neighbor's address the port that leads to the neighbor."""
        known = self._port_names.get((device, name))
        if known is None and (far := self.addresses.get(name)) is not None:
            near = self.table.far_end(far)
            known = near.port if near is not None and near.device == device else None
        return Port(device, name if known is None else known)

    def resolve_ports(self, device: str, names: Sequence[str]) -> Sequence[str]:
        """Return the ports of a device for a source's names."""
        if not self._port_names:  # no port of the inventory has another name
            return names
        return [self.resolve_port(device, name).port for name in names]

    def link_at(self, port: Port) -> TopologyLink | None:
        """Return the link that ends at this port, or None if the inventory has none."""
        return self.table.link_at(port)

    def host_link_at(self, port: Port) -> TopologyLink | None:
        """Return the link whose host end is this port; None for other ports."""
        link = self.table.link_at(port)
        return link if link is not None and link.role == HOST_LINK and port == link.lower else None

    def rail_links(self, link: TopologyLink) -> tuple[TopologyLink, ...]:
        """Return the links of a host link's rail at its host, one in each plane, with the link itself."""
        own = self.uplinks_of[link.lower.device]
        return tuple(other for other in own if other.is_uplink and other.role == HOST_LINK and other.rail == link.rail)

    def maintenance_until_ns(self, devices: Iterable[str]) -> int:
        """Return the latest end of maintenance of these devices; 0 if none is in maintenance."""
        found = (self.devices.get(device) for device in devices)
        untils = (one.maintenance_until for one in found if one is not None and one.maintenance_until is not None)
        return max((round(until.timestamp() * 1e9) for until in untils), default=0)

    def subject_id(self, port: Port) -> str:
        """Return the id of the link at a port, or that of the port if it has no known link."""
        link = self.table.link_at(port)
        return link.id if link else port_id(port)

    def pod_of(self, device: str) -> str:
        """Return the pod of a device; the device name if the device is unknown or has no pod."""
        found = self.devices.get(device)
        return found.pod if found and found.pod else device

    def home_pod(self, port: Port) -> str:
        """Return the pod of the link's lower end, in which the symptoms of both ends are processed together."""
        link = self.table.link_at(port)
        return link.pod if link else self.pod_of(port.device)

    def pods_of_links(self, device: str) -> frozenset[str]:
        """Return the home pods of all links of a device, and its own pod."""
        return frozenset({self.pod_of(device), *(link.pod for link in self.links_of.get(device, ()))})

    def pods_of_job(self, job: str) -> frozenset[str]:
        """Return the pods in which a job has hosts at any time; built on first use, as a job may have all hosts."""
        pods = self._pods_of_job.get(job)
        if pods is None:
            hosts = self.placement.all_hosts_of(job)
            pods = self._pods_of_job[job] = frozenset(map(self.pod_of, hosts))
        return pods

    def with_jobs(self, jobs: tuple[Job, ...]) -> "Topology":
        """Return the same fabric with these jobs; all other look-ups are shared."""
        derived = copy.copy(self)
        derived._derived_from = self  # noqa: SLF001 — keeps the base alive for weak references to it
        derived.jobs, derived.placement, derived._pods_of_job = jobs, JobPlacement(jobs), {}  # noqa: SLF001 — as above
        derived._unknown_hosts = None  # noqa: SLF001 — as above
        return derived

    def jobs_on_unknown_hosts(self, at_ns: int) -> tuple[str, ...]:
        """Return the jobs at a time on hosts that the inventory lacks, sorted."""
        if self._unknown_hosts is None:
            self._unknown_hosts = frozenset(job.device for job in self.jobs if job.device not in self.devices)
        return self.placement.jobs_on(self._unknown_hosts, at_ns) if self._unknown_hosts else ()

    def jobs_on(self, devices: Iterable[str], at_ns: int) -> tuple[str, ...]:
        """Return the jobs on any of these devices at a time, sorted."""
        return self.placement.jobs_on(devices, at_ns)

    def jobs_between(self, devices: Iterable[str], from_ns: int, to_ns: int) -> tuple[str, ...]:
        """Return the jobs on any of these devices at any time between the two, sorted."""
        return self.placement.jobs_between(devices, from_ns, to_ns)


def links_of_subject(topology: Topology, subject_id: str) -> Ints:
    """Return the numbers of the links that carry nothing while the subject is out of service, each once.

    A pod has the links of its devices, a plane all links of the plane, a port its link. An unknown subject has none.
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


def _links_at(topology: Topology, link: TopologyLink | None) -> Ints:
    return NO_LINKS if link is None else topology.graph.numbers_of([link])


def _of_port(topology: Topology, name: str) -> Ints:
    device, _, port = name.partition("/")  # a device name contains no slash; a port name may
    return _links_at(topology, topology.link_at(Port(device, port)))


def _of_device(topology: Topology, name: str) -> Ints:
    number = topology.graph.number.get(name)
    return NO_LINKS if number is None else topology.graph.links_of(np.array([number], np.int64))


def _of_rail(topology: Topology, name: str) -> Ints:
    host, slash, rail = name.rpartition("/")
    if not slash:
        return np.flatnonzero(topology.graph.rail == int(rail)) if rail.isdecimal() else NO_LINKS
    return topology.graph.links_of_hosts([host], rail=int(rail)) if rail.isdecimal() else NO_LINKS


def _of_pod(topology: Topology, name: str) -> Ints:
    members = [number for number, device in enumerate(topology.devices.values()) if device.pod == name != ""]
    return topology.graph.links_of(np.array(members, np.int64))


_LINKS_OF_KIND: dict[str, Callable[[Topology, str], Ints]] = {
    "link": lambda topology, name: _links_at(topology, topology.links.get(f"link:{name}")),
    "port": _of_port,
    "device": _of_device,
    "rail": _of_rail,
    "plane": lambda top, name: np.flatnonzero(top.graph.plane == int(name)) if name.isdecimal() else NO_LINKS,
    "pod": _of_pod,
}
