"""Converts an inventory to the JSON of NetBox's REST API, as `to_inventory` reads it.

Objects have the form of NetBox 4.x, with the data of an inventory. Columns that NetBox lacks are custom fields
`railsight_NAME`. NetBox cannot represent jobs, aliases of ports, speeds that are no whole kbit/s, and roles of links
that contradict their ends.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from streams.fabric.inventory import Device, Inventory, Link
from streams.fabric.inventory_rows import HOST_LINK
from streams.report.netbox.objects import INTERFACE, PREFIX

_Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class NetboxExport:
    """The answers by file name, and one line for each value that NetBox cannot represent."""

    answers: Mapping[str, _Json]
    lost: Sequence[str]


def netbox_export(inventory: Inventory) -> NetboxExport:
    """Return the export of a valid inventory; ids count from 1 in the order of the tables."""
    devices = {device.name: _device(number, device) for number, device in enumerate(inventory.devices, 1)}
    interfaces: list[_Json] = []
    cables: list[_Json] = []
    for number, link in enumerate(inventory.links, 1):
        ends: list[list[_Json]] = []
        for end in (link.a, link.z):
            device, speed = devices[end.device], link.speed_bps
            made = _object("interface", len(interfaces) + 1, end.port) | {
                "device": _brief(device), "type": {"value": "other", "label": "Other"}, "mgmt_only": False,
                "speed": None if speed is None or speed % 1000 else speed // 1000,
                "cable": {"id": number}, "cable_end": "AB"[len(ends)], "custom_fields": {}, "tags": [],
            }  # fmt: skip
            interfaces.append(made)
            near = {**_brief(made), "device": _brief(device)}
            ends.append([{"object_type": INTERFACE, "object_id": made["id"], "object": near}])
        cables.append(_cable(number, link, *ends))
    tables = {"devices": [*devices.values()], "interfaces": interfaces, "cables": cables}
    return NetboxExport(
        {
            f"{name}.json": {"count": len(rows), "next": None, "previous": None, "results": rows}
            for name, rows in tables.items()
        },
        _lost(inventory),
    )


def _object(kind: str, number: int, name: str) -> _Json:
    return {"id": number, "url": f"/api/dcim/{kind}s/{number}/", "display": name, "name": name}


def _brief(made: _Json) -> _Json:
    return {name: made[name] for name in ("id", "url", "display", "name")}


def _device(number: int, device: Device) -> _Json:
    has_type = device.vendor or device.model
    return _object("device", number, device.name) | {
        "device_type": {"manufacturer": _named(device.vendor), "model": device.model} if has_type else None,
        "role": {"name": device.kind, "slug": device.kind}, "tenant": _named(device.tenant),
        "serial": device.serial, "site": _named(device.site), "rack": _named(device.rack),
        "status": {"value": "active", "label": "Active"},
        "custom_fields": _custom(
            tier=device.tier, pod=device.pod, plane=device.plane, gpus=device.gpus, id=device.id,
            firmware=device.firmware, team=device.team,
            maintenance_until=device.maintenance_until and device.maintenance_until.isoformat(),
        ),
        "tags": [],
    }  # fmt: skip


def _cable(number: int, link: Link, a: list[_Json], b: list[_Json]) -> _Json:
    return {
        "id": number, "url": f"/api/dcim/cables/{number}/", "display": f"#{number}", "a_terminations": a,
        "b_terminations": b, "status": {"value": "connected", "label": "Connected"}, "label": link.label,
        "custom_fields": _custom(rail=link.rail, plane=link.plane, id=link.id), "tags": [],
    }  # fmt: skip


def _named(name: str) -> _Json | None:
    return {"name": name} if name else None


def _custom(**columns: object) -> _Json:
    return {PREFIX + name: None if value == "" else value for name, value in columns.items()}


def _lost(inventory: Inventory) -> list[str]:
    kinds = {device.name: device.kind for device in inventory.devices}
    counts = {
        "jobs": len(inventory.jobs),
        "aliases of ports": len(inventory.ports),
        "shared parts": len(inventory.parts),
        "speeds that are no whole kbit/s": sum((link.speed_bps or 0) % 1000 > 0 for link in inventory.links),
        "roles of links against their ends": sum(
            (link.role == HOST_LINK) != ("host" in (kinds[link.a_device], kinds[link.z_device]))
            for link in inventory.links
        ),
    }
    return [f"{count} {what}" for what, count in counts.items() if count]
