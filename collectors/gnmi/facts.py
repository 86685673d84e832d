"""Builds the Facts of a device from its reported identity: the chassis' values, else those of the system. Pure."""

from collections.abc import Iterator
from typing import Any

from collectors.gnmi.device_identity import DeviceIdentity
from streams.wire.models import Component


def facts_fields(identity: DeviceIdentity) -> dict[str, Any]:
    """Return the fields of Facts that the device reported: the chassis' values, else those of the system."""
    leaves = identity.facts
    components: dict[str, dict[str, str]] = {}
    for (field, subject), value in leaves.items():
        if field.startswith("component/"):
            components.setdefault(subject, {})[field.removeprefix("component/")] = value
    chassis = next((c for c in components.values() if c.get("type", "").rpartition(":")[2] == "CHASSIS"), {})
    return {
        "vendor": chassis.get("mfg-name", ""),
        "model": chassis.get("model-name") or chassis.get("part-no") or chassis.get("description", ""),
        "serial": chassis.get("serial-no", ""),
        "os_version": leaves.get(("os_version", ""), "") or chassis.get("software-version", ""),
        "booted_at_ns": identity.boot_id,
        "components": tuple(_modules(components, leaves)),
        "neighbors": _neighbors(leaves),
    }


def _modules(components: dict[str, dict[str, str]], leaves: dict[tuple[str, str], str]) -> Iterator[Component]:
    """Yield the transceivers with a part or serial number; the port that holds one is its alias, if reported."""
    for name, component in sorted(components.items()):
        part, serial = component.get("part-no", ""), component.get("serial-no", "")
        if component.get("type", "").rpartition(":")[2] == "TRANSCEIVER" and (part or serial):
            port = leaves.get(("module", name))
            alias = (port,) if port else ()
            yield Component(name, "transceiver", part, serial, component.get("firmware-version", ""), alias)


def _neighbors(leaves: dict[tuple[str, str], str]) -> tuple[tuple[str, str, str], ...]:
    """Return (port, remote device, remote port) of each LLDP neighbor that reported both."""
    names = {subject: value for (field, subject), value in leaves.items() if field == "neighbor/system-name"}
    ports = {subject: value for (field, subject), value in leaves.items() if field == "neighbor/port-id"}
    return tuple(
        (subject.partition("\0")[0], names[subject], ports[subject]) for subject in sorted(names.keys() & ports.keys())
    )
