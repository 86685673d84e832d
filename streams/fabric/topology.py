"""What follows from an inventory: the link of a port, the home pod of a link, the paths a switch has upwards.

One Topology is one version of the inventory; it never changes, and a new version is a new Topology. All look-ups are
made at once, so that no stage stops to make one: the largest fabric takes over a second, and is put together in a
thread of its own (streams.runtime.inventory_reader).
"""

import copy
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from typing import NamedTuple

from streams.fabric.graph import EquivalenceKey, Graph
from streams.fabric.ids import Port, link_id, port_id, tier_rank
from streams.fabric.inventory import Device, Inventory, Job
from streams.fabric.inventory_rows import HOST_LINK
from streams.fabric.job_placement import JobPlacement

PEERS: tuple[EquivalenceKey, ...] = ("role", "tier", "pod", "plane", "rail")
"""What links have in common that carry the same kind of traffic in the same place."""


class TopologyLink(NamedTuple):
    """A link as the pipeline uses it: `lower` is the end nearer to the hosts (ties by name)."""

    id: str
    lower: Port
    upper: Port
    role: str
    rail: int | None
    plane: int | None
    pod: str
    speed_bps: int | None

    def far_end(self, port: Port) -> Port:
        """The other end."""
        return self.upper if port == self.lower else self.lower


