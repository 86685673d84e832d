"""A fabric of two pods with devices, ports and jobs that change; its devices and links have ids, and present names."""

import random

from streams.fabric.inventory import Device, Inventory, Job, Link
from streams.fabric.topology import Topology
from tests.worlds.small_fabric import link

UPLINKS = 4


class RenamedFabric:
    """Two pods of leaves with four uplinks each; devices and ports have stable numbers and present names."""

    def __init__(self) -> None:
        self.renames = 0
        self.device_names: dict[str, str] = {}
        self.port_names: dict[tuple[str, str], str] = {}
        self.jobs: tuple[Job, ...] = ()
        self.devices = [Device(f"{pod}-a{n}", "switch", "T1", pod) for pod in "pq" for n in range(UPLINKS)]
        self.devices += [Device(f"{pod}-l{leaf}", "switch", "T0", pod, leaf) for pod in "pq" for leaf in (0, 1)]
        self.devices += [Device(f"{pod}-h", "host", "host", pod, gpus=8) for pod in "pq"]
        self.uplinks = [
            link(f"{pod}-l{leaf}/u{n}", f"{pod}-a{n}/d{leaf}", plane=n % 2)
            for pod in "pq" for leaf in (0, 1) for n in range(UPLINKS)
        ]  # fmt: skip
        self.host_links = [
            link(f"{pod}-h/e{leaf}", f"{pod}-l{leaf}/h", "host-link", rail=0, plane=leaf)
            for pod in "pq"
            for leaf in (0, 1)
        ]
        self.topology = self.build()

    def device(self, stable: str) -> str:
        return self.device_names.get(stable, stable)

    def port(self, device: str, port: str) -> tuple[str, str]:
        return self.device(device), self.port_names.get((device, port), port)

    def _named(self, own: Link) -> Link:
        (a, a_port), (z, z_port) = self.port(own.a_device, own.a_port), self.port(own.z_device, own.z_port)
        return own._replace(
            a_device=a,
            a_port=a_port,
            z_device=z,
            z_port=z_port,
            id=f"{own.a_device}/{own.a_port}--{own.z_device}/{own.z_port}",
        )

    def build(self) -> Topology:
        """Return the look-ups by the present names."""
        self.topology = Topology(Inventory(
            devices=tuple(one._replace(name=self.device(one.name), id=one.name) for one in self.devices),
            links=tuple(map(self._named, (*self.uplinks, *self.host_links))), jobs=self.jobs,
        ))  # fmt: skip
        self.links = {row_id: self.topology.links[name] for name, row_id in self.topology.link_row_ids.items()}
        self.stable = {link.id: row_id for row_id, link in self.links.items()}
        self.stable |= {f"device:{self.device(one.name)}": one.name for one in self.devices}
        return self.topology

    def rename(self, chance: random.Random) -> None:
        """Rename a device or a port, or exchange the names of two leaves of a pod."""
        self.renames += 1
        kind = chance.choice(("device", "port", "exchange"))
        if kind == "device":
            self.device_names[chance.choice(self.devices).name] = f"n{self.renames}"
        elif kind == "port":
            own = chance.choice(self.uplinks)
            self.port_names[own.a_device, own.a_port] = f"x{self.renames}"
        else:
            one, other = "p-l0", "p-l1"
            self.device_names |= {one: self.device(other), other: self.device(one)}
        self.build()
