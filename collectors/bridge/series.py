"""Finds the device, port and metrics of a series, once per series; later uses are lookups. Pure.

gnmic's names and Telegraf's tags become paths with keys, whose leaves are in the gNMI profiles. gnmic sends complete
paths. Telegraf sends the path below the subscription, which its tag `path` names unless the site removes the tag. Then
a leaf of a port is found by the end of its path alone, if that is unambiguous. Caches are bounded.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import NamedTuple

from collectors.bridge import tables, values
from collectors.bridge.tables import Kind, Signal
from collectors.core.columns import unquoted
from collectors.gnmi import values as gnmi_values
from collectors.gnmi.path_mapping import Kind as LeafKind
from collectors.gnmi.path_mapping import Rule, leaf_of, path_mapping, spelled
from collectors.gnmi.paths import bare

LONGEST_NAME = 256


class Input(StrEnum):
    """The program that read the device: gnmic, or one of Telegraf's inputs."""

    GNMIC = "gnmic"
    GNMI = "gnmi"
    SNMP = "snmp"
    INFINIBAND = "infiniband"
    ETHTOOL = "ethtool"


_DEVICE_TAGS = {
    Input.GNMIC: ("source", "meta_source", "target"),
    Input.GNMI: ("source", "meta_source", "target"),
    Input.SNMP: ("source", "sysName", "hostname", "agent_host"),  # `host` is Telegraf's own host, never the device
    Input.INFINIBAND: ("host",),
    Input.ETHTOOL: ("host",),
}
"""The tags that name the device, best first."""
_ROW_TAGS = {Input.SNMP: ("ifName", "ifDescr", "ifIndex", "index"), Input.ETHTOOL: ("interface",)}
"""The tags that name the port, best first; for gNMI they depend on the path."""
_FIRST_PORT = "1"
"""A device's first port is named by the device alone, as is usual for a device with one port."""
_PORT_OF_ADDRESS = re.compile(r"^(\[[^\]]+\]|[^:]+):\d{1,5}$")

Names = tuple[str, ...]
"""The names of a path's steps, without keys."""
Tags = Mapping[str, str]

_MOST_FIELDS = 20_000
"""Limit per kind of series."""
_LIST_ITEM = re.compile(r"\.\d+$")
_ORIGIN = re.compile(r"^[^/\[]*:(?=/)")
_KEYS = re.compile(r"\[[^\[\]]*\]")
"""Without an opening bracket inside: a text of opening brackets is searched in linear time."""
_PORTS_MEASUREMENT = re.compile(r"if|interface|port|eth", re.IGNORECASE)
_PORT: Names = ("interfaces", "interface")
_PORT_TAGS = ("interface_name", "interface_interface-id", "interface_interface_id", "interface-id", "interface_id",
              "interface", "name")  # fmt: skip
"""The tags that name a port, best first, if a site has renamed the tag of the port's key."""
_NO_PORT = frozenset({"subinterface_index", "neighbor_address", "neighbor_neighbor-address", "identifier"})
"""Tags of an object inside a port or outside any port, for values without a path."""
_INSIDE_PORT = frozenset({"subinterface_index", "index"})
"""Tags of an object inside a port, for values whose path ends at the port."""
_NEEDS_PATH = frozenset({"oper-status", "admin-status", "name"})
"""Leaves that many models have: without a path they belong to a port only if the measurement is named after ports."""
_READERS: dict[object, values.Reader] = {
    gnmi_values.number: values.gauge, gnmi_values.oper_up: values.oper_up, gnmi_values.admin_up: values.admin_up,
    gnmi_values.port_speed: values.port_speed,
}  # fmt: skip
"""Readers that accept more than the collector's own readers do, because Telegraf's processors convert values."""
_KINDS = {LeafKind.BOOT_TIME: Kind.BOOT_TIME, LeafKind.NAME: Kind.NAME}


def scope_of(field: str) -> str:
    """Return the beginning of a field up to its list item, which its neighbors share: `/interfaces/interface.3`."""
    found = re.match(r"(.*?/?interface\.\d+)/", field)
    return found[1] if found else ""


