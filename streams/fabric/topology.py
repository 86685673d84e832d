"""What follows from an inventory: the link of a port, the home pod of a link, the paths a switch has upwards.

One Topology is one version of the inventory; it never changes, and a new version is a new Topology.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from streams.fabric.ids import Port, link_id, port_id, tier_rank
from streams.fabric.inventory import Device, Inventory, Link


@dataclass(frozen=True, slots=True)
class Cable:
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
    """Look-ups over one version of the inventory."""

    def __init__(self, inventory: Inventory, digest: str = "") -> None:
        self.digest = digest
        self.devices: dict[str, Device] = {device.name: device for device in inventory.devices}
        self.jobs = inventory.jobs
        self._port_names = {(n.device, n.alias): n.port for n in inventory.ports}
        self.cables: dict[str, Cable] = {}
        self._by_port: dict[Port, Cable] = {}
        for link in inventory.links:
            cable = self._cable(link)
            self.cables[cable.id] = cable
            self._by_port[cable.lower] = self._by_port[cable.upper] = cable

    def _cable(self, link: Link) -> Cable:
        lower, upper = sorted((link.a, link.z), key=lambda end: (tier_rank(self.devices[end.device].tier), end))
        return Cable(
            link_id(lower, upper),
            lower,
            upper,
            link.role,
            link.rail,
            self._plane(link, upper),
            self.pod_of(lower.device),
            link.speed_bps,
        )

    def _plane(self, link: Link, upper: Port) -> int | None:
        return link.plane if link.plane is not None else self.devices[upper.device].plane

    def port(self, device: str, name: str) -> Port:
        """The port that a source calls `name`."""
        return Port(device, self._port_names.get((device, name), name))

    def cable_at(self, port: Port) -> Cable | None:
        """The link that ends at this port, or None where the inventory has none."""
        return self._by_port.get(port)

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

    @cached_property
    def cables_of(self) -> dict[str, tuple[Cable, ...]]:
        """All links of each device that has any."""
        found: dict[str, list[Cable]] = defaultdict(list)
        for cable in self.cables.values():
            for device in {cable.lower.device, cable.upper.device}:
                found[device].append(cable)
        return {device: tuple(cables) for device, cables in found.items()}

    @cached_property
    def uplinks_of(self) -> dict[str, tuple[Cable, ...]]:
        """The links of each device on which it is the lower end: its paths upwards."""
        found: dict[str, list[Cable]] = defaultdict(list)
        for cable in self.cables.values():
            found[cable.lower.device].append(cable)
        return {device: tuple(cables) for device, cables in found.items()}

    def pods_touching(self, device: str) -> frozenset[str]:
        """The home pods of all links of a device, and its own."""
        return frozenset({self.pod_of(device), *(cable.pod for cable in self.cables_of.get(device, ()))})

    def jobs_on(self, devices: Iterable[str], at_ns: int) -> tuple[str, ...]:
        """The jobs that hold any of these devices at a time, sorted."""
        wanted = set(devices)
        return tuple(
            sorted(
                {
                    job.job
                    for job in self.jobs
                    if job.device in wanted
                    and job.start.timestamp() * 1e9 <= at_ns
                    and (job.end is None or at_ns < job.end.timestamp() * 1e9)
                }
            )
        )
