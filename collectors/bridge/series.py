"""Finds the device, port and metrics of a series: once for each, then by lookup. Pure.

The cache is bounded: past its limits it is cleared and rebuilt.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from fnmatch import fnmatchcase

from collectors.bridge import paths, tables
from collectors.bridge.tables import Signal
from collectors.core.columns import unquoted

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
"""The tags that name the port, best first; of gNMI they depend on the path."""
_FIRST_PORT = "1"
"""A device's first port has the device's name alone, the usual name of a device with one port."""
_PORT_OF_ADDRESS = re.compile(r"^(\[[^\]]+\]|[^:]+):\d{1,5}$")


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
        self._kind = paths.series_kind(name, tags.get("path", ""), tuple(tags), is_gnmic=is_gnmic)
        self.targets: dict[str, int] = {}
        self.others: list[tuple[Signal, str]] = []
        """Fields that are no plain value of a named port: their signals, and the list items that contain them."""

    def signal(self, field: str) -> tuple[Signal | None, str] | None:
        """Return the signal of a field, and its port; None if it is not collected from any series like this.

        The signal is None if it is not collected from this series, because of the values of its tags.
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
    """Return the series; its device is empty if it has none."""
    keys = _DEVICE_TAGS[source] if source is not None else ()
    device = unquoted(next((tags[key] for key in (device_tag, *keys) if tags.get(key)), ""))
    bare = _PORT_OF_ADDRESS.sub(r"\1", device).strip("[]")
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