def _steps(path: str) -> Names:
    """Return the steps of a path, without origin, modules and keys."""
    return tuple(bare(step) for step in _KEYS.sub("", _ORIGIN.sub("", path)).split("/") if step)


class _Line(NamedTuple):
    """One line of a profile, and the tags that have its keys; a placeholder without a tag has its value."""

    rule: Rule
    literals: tuple[tuple[str, str], ...]
    row_tag: str
    row: str
    lane_tag: str
    lane: str


class SeriesKind:
    """All series with the same measurement, path and tag names: their fields map to the same lines of profiles."""

    def __init__(self, measurement: str, path: str, tags: tuple[str, ...], *, is_gnmic: bool) -> None:
        self._measurement = measurement
        self._above = _steps(path)
        self._spell = str if is_gnmic else spelled
        self._tags = {self._spell(tag): tag for tag in tags}
        self._own = frozenset(tags)
        self._is_gnmic = is_gnmic
        self._lines: dict[str, list[_Line]] = {}

    def knows(self, field: str) -> bool:
        """Return True if a field was looked up before."""
        return field in self._lines

    def signal(self, field: str, tags: Tags) -> tuple[Signal | None, str] | None:
        """Return the signal of a field, and its port; None if no profile has such a path.

        The signal is None if the profile does not collect this entry of a list, such as a queue without a number.
        """
        lines = self._lines.get(field)
        if lines is None:
            if len(self._lines) >= _MOST_FIELDS:
                self._lines.clear()
            names = self._names(field)
            lines = self._lines[field] = [self._line(*found, names) for found in path_mapping().named(names)]
        if not lines:
            return None
        for line in lines:
            if all(tags.get(tag) == value for tag, value in line.literals):
                row = unquoted(tags.get(line.row_tag, line.row))
                return _signal(line.rule, tags.get(line.lane_tag, line.lane)), row
        return None, ""

    def _line(self, rule: Rule, found: dict[str, str], names: Names) -> _Line:
        def tag_of(placeholder: str) -> str:
            step, key = rule.positions.get(placeholder, (0, ""))
            return self._tag(rule, names, step, key) if key else ""

        row_tag, lane_tag = tag_of("row"), tag_of("lane")
        if not row_tag and "row" in rule.positions and names[rule.positions["row"].step] == "interface":
            row_tag = next((tag for tag in _PORT_TAGS if tag in self._own and tag != lane_tag), "")
        literals = tuple((self._tag(rule, names, step, key), value) for step, key, value in rule.literals)
        return _Line(rule, literals, row_tag, found.get("row", ""), lane_tag, found.get("lane", ""))

    def _tag(self, rule: Rule, names: Names, step: int, key: str) -> str:
        """Return the tag of a step's key, empty if there is none.

        gnmic writes `<element>_<key>`; Telegraf does so if configured to, with underscores for hyphens. By default
        Telegraf writes the key alone for the first list of the path that has such a key. For other lists the path
        precedes the key in the tag.
        """
        above = "".join(f"/{name}" for name in names[: step + 1])
        named = (self._spell(f"{names[step]}_{key}"), self._spell(f"{above}/{key}"))
        alone = () if any(other == key for at, other in rule.keys if at < step) else (self._spell(key),)
        return next((self._tags[tag] for tag in (*named, *alone) if tag in self._tags), "")

    def _names(self, field: str) -> Names:
        """Return the complete path of a field if a profile has it; else empty."""
        steps = _steps(field)
        if self._is_gnmic:
            return _known(steps) or self._trimmed(field, steps)
        if field.startswith("/"):
            return _known(steps)
        if found := _known((*self._above, *steps)):
            return found
        if self._above:
            return self._between(self._above, steps, _INSIDE_PORT & self._own)
        if not steps or _NO_PORT & self._own:
            return ()
        is_of_ports = _PORTS_MEASUREMENT.search(self._measurement) is not None
        if len(steps) == 1 and spelled(steps[0]) in _NEEDS_PATH and not is_of_ports:
            return ()
        if steps == ("name",):
            return (*_PORT, "name")
        found = self._between(_PORT, steps) or self._between(_PORT, (*_steps(self._measurement), *steps))
        return found or self._trimmed(field, steps)

    def _trimmed(self, field: str, steps: Names) -> Names:
        """Return the path of a port's value whose name a processor of gnmic or Telegraf has trimmed or joined."""
        if not steps or not self._own.intersection(_PORT_TAGS) or _NO_PORT & self._own:
            return ()
        if (joined := _joined().get(_joined_name(field.strip("/")))) is not None:
            return joined
        steps = tuple(step.lower() for step in steps)
        end = steps[1:] if steps[0] == "interface" else steps
        if len(end) == 1 and spelled(end[0]) in _NEEDS_PATH and not _PORTS_MEASUREMENT.search(self._measurement):
            return ()
        return self._between(_PORT, end)

    def _between(self, above: Names, end: Names, inside: frozenset[str] = frozenset()) -> Names:
        """Return the path that begins and ends with these steps; empty if the leaves of several metrics match.

        Telegraf's `trim_field_names` and `path_guessing_strategy` leave out the steps between. If several paths match,
        the ones with the most keys among the tags are used. `inside` has the tags of an object inside a port, such as a
        subinterface, whose leaves have the same names as the port's.
        """
        found: dict[int, dict[object, Names]] = defaultdict(dict)
        last = spelled(end[-1]) if end else ""
        for rule in path_mapping().rules:
            if last and isinstance(rule.names[-1], str) and rule.names[-1] != last:
                continue
            missing = rule.names[len(above) : len(rule.names) - len(end)]
            middle = tuple(name for name in missing if isinstance(name, str))
            path = (*above, *middle, *end)
            if len(path) != len(rule.names) or len(middle) != len(missing) or rule.placeholders(path) is None:
                continue
            if path[: len(_PORT)] == _PORT and inside and "index" not in {key for _, key in rule.keys}:
                continue
            mapping, lane = rule.mapping, rule.positions.get("lane")
            if lane is not None and lane.key and not self._tag(rule, path, *lane):
                continue
            if mapping.metric or mapping.is_ == "boot-time":
                found[len(rule.keys)].setdefault(mapping.metric or mapping.is_, path)
        best = found[max(found)] if found else {}
        return next(iter(best.values())) if len(best) == 1 else ()


