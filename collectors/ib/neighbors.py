"""Converts the links that ibnetdiscover reports to the facts of devices: their ports and neighbors. Pure."""

from collections.abc import Iterable

from collectors.ib.ibdiagnet import Cable
from collectors.ib.nodes import Nodes
from streams.wire.models import Component, Facts, Neighbor, Source


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
