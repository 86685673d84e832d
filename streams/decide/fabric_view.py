"""Combines the fabric inputs of `decide`: the topology, its capacity, and the states of links."""

from streams.decide.capacity import Capacity
from streams.decide.guards import TAKES_HOST_OUT, TAKES_LINK_OUT
from streams.decide.link_states import LinkMessage, LinkStates
from streams.decide.link_traffic import LinkTraffic
from streams.decide.params import DecideParams
from streams.decide.port_modules import ModuleParts
from streams.fabric.ids import Port, device_id
from streams.fabric.inventory import Inventory
from streams.fabric.topology import Topology, TopologyLink
from streams.wire.models import Action, Endpoint, Finding, PortModules, PortQuality, Subject


class FabricView:
    """The newest version of the inventory, with the states of its links."""

    def __init__(self, params: DecideParams) -> None:
        self._params = params
        self.topology = Topology(Inventory())
        self.capacity = Capacity(self.topology)
        self.links, self.modules, self.traffic = self.no_links(), ModuleParts(), self.no_traffic()

    def no_links(self) -> LinkStates:
        """Return states without any evidence."""
        own = self._params
        return LinkStates(own.freshness_limit_s, own.qualification, accept_unread_hosts=own.accept_unread_hosts)

    def no_traffic(self) -> LinkTraffic:
        """Return the traffic of links before any reading."""
        return LinkTraffic(self._params.idle_bps)

    def update(self, message: LinkMessage | PortModules) -> None:
        """Process a message of `measure`."""
        if isinstance(message, PortModules):
            self.modules.update(message)
            return
        self.links.update(message)
        if isinstance(message, PortQuality):
            self.traffic.update(message)

    def advance(self, now_ns: int) -> None:
        """Advance to a time."""
        self.links.advance(now_ns)
        self.traffic.advance(now_ns, self.topology)

    def set_topology(self, topology: Topology) -> None:
        """Replace the version of the inventory."""
        self.topology = topology
        if topology.graph is not self.capacity.graph:
            self.capacity = Capacity(topology)
        self.links.set_topology(topology)

    def link(self, finding: Finding) -> TopologyLink | None:
        """Return the link of a finding."""
        end = finding.subject.a
        return self.topology.link_at(Port(end.device, end.port)) if end and end.port else None

    def members(self, target: Subject) -> tuple[str, ...]:
        """Return the switches of a pod; empty for an unknown pod and any other target."""
        if target.a is not None or not target.pod:
            return ()
        devices = self.topology.devices.values()
        return tuple(
            own.name for own in devices if own.kind == "switch" and self.topology.pod_of(own.name) == target.pod
        )

    def has(self, target: Subject) -> bool:
        """Return whether the inventory has a link or a device."""
        if target.a is None or target.id != device_id(target.a.device):
            return target.id in self.topology.links
        return target.a.device in self.topology.devices

    def part_number(self, link_id: str) -> str:
        """Return the part number of a link's transceivers; empty if it is unknown."""
        return self.modules.part_number(link_id, self.topology)

    def target(self, finding: Finding, action: Action) -> Subject:
        """Return the target of an action: the host or the link to which the finding's subject belongs."""
        subject, end, link = finding.subject, finding.subject.a, self.link(finding)
        if action in TAKES_HOST_OUT and end is not None:
            identity = device_id(end.device)
            return subject if subject.id == identity else Subject(identity, Endpoint(end.device), pod=subject.pod)
        if action in TAKES_LINK_OUT and link is not None and link.id != subject.id:
            return Subject(
                link.id, Endpoint(*link.lower), Endpoint(*link.upper), link.role, link.rail, link.plane, link.pod
            )
        return subject

    def qualifies(self, target: Subject) -> bool:
        """Return whether a link, or every link of a host, is proven sound."""
        if target.id in self.topology.links:
            return self.links.qualification(target.id).qualified
        if target.a is None or target.id != device_id(target.a.device):
            return False  # the inventory no longer has the link
        links = self.topology.uplinks_of.get(target.a.device, ())
        return bool(links) and all(self.links.qualification(link.id).qualified for link in links)