@lru_cache(maxsize=1)
def _joined() -> Mapping[str, Names]:
    """Return the complete paths of ports by their last two steps or more, joined; those of one metric only."""
    found: dict[str, dict[object, Names]] = defaultdict(dict)
    for rule in path_mapping().rules:
        names = tuple(name for name in rule.names if isinstance(name, str))
        lane, mapping = rule.positions.get("lane"), rule.mapping
        if len(names) < len(rule.names) or names[: len(_PORT)] != _PORT or (lane is not None and lane.key):
            continue
        for first in range(len(names) - 1):
            found[_joined_name("_".join(names[first:]))].setdefault(mapping.metric or mapping.is_, names)
    return {name: next(iter(paths.values())) for name, paths in found.items() if len(paths) == 1}


def _joined_name(field: str) -> str:
    """Return a name in lower case whose steps are joined with hyphens, whatever joined them."""
    return spelled(re.sub(r"[/.]", "-", field.lower()))


@lru_cache(maxsize=4096)
def series_kind(measurement: str, path: str, tags: tuple[str, ...], *, is_gnmic: bool) -> SeriesKind:
    """Return the kind of a series by its measurement, its tag `path` and the names of its tags."""
    return SeriesKind(measurement, path, tags, is_gnmic=is_gnmic)


