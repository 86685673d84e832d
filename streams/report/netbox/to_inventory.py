"""Converts NetBox's devices, interfaces and cables to a draft of the inventory.

Custom fields `railsight_NAME` or tags `NAME:VALUE` have the columns that NetBox lacks. A blank tier is derived from the
distance to the hosts. Pods, planes and rails are derived from the links only if NetBox has no such field, because a
blank in an existing field is a value. Every guess and every omission is a Doubt.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError

from streams.fabric.ids import Port
from streams.fabric.inventory import Device, Inventory, Link
from streams.fabric.inventory_rows import HOST_LINK, from_rows
from streams.instrument.text import refusal
from streams.report.inventory_draft import Doubt, Draft, DraftStructure, sorted_doubts
from streams.report.netbox.objects import (
    INTERFACE,
    PREFIX,
    CableObject,
    DeviceObject,
    Exports,
    Found,
    InterfaceObject,
    Named,
    NetboxObject,
)
from streams.wire.errors import Misconfigured

_SWITCH_WORDS = frozenset({"switch", "leaf", "spine", "superspine", "tor", "fabric"})
_HOST_WORDS = frozenset({"host", "server", "compute", "gpu", "node"})
_INSTALLED = ("", "connected")
_TYPE_SPEED = re.compile(r"(\d+(?:\.\d+)?)([gt]?)base-")
"""The value of an interface type, such as 1.6tbase-dr8, 400gbase-x-qsfp112 or 1000base-t."""
_TYPE_UNITS = {"": 10**6, "g": 10**9, "t": 10**12}
_GUESSED_COLUMNS = ("tier", "pod", "plane")
_DEVICE_COLUMNS = ("id", "firmware", "team", "maintenance_until")
_SHOWN = 3


class _Cabled(NamedTuple):
    """A cable between two interfaces."""

    cable: Found[CableObject]
    a: Found[InterfaceObject]
    z: Found[InterfaceObject]

    @property
    def device_ids(self) -> tuple[int, int]:
        return self.a.object.device.id, self.z.object.device.id


def draft_from_netbox(exports: Exports, gpus_per_host: int = 0) -> Draft:
    """Return the draft; `gpus_per_host` applies to hosts without a number. Raises Misconfigured on contradictions."""
    return _Conversion(exports, gpus_per_host).run()


class _Conversion:
    """One conversion: first the devices and cables of the fabric, then their rows."""

    def __init__(self, exports: Exports, gpus_per_host: int) -> None:
        self._exports, self._gpus = exports, gpus_per_host
        self._doubts: list[Doubt] = []
        self._left_out: dict[int, str] = {}
        """Devices of the fabric that are left out, each with the reason."""

    def run(self) -> Draft:
        if not self._exports.devices:
            raise Misconfigured("no device in the exports; give one of /api/dcim/devices/ too")
        kinds = {number: _kind(found) for number, found in self._exports.devices.items()}
        self._join_chassis()
        cabled = [each for each in self._cabled() if self._is_of_fabric(each, kinds)]
        linked = {number for each in cabled for number in each.device_ids}
        chosen = {
            number: found
            for number, found in self._exports.devices.items()
            if kinds[number] and (number in linked or found.object.column("tier"))
        }
        self._leave_out(chosen)
        chosen = {number: found for number, found in chosen.items() if number not in self._left_out}
        cabled = [each for each in cabled if chosen.keys() >= set(each.device_ids) or self._has_doubt(each)]
        if not chosen:
            raise Misconfigured(
                f"no host or switch with a link among {len(kinds)} devices and {len(self._exports.cables)} cables; "
                f"give the exports of interfaces and cables too, and set {PREFIX}kind where a role has no kind"
            )
        self._doubt_left_out(chosen)
        hosts = {found.object.name for number, found in chosen.items() if kinds[number] == "host"}
        edges = [self._edge(each) for each in cabled]
        _check_ports(cabled, edges)
        structure = DraftStructure([found.object.name for found in chosen.values()], hosts, edges)
        devices = self._devices(list(chosen.values()), hosts, structure)
        links = self._links(cabled, edges, devices, hosts, structure)
        given = {found.object.name for found in chosen.values() if found.object.column("tier")}
        guesses = (each for each in structure.doubts if each.column != "tier" or each.row not in given)
        return Draft(Inventory(devices=devices, links=links), sorted_doubts([*self._doubts, *guesses]))

    def _join_chassis(self) -> None:
        """Give the interfaces of a virtual chassis to its master, which reports them, unless their names are equal."""
        devices = self._exports.devices
        ports: dict[int, list[InterfaceObject]] = defaultdict(list)
        for interface in self._exports.interfaces.values():
            ports[interface.object.device.id].append(interface.object)
        for number, found in devices.items():
            chassis = found.object.virtual_chassis
            master = devices.get(chassis.master.id) if chassis is not None and chassis.master is not None else None
            if chassis is None or master is None or master is found:
                continue
            own = {each.name for each in ports[number] if not each.mgmt_only}
            if own and own.isdisjoint(each.name for each in ports[master.object.id]):
                for each in ports.pop(number):
                    each.device.id = master.object.id
                    ports[master.object.id].append(each)
                self._left_out[number] = f"it is a member of virtual chassis {chassis.name or chassis.id}"
                name, reported = found.object.name or f"NetBox device {number}", master.object.name
                self._doubt("devices", name, "", f"joined with {reported}, the master of its virtual chassis")

    def _leave_out(self, chosen: Mapping[int, Found[DeviceObject]]) -> None:
        """Mark devices without a name of their own, by which telemetry would name them."""
        numbers: dict[str, list[int]] = defaultdict(list)
        for number, found in chosen.items():
            numbers[found.object.name].append(number)
        for name, same in numbers.items():
            sites = ", ".join(f"{number} of site {_name(chosen[number].object.site) or 'unknown'}" for number in same)
            for number in same:
                if not name:
                    self._left_out[number] = "has no name"
                    reason = "left out: it has no name; name it in NetBox"
                elif len(same) > 1:
                    self._left_out[number] = f"has the name {name}, as another one has"
                    reason = f"left out: devices {sites} have the name {name}; rename one, or export one site"
                else:
                    continue
                self._doubt("devices", f"NetBox device {number}", "name", reason)

    def _has_doubt(self, each: _Cabled) -> bool:
        """Add a doubt for a cable to a device that is left out; return False."""
        (number, *_) = (number for number in each.device_ids if number in self._left_out)
        self._doubt_cable(each.cable, f"NetBox device {number} {self._left_out[number]}")
        return False

    def _doubt(self, table: str, row: str, column: str, reason: str) -> None:
        self._doubts.append(Doubt(table, row, column, reason))

    def _cabled(self) -> Iterable[_Cabled]:
        """Yield each pair of data interfaces that a cable or a path through patch panels connects."""
        used: dict[int, Found[CableObject]] = {}
        seen: set[frozenset[int]] = set()
        for found in self._exports.cables.values():
            for each in self._ends(found, used):
                pair = frozenset((each.a.object.id, each.z.object.id))
                if len(set(each.device_ids)) == 1:
                    self._doubt_cable(found, f"both its ends are at {self._port_name(each.a).partition('/')[0]}")
                elif pair not in seen and not (each.a.object.mgmt_only or each.z.object.mgmt_only):
                    seen.add(pair)
                    yield each

    def _ends(self, found: Found[CableObject], used: dict[int, Found[CableObject]]) -> Sequence[_Cabled]:
        """Return the pairs of interfaces that a cable connects; usually with a doubt, none if they are not certain."""
        ends = (found.object.a_terminations, found.object.b_terminations)
        if all(each.object_type != INTERFACE for end in ends for each in end):
            return ()
        status = found.object.status.value if found.object.status else ""
        if status not in _INSTALLED:
            self._doubt_cable(found, f"its status is {status}")
            return ()
        absent = [each.object_id for end in ends for each in end
                  if each.object_type == INTERFACE and not self._has(each.object_id)]  # fmt: skip
        if absent:
            self._doubt_cable(found, f"it ends at interface {absent[0]}, which with its device is in no file; give the "
                                     "exports of interfaces and devices without a filter")  # fmt: skip
            return ()
        a, z = ([self._exports.interfaces[each.object_id] for each in end if each.object_type == INTERFACE]
                for end in ends)  # fmt: skip
        _check_used(found, [*a, *z], used)
        if not a or not z:
            near = a or z
            far = [each.object.far_interface or 0 for each in near]
            if not all(map(self._has, far)):
                other = next((each.object_type for end in ends for each in end if each.object_type != INTERFACE),
                             "nothing")  # fmt: skip
                self._doubt_cable(found, f"it leads from an interface to {other}, and NetBox has no path from "
                                         "there to another interface; add the link by hand")  # fmt: skip
                return ()
            pairs = zip(near, map(self._exports.interfaces.__getitem__, far), strict=True)
            return [_Cabled(found, *(pair if a else reversed(pair))) for pair in pairs]
        if len(a) == len(z) == 1:
            return (_Cabled(found, a[0], z[0]),)
        by_id = {each.object.id: each for each in z}
        traced = [(each, by_id.pop(each.object.far_interface or 0, None)) for each in a]
        if not by_id and all(far is not None for _, far in traced):
            return [_Cabled(found, each, far) for each, far in traced if far is not None]
        names = " with ".join(", ".join(map(self._port_name, end[:_SHOWN])) for end in (a, z))
        joined = f"it joins {len(a)} with {len(z)} interfaces ({names}), and NetBox traces no pairs"
        self._doubt_cable(
            found, f"{joined}; give each lane of a breakout its own interface and cable, or add its link by hand"
        )
        return ()

    def _port_name(self, found: Found[InterfaceObject]) -> str:
        return f"{self._exports.devices[found.object.device.id].object.name}/{found.object.name}"

    def _is_of_fabric(self, each: _Cabled, kinds: Mapping[int, str]) -> bool:
        """Return whether both ends are hosts or switches; mark the cable if only one is."""
        outside = [number for number in each.device_ids if not kinds[number]]
        if len(outside) == 1:
            name = self._exports.devices[outside[0]].object.name or f"NetBox device {outside[0]}"
            self._doubt_cable(each.cable, f"{name} is no host or switch")
        return not outside

    def _has(self, number: int) -> bool:
        """Return whether an interface and its device are in the exports."""
        interface = self._exports.interfaces.get(number)
        return interface is not None and interface.object.device.id in self._exports.devices

    def _doubt_cable(self, found: Found[CableObject], reason: str) -> None:
        self._doubt("links", f"NetBox cable {found.object.id}", "", f"left out: {reason}")

    def _doubt_left_out(self, chosen: Mapping[int, Found[DeviceObject]]) -> None:
        """Add one doubt for each role with omitted devices."""
        names: dict[str, list[str]] = defaultdict(list)
        for number, found in self._exports.devices.items():
            if number not in chosen and number not in self._left_out:
                names[_role(found.object).name].append(found.object.name or f"NetBox device {number}")
        for role, left in names.items():
            listed = ", ".join(left[:_SHOWN]) + (", …" if len(left) > _SHOWN else "")
            self._doubt("devices", "", "", f"left out: {len(left)} of role {role or 'unknown'} ({listed}): no host or "
                        f"switch by role or {PREFIX}kind, or neither a link nor {PREFIX}tier")  # fmt: skip

    def _edge(self, each: _Cabled) -> tuple[Port, Port]:
        a, z = (
            Port(self._exports.devices[end.object.device.id].object.name, end.object.name) for end in (each.a, each.z)
        )
        return a, z

    def _devices(
        self, chosen: Sequence[Found[DeviceObject]], hosts: set[str], structure: DraftStructure
    ) -> tuple[Device, ...]:
        objects = [found.object for found in chosen]
        tiers: dict[str, Any] = structure.tiers()
        for device in objects:
            if given := device.column("tier"):
                tiers[device.name] = given
        guessed = {"tier": tiers}
        for name, guess in (("pod", structure.pods), ("plane", structure.planes)):
            if not any(device.defines(name) for device in objects):
                guessed[name] = guess({device: str(tier) for device, tier in tiers.items()})
        rows = [self._device_row(device, device.name in hosts, guessed) for device in objects]
        devices: tuple[Device, ...] = _rows("devices", chosen, rows)
        for name in ("pod", "plane"):
            if name not in guessed:
                self._doubt_blanks("devices", name, [(row.name, row.tier, getattr(row, name)) for row in devices])
        return devices

    def _device_row(
        self, device: DeviceObject, is_host: bool, guessed: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, object]:
        gpus = device.column("gpus")
        if gpus == "" and is_host:
            gpus = self._gpus
            self._doubt("devices", device.name, "gpus",
                        f"NetBox has none: {gpus} is given" if gpus else "NetBox has none")  # fmt: skip
        kind = device.device_type
        return {
            "name": device.name, "kind": "host" if is_host else "switch", "gpus": gpus, "serial": device.serial,
            "vendor": _name(kind.manufacturer) if kind else "", "model": kind.model if kind else "",
            "site": _name(device.site), "tenant": _name(device.tenant), "rack": _rack(device),
            **{name: guessed[name].get(device.name, "") if name in guessed else device.column(name)
               for name in _GUESSED_COLUMNS},
            **{name: device.column(name) for name in _DEVICE_COLUMNS},
        }  # fmt: skip

    def _links(
        self, cabled: Sequence[_Cabled], edges: Sequence[tuple[Port, Port]], devices: Sequence[Device],
        hosts: set[str], structure: DraftStructure,
    ) -> tuple[Link, ...]:  # fmt: skip
        plane_of = {device.name: device.plane for device in devices}
        has_rails, has_planes = (any(part.object.defines(name) for each in cabled for part in each)
                                 for name in ("rail", "plane"))  # fmt: skip
        rails = {} if has_rails else structure.rails(plane_of)
        rows: list[dict[str, object]] = []
        without_speed = 0
        for each, (a, z) in zip(cabled, edges, strict=True):
            speed = self._speed(each, a, z)
            without_speed += speed is None
            planes = {plane for end in (a, z) if (plane := plane_of[end.device]) is not None}
            rows.append({
                "a_device": a.device, "a_port": a.port, "z_device": z.device, "z_port": z.port,
                "role": HOST_LINK if a.device in hosts or z.device in hosts else "fabric-link",
                "rail": _column(each, "rail") if has_rails else rails.get(a, rails.get(z)),
                "plane": _column(each, "plane") if has_planes else planes.pop() if len(planes) == 1 else None,
                "speed_bps": speed, "id": _column(each, "id"), "label": _label(each, a, z),
            })  # fmt: skip
        if without_speed:
            self._doubt("links", "", "speed_bps", f"{without_speed} links: no speed and no type with one")
        links: tuple[Link, ...] = _rows("links", [each.cable for each in cabled], rows)
        if has_rails:
            self._doubt_blanks("links", "rail", [(_row_name(link.a, link.z), link.role, link.rail) for link in links])
        return links

    def _speed(self, each: _Cabled, a: Port, z: Port) -> int | None:
        """Return the speed of a link, the lower one of its ends."""
        speeds = [speed for end in (each.a, each.z) if (speed := _speed_bps(end.object)) is not None]
        if len(set(speeds)) > 1:
            self._doubt("links", _row_name(a, z), "speed_bps", f"its ends have {' and '.join(map(str, speeds))}")
        return min(speeds, default=None)

    def _doubt_blanks(self, table: str, column: str, rows: Sequence[tuple[str, str, object]]) -> None:
        """Mark the blanks of a column if other rows of the same tier or role have a value."""
        filled = {group for _, group, value in rows if value not in ("", None)}
        for name, group, value in rows:
            if value in ("", None) and group in filled:
                self._doubt(table, name, column, f"blank, other rows of {group} have a value")


def _kind(found: Found[DeviceObject]) -> str:
    """Return `host`, `switch`, or a blank for another device."""
    given = found.object.column("kind")
    if given in ("host", "switch"):
        return str(given)
    if given != "":
        raise found.error(f"has {PREFIX}kind {given!r:.40}; set it to host or switch in NetBox")
    role = _role(found.object)
    words = set(re.split(r"[\W_]+", f"{role.slug} {role.name}".lower()))
    return "switch" if words & _SWITCH_WORDS else "host" if words & _HOST_WORDS else ""


def _role(device: DeviceObject) -> Named:
    return device.role or Named()


def _name(related: Named | None) -> str:
    return related.name if related else ""


def _rack(device: DeviceObject) -> str:
    unit = "" if device.position is None else f" U{device.position:g}"
    return _name(device.rack) and f"{_name(device.rack)}{unit}"


def _label(each: _Cabled, a: Port, z: Port) -> str:
    """Return the labels of the cable and of the interfaces at its ends."""
    ends = ((a, each.a.object.label), (z, each.z.object.label))
    labels = [each.cable.object.label, *(f"{label} at {port.device}" for port, label in ends if label)]
    return ", ".join(filter(None, labels))


def _check_used(
    cable: Found[CableObject], ends: Sequence[Found[InterfaceObject]], used: dict[int, Found[CableObject]]
) -> None:
    """Raise Misconfigured for a cable with one interface at both ends, or with an interface of an earlier cable."""
    numbers = [interface.object.id for interface in ends]
    if len(numbers) > len(set(numbers)):
        raise cable.error(f"ends twice at one of the interfaces {numbers}; correct it in NetBox")
    for number in numbers:
        if (other := used.setdefault(number, cable)) is not cable:
            raise cable.error(f"ends at interface {number}, as cable {other.object.id} does; "
                              "correct one of the two in NetBox")  # fmt: skip


def _check_ports(cabled: Iterable[_Cabled], edges: Iterable[tuple[Port, Port]]) -> None:
    by_port: dict[Port, Found[InterfaceObject]] = {}
    for each, edge in zip(cabled, edges, strict=True):
        for interface, port in zip((each.a, each.z), edge, strict=True):
            if (known := by_port.setdefault(port, interface)) is not interface:
                raise interface.error(f"has the name {port.port} on {port.device}, as interface {known.object.id} has; "
                                      "rename one in NetBox")  # fmt: skip


def _column(each: _Cabled, name: str) -> object:
    """Return a column of a link from its cable or its interfaces, whose values must not differ."""
    parts: tuple[Found[Any], ...] = (each.cable, each.a, each.z) if name != "id" else (each.cable,)
    values: list[object] = []
    for part in parts:
        if (value := part.object.column(name)) != "" and value not in values:
            values.append(value)
    if len(values) > 1:
        raise each.cable.error(f"has {name} {values[0]!r:.40} and {values[1]!r:.40}, at the cable and its interfaces; "
                               "correct one in NetBox")  # fmt: skip
    return values[0] if values else ""


def _speed_bps(interface: InterfaceObject) -> int | None:
    """Return the interface's speed, else its type's, in bit/s."""
    if interface.speed:
        return interface.speed * 1000
    if interface.type and (found := _TYPE_SPEED.match(interface.type.value)):
        return round(float(found[1]) * _TYPE_UNITS[found[2]])
    return None


def _row_name(a: Port, z: Port) -> str:
    return f"{a.device}/{a.port} -- {z.device}/{z.port}"


def _rows(table: str, sources: Sequence[Found[Any]], rows: Sequence[Mapping[str, Any]]) -> tuple[Any, ...]:
    """Convert the rows; raise Misconfigured with the object of the first row that is invalid."""
    try:
        return from_rows(table, rows)
    except ValidationError as error:
        detail = error.errors()[0]
        index, column = detail["loc"][:2]
        assert isinstance(index, int)
        source: NetboxObject = sources[index].object
        name = f"{PREFIX}{column}" if source.defines(str(column)) else str(column)
        value = f"{detail['input']!r:.40}"
        raise sources[index].error(f"has {name} {value}: {refusal(detail)}; correct it in NetBox") from error
