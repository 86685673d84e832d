"""Models a simulated switch in OpenConfig: its leaves, their values at a moment, and their gNMI notifications. Pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import orjson

from collectors.gnmi.paths import Elem, Elems, from_text, to_message
from collectors.gnmi.v1 import gnmi_pb2
from lab.world.demo_fabric import SOFTWARE
from lab.world.demo_links import PortState
from lab.world.demo_world import DemoWorld
from lab.world.port_configuration import Setting
from streams.fabric.catalogue import Metric
from streams.fabric.ids import Port

Value = str | int | bool | tuple[str, ...]
"""A tuple is a leaf-list."""
_ANY = {"*", "..."}
BGP_NEIGHBORS = (
    "/network-instances/network-instance[name=default]/protocols/protocol[identifier=BGP][name=BGP]/bgp/neighbors"
)


@dataclass(frozen=True, slots=True)
class Identity:
    """An OpenConfig identityref; JSON_IETF writes its module before its name."""

    module: str
    name: str


@dataclass(frozen=True, slots=True)
class Leaf:
    """One leaf of one switch.

    `port` is its port, if any; `reports` is True if ON_CHANGE is supported; a leaf with a `setting` can be set.
    """

    elems: Elems
    port: str
    read: Callable[[Any], Value | Identity]
    is_counter: bool = False
    reports: bool = True
    setting: Setting | None = None


_Read = Callable[[PortState], Value | Identity]
_COUNTERS: dict[str, _Read] = {
    "in-octets": lambda p: p.rx_bytes,
    "out-octets": lambda p: p.tx_bytes,
    "in-pkts": lambda p: p.rx_packets,
    "out-pkts": lambda p: p.tx_packets,
    "in-unicast-pkts": lambda p: p.rx_packets,
    "out-unicast-pkts": lambda p: p.tx_packets,
    "in-discards": lambda p: p.counter(Metric.RX_DISCARDS),
    "out-discards": lambda p: p.counter(Metric.TX_DISCARDS),
    "in-errors": lambda p: p.fcs_errors,
    "out-errors": lambda _: 0,
    "in-fcs-errors": lambda p: p.fcs_errors,
    "carrier-transitions": lambda p: p.transitions,
}
_ETHERNET_COUNTERS: dict[str, _Read] = {
    "in-crc-errors": lambda p: p.fcs_errors,
    "in-mac-pause-frames": lambda p: p.counter(Metric.PAUSE_RX_FRAMES),
    "out-mac-pause-frames": lambda p: p.counter(Metric.PAUSE_TX_FRAMES),
}
_STATES: dict[str, _Read] = {
    "name": lambda p: p.name,
    "admin-status": lambda p: "UP" if p.admin_up else "DOWN",
    "oper-status": lambda p: "UP" if p.oper_up else "DOWN",
    "last-change": lambda p: p.last_change_ns,
}


def _speed(port: PortState) -> Identity:
    return Identity("openconfig-if-ethernet", f"SPEED_{port.speed_bps // 10**9}GB")


class GnmiModel:
    """The leaves of one switch; the tree never changes, only the values do."""

    def __init__(self, world: DemoWorld, device: str) -> None:
        self._world = world
        self.device = device
        self.ports = world.ports.get(device, ())
        self.leaves: tuple[Leaf, ...] = (
            *self._system(),
            *self._components(),
            *self._all_ports(),
            *self._lldp(),
            *self._routing_policies(),
            *self._sessions(),
        )

    def _system(self) -> Iterable[Leaf]:
        base = from_text("/system/state")
        world, device = self._world, self.device
        yield Leaf((*base, Elem("hostname")), "", lambda _: device)
        yield Leaf((*base, Elem("software-version")), "", self._software)
        yield Leaf((*base, Elem("boot-time")), "", lambda at_ns: world.device(device, at_ns).boot_ns)
        yield Leaf((*base, Elem("current-datetime")), "", _rfc3339, is_counter=True, reports=False)

    def _components(self) -> Iterable[Leaf]:
        row = next(device for device in self._world.inventory.devices if device.name == self.device)
        base = (Elem("components"), Elem("component", (("name", "Chassis"),)))
        constants: dict[str, Value | Identity] = {
            "name": "Chassis",
            "type": Identity("openconfig-platform-types", "CHASSIS"),
            "mfg-name": row.vendor,
            "part-no": row.model,
            "serial-no": row.serial,
        }
        yield Leaf((*base, Elem("name")), "", _constant("Chassis"))
        yield Leaf((*base, Elem("state"), Elem("software-version")), "", self._software)
        for name, value in constants.items():
            yield Leaf((*base, Elem("state"), Elem(name)), "", _constant(value))

    def _all_ports(self) -> Iterable[Leaf]:
        for port in self.ports:
            base = (Elem("interfaces"), Elem("interface", (("name", port),)))
            state, ethernet = (*base, Elem("state")), (*base, Elem("ethernet"), Elem("state"))
            yield Leaf((*base, Elem("name")), port, _STATES["name"])
            config = (*base, Elem("config"))
            yield Leaf((*config, Elem("enabled")), port, self._setting(port, Setting.ENABLED), setting=Setting.ENABLED)
            for name, read in _STATES.items():
                yield Leaf((*state, Elem(name)), port, read)
            for name, read in _COUNTERS.items():
                yield Leaf((*state, Elem("counters"), Elem(name)), port, read, is_counter=True, reports=False)
            yield Leaf((*ethernet, Elem("port-speed")), port, _speed)
            for name, read in _ETHERNET_COUNTERS.items():
                yield Leaf((*ethernet, Elem("counters"), Elem(name)), port, read, is_counter=True, reports=False)

    def _lldp(self) -> Iterable[Leaf]:
        for port in self.ports:
            far = partial(self._world.neighbor, self.device, port)
            base = from_text("/lldp/interfaces")
            entry = (
                *base, Elem("interface", (("name", port),)), Elem("neighbors"), Elem("neighbor", (("id", "1"),)),
                Elem("state"),
            )  # fmt: skip
            yield Leaf((*entry, Elem("id")), port, _constant("1"))
            yield Leaf((*entry, Elem("system-name")), port, lambda at_ns, far=far: far(at_ns).device)  # type: ignore[misc]
            yield Leaf((*entry, Elem("port-id")), port, lambda at_ns, far=far: far(at_ns).port)  # type: ignore[misc]

    def _routing_policies(self) -> Iterable[Leaf]:
        """Return the policies of the BGP neighbor of each port; an unnumbered neighbor has the name of its port."""
        for port in self.ports:
            config = from_text(f"{BGP_NEIGHBORS}/neighbor[neighbor-address={port}]/apply-policy/config")
            for setting in (Setting.IMPORT_POLICY, Setting.EXPORT_POLICY):
                yield Leaf((*config, Elem(setting.value)), port, self._setting(port, setting), setting=setting)

    def _sessions(self) -> Iterable[Leaf]:
        """Return the state of the BFD and BGP session over each port."""
        for number, port in enumerate(self.ports, 1):
            is_up = partial(self._world.is_session_up, self.device, port)
            bfd = from_text(f"/bfd/interfaces/interface[id={port}]/peers/peer[local-discriminator={number}]/state")
            yield Leaf((*bfd, Elem("session-state")), port, _session(is_up, "UP", "DOWN"))
            bgp = from_text(f"{BGP_NEIGHBORS}/neighbor[neighbor-address={port}]/state")
            yield Leaf((*bgp, Elem("session-state")), port, _session(is_up, "ESTABLISHED", "ACTIVE"))

    def _setting(self, port: str, setting: Setting) -> Callable[[Any], Value]:
        configuration, where = self._world.configuration, Port(self.device, port)
        return lambda at_ns: configuration.value(where, setting, at_ns)

    def _software(self, at_ns: int) -> str:
        return self._world.version(self.device, SOFTWARE, at_ns)

    def matching_leaves(self, query: Elems) -> list[Leaf]:
        """Return the leaves at or below a path, which may contain wildcards."""
        return [leaf for leaf in self.leaves if matches(query, leaf.elems)]

    def has(self, query: Elems) -> bool:
        """Return True if the path is in the model, regardless of its keys."""
        bare = tuple(Elem(step.name) for step in query)
        return any(matches(bare, leaf.elems) for leaf in self.leaves)

    def clock_ns(self, at_ns: int) -> int:
        """Return the time by the clock of the device, which is the timestamp of its messages."""
        return self._world.clock_ns(self.device, at_ns)

    def values(self, leaves: Iterable[Leaf], at_ns: int) -> list[tuple[Leaf, Value | Identity]]:
        """Return the values of leaves at a moment; the state of each port is computed once."""
        states: dict[str, PortState] = {}
        values = []
        for leaf in leaves:
            if leaf.port and leaf.elems[0].name == "interfaces" and leaf.setting is None:
                if leaf.port not in states:
                    states[leaf.port] = self._world.port(self.device, leaf.port, at_ns)
                values.append((leaf, leaf.read(states[leaf.port])))
            else:
                values.append((leaf, leaf.read(at_ns)))
        return values


def matches(query: Sequence[Elem], elems: Sequence[Elem]) -> bool:
    """Return True if a path is a prefix of these elements; `*` matches a name or key, `...` any number of elements."""
    for i, step in enumerate(query):
        if step.name == "...":
            return any(matches(query[i + 1 :], elems[j:]) for j in range(i, len(elems) + 1))
        if i >= len(elems) or (step.name not in _ANY and step.name != elems[i].name):
            return False
        if any(value != "*" and elems[i].key(key) != value for key, value in step.keys):
            return False
    return True


def _session(is_up: Callable[[int], bool], up: str, down: str) -> Callable[[Any], Value]:
    return lambda at_ns: up if is_up(at_ns) else down


def _constant(value: Value | Identity) -> Callable[[Any], Value | Identity]:
    return lambda _: value


def _rfc3339(at_ns: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at_ns / 1e9, UTC).isoformat().replace("+00:00", "Z")


ENCODINGS = (gnmi_pb2.JSON, gnmi_pb2.JSON_IETF, gnmi_pb2.PROTO)
_SPLIT = 2
"""Notifications are grouped by the first two path elements: an interface, the chassis, the system."""

LeafValue = tuple[Leaf, Value | Identity]
Tree = dict[str, "Tree | list[Tree] | Value"]


def notifications(
    values: Iterable[LeafValue], at_ns: int, encoding: int, prefix: gnmi_pb2.Path, *, blob_depth: int | None = None
) -> list[gnmi_pb2.Notification]:
    """Return one notification for each interface or other subtree, with the target and origin of the request's prefix.

    With `blob_depth`, for JSON, everything below that many path elements is one JSON value, as in a Get response.
    """
    out = []
    for whole, group in groupby(values, key=lambda pair: pair[0].elems[:_SPLIT]):
        base = whole[:blob_depth]
        notification = gnmi_pb2.Notification(
            timestamp=at_ns, prefix=to_message(base, origin=prefix.origin, target=prefix.target)
        )
        if blob_depth is None:
            for leaf, value in group:
                update = notification.update.add(path=to_message(leaf.elems[len(base) :]))
                _set(update.val, _plain(value, encoding), encoding)
        else:
            _add_blobs(notification, group, len(base), blob_depth, encoding)
        out.append(notification)
    return out


def _add_blobs(
    notification: gnmi_pb2.Notification, values: Iterable[LeafValue], base: int, depth: int, encoding: int
) -> None:
    for at, group in groupby(values, key=lambda pair: pair[0].elems[:depth]):
        update = notification.update.add(path=to_message(at[base:]))
        pairs = [(leaf.elems[depth:], _plain(value, encoding)) for leaf, value in group]
        whole = pairs[0][1] if len(pairs) == 1 and not pairs[0][0] else _tree(pairs)
        _set(update.val, whole, encoding)


def _tree(pairs: Iterable[tuple[Elems, Value]]) -> Tree:
    root: Tree = {}
    for elems, value in pairs:
        place = root
        for step in elems[:-1]:
            place = _enter(place, step)
        place[elems[-1].name] = value
    return root


def _enter(place: Tree, step: Elem) -> Tree:
    if not step.keys:
        inner = place.setdefault(step.name, {})
        assert isinstance(inner, dict)
        return inner
    entries = place.setdefault(step.name, [])
    assert isinstance(entries, list)
    for entry in entries:
        if all(entry.get(key) == value for key, value in step.keys):
            return entry
    entries.append(dict(step.keys))
    return entries[-1]


def _plain(value: Value | Identity, encoding: int) -> Value:
    """Return a value for an encoding; by RFC 7951, 64-bit integers are strings and identities have their module."""
    if isinstance(value, Identity):
        return f"{value.module}:{value.name}" if encoding == gnmi_pb2.JSON_IETF else value.name
    if encoding == gnmi_pb2.JSON_IETF and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value


def _set(typed: gnmi_pb2.TypedValue, value: Tree | Value, encoding: int) -> None:
    if encoding == gnmi_pb2.JSON:
        typed.json_val = orjson.dumps(value)
    elif encoding == gnmi_pb2.JSON_IETF:
        typed.json_ietf_val = orjson.dumps(value)
    elif isinstance(value, tuple):
        typed.leaflist_val.SetInParent()
        for element in value:
            typed.leaflist_val.element.add(string_val=element)
    elif isinstance(value, bool):
        typed.bool_val = value
    elif isinstance(value, int):
        typed.uint_val = value
    else:
        assert isinstance(value, str)
        typed.string_val = value