class Topology:
    """Look-ups over one version of the inventory.

    `cables_of` are all links of each device that has any, `uplinks_of` those on which it is the lower end: its paths
    upwards.
    """

    def __init__(self, inventory: Inventory, digest: str = "") -> None:
        self.digest = digest
        self._derived_from: Topology | None = None
        self._graph_cache: dict[str, Graph] = {}
        self.devices: dict[str, Device] = {device.name: device for device in inventory.devices}
        self._port_names = {(n.device, n.alias): n.port for n in inventory.ports}
        self.jobs = inventory.jobs
        self.placement = JobPlacement(inventory.jobs)
        self.links: dict[str, TopologyLink] = {}
        self._by_port: dict[Port, TopologyLink] = {}
        cables_of: dict[str, list[TopologyLink]] = defaultdict(list)
        uplinks_of: dict[str, list[TopologyLink]] = defaultdict(list)
        for cable in self._links(inventory):
            lower, upper = cable.lower, cable.upper
            self.links[cable.id] = self._by_port[lower] = self._by_port[upper] = cable
            uplinks_of[lower.device].append(cable)
            cables_of[lower.device].append(cable)
            if upper.device != lower.device:
                cables_of[upper.device].append(cable)
        self.links_of = {device: tuple(cables) for device, cables in cables_of.items()}
        self.uplinks_of = {device: tuple(cables) for device, cables in uplinks_of.items()}
        self._group_sizes = Counter((cable.role, cable.pod, cable.plane) for cable in self.links.values())

    def _links(self, inventory: Inventory) -> Iterable[TopologyLink]:
        """A line for each link; what does not depend on the link is looked up before."""
        rank = {device.name: tier_rank(device.tier) for device in inventory.devices}
        plane_of = {device.name: device.plane for device in inventory.devices}
        pod_of = {device.name: self.pod_of(device.name) for device in inventory.devices}
        for a_device, a_port, z_device, z_port, role, rail, plane, speed_bps, _ in inventory.links:
            lower, upper = Port(a_device, a_port), Port(z_device, z_port)
            below = rank[a_device] - rank[z_device]
            if below > 0 or (below == 0 and upper < lower):
                lower, upper = upper, lower
            if plane is None:
                plane = plane_of[upper.device]  # noqa: PLW2901 — the row's own, or that of the switch it leads to
            pod = pod_of[lower.device]
            yield TopologyLink(link_id(lower, upper), lower, upper, role, rail, plane, pod, speed_bps)

    @property
    def graph(self) -> Graph:
        """The same as arrays; made when first asked for, once for all that differ only in their jobs."""
        made = self._graph_cache.get("graph")
        if made is None:
            made = self._graph_cache["graph"] = Graph(self.devices, self.uplinks_of)
        return made

    def endpoints_of(self, identity: str) -> tuple[Port, Port] | None:
        """Both ends of a link by its id, the lower first; None of an unknown one."""
        cable = self.links.get(identity)
        return None if cable is None else (cable.lower, cable.upper)

    def peers_of(self, link: TopologyLink, equal_in: Collection[EquivalenceKey] = PEERS) -> tuple[TopologyLink, ...]:
        """The other links that are alike in these: by default what may be compared with it.

        Of a host link the same rail and plane of the other hosts of its pod; `("lower", "role")` are its host's other
        rails and planes.
        """
        graph = self.graph
        return graph.links_at(graph.equivalent_links(graph.number_of(link), equal_in))

    def resolve_port(self, device: str, name: str) -> Port:
        """The port that a source calls `name`."""
        return Port(device, self._port_names.get((device, name), name))

    def link_at(self, port: Port) -> TopologyLink | None:
        """The link that ends at this port, or None where the inventory has none."""
        return self._by_port.get(port)

    def host_link_at(self, port: Port) -> TopologyLink | None:
        """The link of which this port is the host's end; None where it is no such end."""
        cable = self._by_port.get(port)
        return cable if cable is not None and cable.role == HOST_LINK and port == cable.lower else None

    def maintenance_until_ns(self, devices: Iterable[str]) -> int:
        """Until when people work at any of these; 0 where at none."""
        known = (self.devices.get(device) for device in devices)
        untils = (one.maintenance_until for one in known if one is not None and one.maintenance_until is not None)
        return max((round(until.timestamp() * 1e9) for until in untils), default=0)

    def subject_id(self, port: Port) -> str:
        """The link's id, or the port's where no link is known."""
        cable = self._by_port.get(port)
        return cable.id if cable else port_id(port)

    def pod_of(self, device: str) -> str:
        """The pod of a device; without one, or unknown, its own name serves as pod."""
        known = self.devices.get(device)
        return known.pod if known and known.pod else device

    def home_pod(self, port: Port) -> str:
        """Where symptoms of this port meet those of its far end: the pod of the link's lower end."""
        cable = self._by_port.get(port)
        return cable.pod if cable else self.pod_of(port.device)

    def pods_of_links(self, device: str) -> frozenset[str]:
        """The home pods of all links of a device, and its own."""
        return frozenset({self.pod_of(device), *(cable.pod for cable in self.links_of.get(device, ()))})

    def remaining_plane_ratio(self, link: TopologyLink, missing: Collection[str]) -> float:
        """What is left, without this link and the missing ones, of its pod's links of its role in its plane.

        `missing` are ids of links; the time is theirs, not that of the thousands of links of a pod.
        """
        group = (link.role, link.pod, link.plane)
        gone = (self.links.get(identity) for identity in {link.id, *missing})
        lost = sum(c is not None and (c.role, c.pod, c.plane) == group for c in gone)
        return (self._group_sizes[group] - lost) / self._group_sizes[group]

    def with_jobs(self, jobs: tuple[Job, ...]) -> "Topology":
        """The same fabric with these jobs; all other look-ups are shared."""
        fresh = copy.copy(self)
        fresh._derived_from = self  # noqa: SLF001 — lives as long, so that whoever keeps it weakly finds it
        fresh.jobs, fresh.placement = jobs, JobPlacement(jobs)
        return fresh

    def jobs_on(self, devices: Iterable[str], at_ns: int) -> tuple[str, ...]:
        """The jobs that hold any of these devices at a time, sorted."""
        return self.placement.jobs_on(devices, at_ns)

    def jobs_between(self, devices: Iterable[str], from_ns: int, to_ns: int) -> tuple[str, ...]:
        """The jobs that hold any of these devices at any time between the two, sorted."""
        return self.placement.jobs_between(devices, from_ns, to_ns)
