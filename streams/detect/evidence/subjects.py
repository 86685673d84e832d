"""Subjects of findings: a link whichever of its ends is named, a port of no known link, a device."""

from streams.fabric.ids import Port, device_id, port_id
from streams.fabric.topology import Topology
from streams.wire.models import Endpoint, Subject


def port_subject(topology: Topology, port: Port) -> Subject:
    """The link that ends there, where it belongs to its lower end; or the port."""
    cable = topology.link_at(port)
    device = topology.devices.get(cable.lower.device if cable else port.device)
    site, team = (device.site, device.team) if device else ("", "")
    if cable is None:
        pod = topology.pod_of(port.device)
        return Subject(port_id(port), Endpoint(port.device, port.port), role="port", pod=pod, site=site, team=team)
    a, z = Endpoint(*cable.lower), Endpoint(*cable.upper)
    return Subject(cable.id, a, z, cable.role, cable.rail, cable.plane, cable.pod, site, team)


def device_subject(topology: Topology, device: str) -> Subject:
    """A device, whether or not the inventory knows it."""
    known = topology.devices.get(device)
    role = known.kind if known else "device"
    site, team, plane = (known.site, known.team, known.plane) if known else ("", "", None)
    pod = topology.pod_of(device)
    return Subject(device_id(device), Endpoint(device), role=role, plane=plane, pod=pod, site=site, team=team)
