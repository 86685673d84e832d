"""Builds the Facts of a device from its reported identity: the chassis' values, else those of the system. Pure."""

from collections.abc import Iterator
from typing import Any

from collectors.gnmi.device_identity import DeviceIdentity
from streams.wire.models import Component


def facts_of(memory: DeviceIdentity) -> dict[str, Any]:
    """Return the fields of Facts that the device reported: the chassis' values, else those of the system."""
    said = memory.facts
    components: dict[str, dict[str, str]] = {}
    for (what, whose), value in said.items():
        if what.startswith("component/"):
            components.setdefault(whose, {})[what.removeprefix("component/")] = value
    chassis = next((c for c in components.values() if c.get("type", "").rpartition(":")[2] == "CHASSIS"), {})
    return {
        "vendor": chassis.get("mfg-name", ""),
        "model": chassis.get("model-name") or chassis.get("part-no") or chassis.get("description", ""),
        "serial": chassis.get("serial-no", ""),
        "os_version": said.get(("os_version", ""), "") or chassis.get("software-version", ""),
        "booted_at_ns": memory.boot_id,
        "components": tuple(_modules(components, said)),
        "neighbors": _neighbors(said),
    }


def _modules(components: dict[str, dict[str, str]], leaves: dict[tuple[str, str], str]) -> Iterator[Component]:
    """Yield the transceivers with a part or serial number; the port that holds one is its alias, if reported."""
    for name, own in sorted(components.items()):
        part, serial = own.get("part-no", ""), own.get("serial-no", "")
        if own.get("type", "").rpartition(":")[2] == "TRANSCEIVER" and (part or serial):
            port = leaves.get(("module", name))
            alias = (port,) if port else ()
            yield Component(name, "transceiver", part, serial, own.get("firmware-version", ""), alias)


def _neighbors(leaves: dict[tuple[str, str], str]) -> tuple[tuple[str, str, str], ...]:
    """Return (port, remote device, remote port) of each LLDP neighbor that reported both."""
    names = {whose: value for (what, whose), value in leaves.items() if what == "neighbor/system-name"}
    ports = {whose: value for (what, whose), value in leaves.items() if what == "neighbor/port-id"}
    return tuple(
        (whose.partition("\0")[0], names[whose], ports[whose]) for whose in sorted(names.keys() & ports.keys())
    )
