"""Builds subjects of findings: a link, whichever of its ends is named; a port without a known link; a device."""

from collections.abc import Iterable
from dataclasses import replace

from streams.fabric.ids import Port, collector_id, device_id, input_id, plane_id, port_id
from streams.fabric.topology import Topology
from streams.wire.models import Coverage, Endpoint, Subject


def port_subject(topology: Topology, port: Port) -> Subject:
    """Return the link at a port, with the pod, site and team of its lower end; the port if no link is known."""
    cable = topology.link_at(port)
    device = topology.devices.get(cable.lower.device if cable else port.device)
    site, team = (device.site, device.team) if device else ("", "")
    if cable is None:
        pod = topology.pod_of(port.device)
        location = _location(topology, port.device)
        return Subject(port_id(port), Endpoint(*port), role="port", pod=pod, site=site, team=team, location=location)
    a, z = Endpoint(*cable.lower), Endpoint(*cable.upper)
    location = _location(topology, a.device, z.device, label=topology.link_labels.get(cable.id, ""))
    return Subject(cable.id, a, z, cable.role, cable.rail, cable.plane, cable.pod, site, team, location=location)


def _location(topology: Topology, *devices: str, label: str = "") -> str:
    """Return the racks of devices and the label of a link in words; empty if the inventory has none."""
    racks = {name: known.rack for name in devices if (known := topology.devices.get(name)) is not None and known.rack}
    return ", ".join(
        [*(f"{name} in rack {rack}" for name, rack in racks.items()), *([f"label {label}"] if label else [])]
    )


def device_subject(topology: Topology, device: str) -> Subject:
    """Return a device as a subject, whether or not the inventory has it."""
    known = topology.devices.get(device)
    role = known.kind if known else "device"
    site, team, plane = (known.site, known.team, known.plane) if known else ("", "", None)
    pod = topology.pod_of(device)
    return Subject(
        device_id(device), Endpoint(device), role=role, plane=plane, pod=pod, site=site, team=team,
        location=_location(topology, device),
    )  # fmt: skip


def plane_subject(plane: int) -> Subject:
    """Return a plane of the fabric, which has no ends."""
    return Subject(plane_id(plane), role="plane", plane=plane)


def collector_subject(collector: str) -> Subject:
    """Return a collector on its own machine, which the inventory does not have."""
    return Subject(collector_id(collector), role="collector")


def input_subject(consumer: str, topic: str) -> Subject:
    """Return a topic as the input of one part of the pipeline."""
    return Subject(input_id(consumer, topic), role="input")


def subject_ends(subject: Subject) -> tuple[Endpoint, ...]:
    """Return the ends in the inventory: two of a link, one of a port without a known link."""
    return tuple(end for end in (subject.a, subject.z) if end is not None)


def link_coverage(subject: Subject, reporters: Iterable[Endpoint]) -> Coverage:
    """Return the coverage by reporting ends, of two; a far end that the inventory lacks is missing."""
    ends, reported = subject_ends(subject), {(end.device, end.port) for end in reporters}
    missing = tuple(f"{end.device}/{end.port}" for end in ends if (end.device, end.port) not in reported)
    return Coverage(seen=len(reported), expected=2, missing=missing or (("far end",) if len(ends) < 2 else ()))


def link_name(subject: Subject) -> str:
    """Return the ends of a link for people."""
    return " -- ".join(f"{end.device}/{end.port}" for end in subject_ends(subject))


def part_subject(topology: Topology, host: str, part: str, role: str) -> Subject:
    """Return a part of a host, with the pod, site and team of its link, or else of the host."""
    port = Port(host, part)
    return replace(
        port_subject(topology, port), id=port_id(port), a=Endpoint(host, part), z=None, role=role, former_ids=(),
        location=_location(topology, host),
    )  # fmt: skip
