"""Parses the files of ibdiagnet (db_csv, net_dump_ext) and the output of ibnetdiscover. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from collectors.ib.formats import PortReading, guid, parse, plain, table

_A = re.ASCII
_SECTION = re.compile(r"^START_(\w+)\r?\n(.*?)^END_\1\s*$", re.DOTALL | re.MULTILINE | _A)
_DUMP_HEAD = re.compile(r"\s*Ty\s*:\s*#\s*:", _A)
_DUMP = (
    "ty", "label", "portnum", "guid", "lid", "sta", "physsta", "lwa", "lsa", "connlid", "fecmode", "rtr", "rawber",
    "effectiveber", "symbolber", "symbolerr", "effectiveerr", "nodedesc",
)  # fmt: skip
"""The 18 columns of net_dump_ext; the last one has colons itself."""
_NODE = re.compile(r'(?:Switch|Ca)\s+\d+\s+"[SH]-([0-9a-f]{16})"\s*#\s*"([^"]*)"', _A)
_LINK = re.compile(
    r'\[(\d+)\](?:\(([0-9a-f]+)\))?\s+"[SH]-([0-9a-f]{16})"\[(\d+)\](?:\(([0-9a-f]+)\))?\s*#[^"]*"([^"]*)"', _A
)


@dataclass(frozen=True, slots=True)
class Cable:
    """A link of a port, as ibnetdiscover reports it at one end; the readings have no values."""

    near: PortReading
    far: PortReading


@dataclass(slots=True)
class FileContent:
    """The ports of a file, or its links."""

    ports: list[PortReading] = field(default_factory=list)
    cables: list[Cable] = field(default_factory=list)


def parse_file(text: str) -> FileContent:
    """Return the content of a file; raises Reject for a file in no known form."""
    if "START_" in text and (sections := dict(_SECTION.findall(text))):
        return FileContent(ports=list(_db_csv(sections)))
    if any(_DUMP_HEAD.match(line) for line in text.splitlines()[:100]):
        return FileContent(ports=list(_net_dump(text)))
    if cables := list(_cables(text)):
        return FileContent(cables=cables)
    return FileContent(ports=parse(text))


def _db_csv(sections: dict[str, str]) -> Iterator[PortReading]:
    """Yield the ports of PM_INFO, with the values that other sections have of them."""
    nodes: dict[str, tuple[str, str]] = {}
    for values in _rows(sections.get("NODES", "")):
        nodes[guid(values.get("nodeguid", ""))] = values.get("nodedesc", ""), values.get("deviceid", "")
    others: dict[tuple[str, int], dict[str, str]] = {}
    for name in ("CABLE_INFO", "PHY_DB", "PORTS"):
        for port in table(sections.get(name, "")):
            known = {"moduletemperature": port.values["temperature"]} if "temperature" in port.values else {}
            others.setdefault((port.node_guid, port.port), {}).update(port.values | known)
    for port in table(sections.get("PM_INFO", "")):
        description, device_id = nodes.get(port.node_guid, ("", ""))
        port.description = description
        port.values = others.get((port.node_guid, port.port), {}) | {"deviceid": device_id} | port.values
        yield port


def _rows(section: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a section by node; NODES has no ports of its own."""
    lines = section.splitlines()
    header = [plain(name) for name in lines[0].split(",")] if lines else []
    for line in lines[1:]:
        # a description has no comma within its quotes, which names of nodes may not have
        values = [value.strip().strip('"') for value in line.split(",")]
        if len(values) == len(header):
            yield dict(zip(header, values, strict=True))


def _net_dump(text: str) -> Iterator[PortReading]:
    for line in text.splitlines():
        values = [value.strip().strip('"') for value in line.split(":", len(_DUMP) - 1)]
        own = dict(zip(_DUMP, values, strict=False))
        node = guid(own.get("guid", ""))
        if len(values) == len(_DUMP) and node and own["portnum"].isdecimal():
            yield PortReading(node, int(own["portnum"]), own["nodedesc"], values=own)


def _cables(text: str) -> Iterator[Cable]:
    node = description = ""
    for line in text.splitlines():
        if (found := _NODE.match(line)) is not None:
            node, description = found[1], found[2]
        elif node and (link := _LINK.match(line)) is not None:
            number, own_guid, far, far_number, far_guid, far_description = link.groups()
            near = PortReading(guid(node), int(number), description, guid(own_guid or ""))
            yield Cable(near, PortReading(guid(far), int(far_number), far_description, guid(far_guid or "")))
        elif not line.strip():
            node = ""