@lru_cache(maxsize=65536)
def _signal(rule: Rule, lane: str) -> Signal | None:
    found = leaf_of(rule, {"lane": lane} if "lane" in rule.positions else {})
    if found is None or found.metric is None:
        return Signal(_KINDS[found.kind]) if found is not None and found.kind in _KINDS else None
    if found.kind is LeafKind.COUNTER:
        read = values.counter if found.scale == 1 else values.times(found.scale)
    else:
        read = _READERS.get(found.read) or values.strict(found.read)
    return Signal(Kind.VALUE, found.metric, read, found.rank, found.index, found.secondary)


def _known(names: Names) -> Names:
    """Return a path that a profile has, without the numbers of list items if the profile has the path without them."""
    without = tuple(_LIST_ITEM.sub("", name) for name in names)
    return next((found for found in (names, without) if any(path_mapping().named(found))), ())


def without_port(device: str) -> str:
    """Return the name or address of a device that gnmic names by the address of its server."""
    return _PORT_OF_ADDRESS.sub(r"\1", device).strip("[]")


def input_of(name: str, tags: Mapping[str, str], inputs: Mapping[str, Input]) -> Input | None:
    """Return the Telegraf input of a metric, None if it is unknown."""
    for pattern, source in inputs.items():
        if fnmatchcase(name, pattern):
            return source
    if "agent_host" in tags:
        return Input.SNMP
    if name.startswith("infiniband") and "device" in tags:
        return Input.INFINIBAND
    if "interface" in tags and ("driver" in tags or name == "ethtool"):
        return Input.ETHTOOL
    return Input.GNMI if "source" in tags else None


class Series:
    """One measurement with its tags: its device, and the targets of its fields.

    `targets` has, for each field, its slot in the device's columns, or a number below 0 (see devices.py).
    """

    __slots__ = ("_kind", "device", "input", "name", "others", "row", "tags", "targets")

    def __init__(self, name: str, tags: Mapping[str, str], source: Input | None, device: str, row: str) -> None:
        self.name = name
        self.tags = tags
        self.input = source
        self.device = device
        self.row = row
        is_gnmic = source is Input.GNMIC
        self._kind = series_kind(name, tags.get("path", ""), tuple(tags), is_gnmic=is_gnmic)
        self.targets: dict[str, int] = {}
        self.others: list[tuple[Signal, str]] = []
        """Fields that are not plain values of a named port: their signals, and the list items that contain them."""

    def knows(self, field: str) -> bool:
        """Return True if the signal of a field takes no search through the profiles."""
        return self.input not in (Input.GNMIC, Input.GNMI) or self._kind.knows(field)

    def signal(self, field: str) -> tuple[Signal | None, str] | None:
        """Return the signal of a field, and its port; None if no series of this kind collects it.

        The signal is None if this series does not collect it, because of the values of its tags.
        """
        found: Signal | None = None
        match self.input:
            case Input.GNMIC | Input.GNMI:
                return self._kind.signal(field, self.tags)
            case Input.SNMP:
                found = tables.SNMP.get(field)
            case Input.INFINIBAND:
                found = tables.INFINIBAND.get(field)
            case Input.ETHTOOL:
                found = tables.ethtool(field)
        return None if found is None else (found, self.row)


def series_of(
    name: str, tags: Mapping[str, str], source: Input | None, device_tag: str, devices: Mapping[str, str]
) -> Series:
    """Return the series; its device is empty if it names none."""
    keys = _DEVICE_TAGS[source] if source is not None else ()
    device = unquoted(next((tags[key] for key in (device_tag, *keys) if tags.get(key)), ""))
    bare = without_port(device)
    device = devices.get(device) or devices.get(bare) or bare
    row = unquoted(_row(tags, source))
    if len(device) > LONGEST_NAME or len(row) > LONGEST_NAME:
        return Series(name, tags, None, "", "")
    return Series(name, tags, source, device if source else "", row)


def _row(tags: Mapping[str, str], source: Input | None) -> str:
    if source is Input.INFINIBAND:
        name, port = tags.get("device", ""), tags.get("port", _FIRST_PORT)
        return name if port == _FIRST_PORT or not name else f"{name}/{port}"
    keys = _ROW_TAGS.get(source, ()) if source is not None else ()
    return next((tags[key] for key in keys if tags.get(key)), "")
