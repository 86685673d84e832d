"""Defines the targets and the time of a control: the names with which it may address a subject, its start and end, and
the findings that it prevents from paging.
"""

from collections.abc import Iterable

from streams.fabric.ids import Port, device_id, port_id
from streams.fabric.topology import Topology
from streams.wire.models import Control, ControlKind, Finding, Subject


def is_active(control: Control, now_ns: int) -> bool:
    """Return whether a control has begun and not ended; without an end it is active forever."""
    begun = control.at_ns is None or control.at_ns <= now_ns
    return begun and not has_ended(control, now_ns)


def has_ended(control: Control, now_ns: int) -> bool:
    """Return whether a control has an end that has passed."""
    return control.until_ns is not None and control.until_ns <= now_ns


def subject_names(subject: Subject, topology: Topology | None = None, now_ns: int = 0) -> frozenset[str]:
    """Return the names with which a control may address a subject.

    These are its current and former ids, its ports, devices, rail, pod and plane. An inventory adds its own rail and
    plane of a link, the jobs on the devices, and the rails of a host, because an action on a host interrupts them.
    """
    ends = [end for end in (subject.a, subject.z) if end is not None]
    devices = {end.device for end in ends}
    names = {subject.id, *subject.former_ids, *devices, *map(device_id, devices)}
    names |= {port_id(Port(end.device, end.port)) for end in ends if end.port}
    places = {(subject.rail, subject.plane, subject.pod)}
    if topology is not None:
        names |= {f"job:{job}" for job in topology.jobs_on(devices, now_ns)}
        if (link := topology.links.get(subject.id)) is not None:
            places.add((link.rail, link.plane, link.pod))
        elif not any(end.port for end in ends):
            known = [topology.devices[device] for device in devices if device in topology.devices]
            places |= {(None, device.plane, device.pod) for device in known}
            hosts = {device.name for device in known if device.kind == "host"}
            places |= {(link.rail, None, "") for host in hosts for link in topology.links_of.get(host, ())}
    for rail, plane, pod in places:
        if pod:
            names |= {pod, f"pod:{pod}"}
        if plane is not None:
            names.add(f"plane:{plane}")
        if rail is not None:
            names |= {f"rail:{rail}", *(f"rail:{device}/{rail}" for device in devices)}
    return frozenset(names)


def silencing_control(finding: Finding, controls: Iterable[Control], now_ns: int) -> Control | None:
    """Return an active control that prevents this finding from paging; one of a job only if it affects no other."""
    jobs = finding.blast_radius.jobs if finding.blast_radius is not None else ()
    names = subject_names(finding.subject) | {f"job:{job}" for job in jobs if len(jobs) == 1}
    return next((one for one in controls if is_active(one, now_ns) and _covers(one, finding, names)), None)


def _covers(control: Control, finding: Finding, names: frozenset[str]) -> bool:
    match control.kind:
        case ControlKind.ACKNOWLEDGE:
            # Applies to one finding only: an acknowledgement of everything would stop all paging without an end.
            return control.subject_id == finding.id
        case ControlKind.MAINTENANCE:
            return control.subject_id in ("", finding.id) or control.subject_id in names
        case _:
            return False
