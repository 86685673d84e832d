"""Finds the device and the port name of a port of a subnet, by the inventory or by the node's description. Pure.

A subnet has nodes: an HCA is one (`server01 mlx5_0`), a switch is one for each ASIC (`MF0;leaf01:MQM9700/U1`). A device
of the inventory is a whole host or switch. The inventory recognizes a node by `devices.id` (its GUID) or by the name in
its description, and a port of an HCA by an alias that is its port GUID. A switch without a name, such as an unmanaged
one, is its GUID.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from collectors.ib.formats import PortReading, guid
from collectors.ib.ibdiagnet import Cable
from collectors.ib.signals import PortKind, asic_of, number, speed
from streams.fabric.inventory import Inventory
from streams.wire.models import Component, Facts, Neighbor, Source

_SWITCH = re.compile(r"MF\d+;(?P<name>[^:;]+):(?P<model>[^/;]+)(?:/(?P<part>[^;]*))?", re.ASCII)
_HCA = re.compile(r"(?P<name>[\w.-]+)[ \t]+(?P<hca>(?:mlx|ib|rocep|ibp|hfi|bnxt_re|HCA-)[\w.-]*)", re.ASCII)
_AGGREGATION = "aggregation node"
"""SHARP's nodes look like HCAs on a port of a switch, and are no hosts."""
_SINGLE = frozenset({"", "U1"})
"""The part of a switch that has one ASIC."""
_NEVER = frozenset({"MF0", "localhost", "localhost.localdomain", "node-description"})


@dataclass(frozen=True, slots=True)
class Node:
    """A node by its description: the name of its device, the prefix of its ports' names, and its model."""

    name: str = ""
    part: str = ""
    model: str = ""
    is_hca: bool = False
    is_aggregation: bool = False

    def port(self, port_number: int) -> str:
        """Return the name of a port: of an HCA's only one the HCA's, as the collector `nic` names it."""
        if self.is_hca:
            return self.part if port_number == 1 else f"{self.part}/{port_number}"
        return f"{self.part}/{port_number}" if self.part else str(port_number)


def node_of(description: str) -> Node:
    """Return what a description has; one in no known form has the model only."""
    text = description.strip().strip('"')
    if _AGGREGATION in text.lower():
        return Node(is_aggregation=True)
    if (found := _SWITCH.fullmatch(text)) is not None:
        part = found["part"] or ""
        return Node(_named(found["name"]), "" if part in _SINGLE else part, found["model"])
    if (found := _HCA.match(text)) is not None:
        return Node(_named(found["name"]), found["hca"], is_hca=True)
    return Node(model=text)


def _named(name: str) -> str:
    return "" if name in _NEVER else name


@dataclass(frozen=True, slots=True)
class Place:
    """A port of a device of the inventory, and what the conversion of its values needs."""

    device: str
    port: str
    kind: PortKind


class Nodes:
    """The devices and ports of one version of the inventory; without an inventory, every node is a device."""

    def __init__(self, inventory: Inventory | None = None) -> None:
        self._knows_all = inventory is None
        inventory = inventory or Inventory()
        self._devices = {device.name: device for device in inventory.devices}
        self._by_guid = {own: device.name for device in inventory.devices if (own := guid(device.id))}
        self._ports: dict[str, tuple[str, str]] = {
            own: (one.device, one.port) for one in inventory.ports if (own := guid(one.alias)) and len(one.alias) > 12
        }
        aliases = {(one.device, one.alias): one.port for one in inventory.ports}
        self._aliases = aliases
        self._speeds: dict[tuple[str, str], float] = {}
        for link in inventory.links:
            for end in (link.a, link.z):
                self._speeds[end.device, end.port] = float(link.speed_bps or 0)
        self._nodes: dict[str, Node] = {}

    def place(self, reading: PortReading) -> Place | str:
        """Return the place of a port, or the reason why it has none."""
        if reading.description not in self._nodes:
            self._nodes[reading.description] = node_of(reading.description)
        node = self._nodes[reading.description]
        if node.is_aggregation:
            return "an aggregation node of SHARP"
        if reading.port == 0:
            return "the management port of a switch"
        device, port = self._named(reading, node)
        if not device:
            return "a node that is not in the inventory"
        own = self._devices.get(device)
        model = node.model or (own.model if own is not None else "")
        speed_bps, lanes = speed(reading.values)
        speed_bps = speed_bps or self._speeds.get((device, self._aliases.get((device, port), port)), 0.0)
        is_switch = not node.is_hca and (own is None or own.kind == "switch")
        asic = asic_of(model, int(number(reading.values.get("deviceid")) or 0)) if is_switch else None
        if asic is None and is_switch and own is not None:
            asic = asic_of(own.model)
        return Place(device, port, PortKind(asic, speed_bps, lanes or 4))

    def end(self, reading: PortReading) -> tuple[str, str, Node]:
        """Return the device, the port and the node of an end of a link, also of one that the inventory does not know.

        An aggregation node and a management port have no device.
        """
        node = node_of(reading.description)
        if node.is_aggregation or reading.port == 0:
            return "", "", node
        device, port = self._named(reading, node)
        return device or node.name or f"0x{reading.node_guid}", port, node

    def _named(self, reading: PortReading, node: Node) -> tuple[str, str]:
        """Return the device and the port; without a device if the inventory does not know the node."""
        if (known := self._ports.get(reading.port_guid)) is not None and asic_of(node.model) is None:
            return known
        port = node.port(reading.port)
        if (by_guid := self._by_guid.get(reading.node_guid)) is not None:
            return by_guid, port
        if node.name in self._devices or (self._knows_all and node.name):
            return node.name, port
        by_name = f"0x{reading.node_guid}"
        return (by_name if self._knows_all or by_name in self._devices else ""), port


def facts_of(cables: Iterable[Cable], nodes: Nodes, observed_ns: int) -> list[Facts]:
    """Return the facts of each device; a port of an HCA is a component `nic`, by which a device is a host."""
    neighbors: dict[str, dict[str, Neighbor]] = {}
    components: dict[str, dict[str, Component]] = {}
    models: dict[str, str] = {}
    for cable in cables:
        device, port, node = nodes.end(cable.near)
        far_device, far_port, _ = nodes.end(cable.far)
        if not (device and port and far_device and far_port):
            continue
        neighbors.setdefault(device, {})[port] = Neighbor(port, far_device, far_port)
        alias = (f"0x{cable.near.port_guid}",) if cable.near.port_guid else ()
        components.setdefault(device, {})[port] = Component(port, "nic" if node.is_hca else "port", alias=alias)
        models[device] = "" if node.is_hca else node.model
    return [
        Facts(
            device, observed_ns, Source.SOURCE_IB, model=models[device],
            components=tuple(components[device].values()), neighbors=tuple(found.values()),
        )
        for device, found in sorted(neighbors.items())
    ]  # fmt: skip
