"""Finds the device, port and metrics of a series: once for each, then by lookup. Pure.

The cache is bounded: past its limits it is cleared and rebuilt.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from fnmatch import fnmatchcase

from collectors.bridge import paths
from collectors.bridge.signals import Signal
from collectors.bridge.tables import openconfig, telegraf_ethtool, telegraf_infiniband, telegraf_snmp
from collectors.core.columns import unquoted

LONGEST_NAME = 256


class Input(StrEnum):
    """The program that read the device: gnmic, or one of Telegraf's inputs."""

    GNMIC = "gnmic"
    GNMI = "gnmi"
    SNMP = "snmp"
    INFINIBAND = "infiniband"
    ETHTOOL = "ethtool"


_GNMI_DEVICE_KEYS = ("source", "meta_source", "target")
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

    __slots__ = ("device", "input", "name", "others", "row", "tags", "targets")

    def __init__(self, name: str, tags: Mapping[str, str], source: Input | None, device: str, row: str) -> None:
        self.name = name
        self.tags = tags
        self.input = source
        self.device = device
        self.row = row
        self.targets: dict[str, int] = {}
        self.others: list[tuple[Signal, str]] = []
        """Fields that are no plain value of a named port: their signals, and the list items that contain them."""

    def signal(self, field: str) -> Signal | None:
        """Return the signal of a field, None if it is not collected."""
        match self.input:
            case Input.GNMIC | Input.GNMI:
                found = paths.leaf(field, self.name, self.tags, has_paths=self.input is Input.GNMIC)
                return None if found is None else self._numbered(found)
            case Input.SNMP:
                return telegraf_snmp.FIELDS.get(field)
            case Input.INFINIBAND:
                return telegraf_infiniband.FIELDS.get(field)
            case Input.ETHTOOL:
                return telegraf_ethtool.signal(field)
        return None

    def _numbered(self, found: Signal) -> Signal | None:
        """Return the signal with its lane or queue; None if its metric requires one that is missing."""
        if found.metric is None or found.metric.index is None:
            return found
        for key in openconfig.LANE_KEYS:
            if key in self.tags and (digits := re.search(r"(\d{1,4})$", self.tags[key])):
                return replace(found, lane=int(digits[1]))
        return None


def series_of(
    name: str, tags: Mapping[str, str], source: Input | None, device_tag: str, devices: Mapping[str, str]
) -> Series:
    """Return the series; its device is empty if it has none."""
    device = unquoted(_device(tags, source, device_tag))
    bare = _PORT_OF_ADDRESS.sub(r"\1", device).strip("[]")
    device = devices.get(device) or devices.get(bare) or bare
    row = unquoted(_row(tags, source))
    if len(device) > LONGEST_NAME or len(row) > LONGEST_NAME:
        return Series(name, tags, None, "", "")
    return Series(name, tags, source, device if source else "", row)


def _device(tags: Mapping[str, str], source: Input | None, device_tag: str) -> str:
    if device_tag and tags.get(device_tag):
        return tags[device_tag]
    keys: tuple[str, ...] = ()
    match source:
        case Input.GNMIC | Input.GNMI:
            keys = _GNMI_DEVICE_KEYS
        case Input.SNMP:
            keys = telegraf_snmp.DEVICE_KEYS
        case Input.INFINIBAND:
            keys = telegraf_infiniband.DEVICE_KEYS
        case Input.ETHTOOL:
            keys = telegraf_ethtool.DEVICE_KEYS
    return next((tags[key] for key in keys if tags.get(key)), "")


def _row(tags: Mapping[str, str], source: Input | None) -> str:
    match source:
        case Input.INFINIBAND:
            name, port = tags.get("device", ""), tags.get("port", telegraf_infiniband.FIRST_PORT)
            return name if port == telegraf_infiniband.FIRST_PORT or not name else f"{name}/{port}"
        case Input.ETHTOOL:
            keys: tuple[str, ...] = telegraf_ethtool.ROW_KEYS
        case Input.SNMP:
            keys = telegraf_snmp.ROW_KEYS
        case _:
            keys = openconfig.ROW_KEYS
    return next((tags[key] for key in keys if tags.get(key)), "")
