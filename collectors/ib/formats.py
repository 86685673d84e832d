"""Parses what the management of an InfiniBand subnet writes: Prometheus text and CSV of UFM Telemetry. Pure.

A format yields one PortReading for each port, with the names and the texts of its values as they are. Names differ by
tool and version (`PortXmitDataExtended`, `port_xmit_data_extended`, `PortXmitDataExt`); `plain` makes them equal. A row
without an identity is left out and counted by the caller.
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from streams.wire.errors import Reject

_SIGN = re.compile(r'([A-Za-z_:][\w:]*)\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\}\s+(\S+)(?:\s+(-?\d+))?\s*\Z', re.ASCII)
_LABEL = re.compile(r'([A-Za-z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"', re.ASCII)
_ESCAPE = re.compile(r"\\(.)")
_GUID = re.compile(r"(?:0x)?([0-9a-f]{1,16})", re.ASCII)
_NODE = ("nodeguid", "source", "sourceid")
_PORT = ("portnum", "portnumber", "port")
_DESCRIPTION = ("nodedescription", "nodedesc", "nodename", "devicename")
_TIME = ("timestamp", "sampletime")
_MOST_COLUMNS = 4096


@dataclass(slots=True)
class PortReading:
    """The values of one port by their plain names. `at_ns` is 0 if the format has no time."""

    node_guid: str
    port: int
    description: str = ""
    port_guid: str = ""
    at_ns: int = 0
    values: dict[str, str] = field(default_factory=dict)


def plain(name: str) -> str:
    """Return a name without case and underscores, and with `Ext` in full."""
    name = name.replace("_", "").replace(" ", "").lower()
    return f"{name}ended" if name.endswith("ext") else name


def guid(text: str) -> str:
    """Return a GUID in 16 digits, for the prefix and the leading zeros differ by tool; empty for no GUID."""
    found = _GUID.fullmatch(text.strip().lower())
    return found[1].zfill(16) if found and int(found[1], 16) else ""


def unix_ns(text: str) -> int:
    """Return a Unix time in ns, given in s, ms, µs or ns, by its magnitude; 0 if there is none."""
    try:
        number = float(text)
    except ValueError:
        return 0
    if not 1e9 <= number < 5e18:
        return 0
    for limit, factor in ((1e11, 10**9), (1e14, 10**6), (1e17, 10**3)):
        if number < limit:
            return round(number * factor) if "." in text else int(number) * factor
    return int(number)


def parse(text: str) -> list[PortReading]:
    """Return the ports of an answer of UFM Telemetry; raises Reject for text of neither format."""
    first = text.lstrip("\ufeff \r\n")[:_MOST_COLUMNS].partition("\n")[0]
    if not first:
        raise Reject("the answer is empty")
    if first.startswith("#") or _SIGN.match(first.rstrip()):
        return list(_prometheus(text))
    if "," in first:
        return list(table(text))
    raise Reject(f"neither Prometheus text nor CSV: {first[:60]!r}")


def _prometheus(text: str) -> Iterator[PortReading]:
    ports: dict[tuple[str, int], PortReading] = {}
    of_labels: dict[str, PortReading | None] = {}
    names: dict[str, str] = {}
    for line in text.splitlines():
        if not line or line[0] == "#" or (found := _SIGN.match(line)) is None:
            continue
        name, labels, value, stamp = found.groups()
        if labels not in of_labels:
            of_labels[labels] = _of_labels(labels, ports)
        if (port := of_labels[labels]) is None:
            continue
        if name not in names:
            names[name] = plain(name)
        port.values[names[name]] = value
        if stamp is not None:
            port.at_ns = max(port.at_ns, unix_ns(stamp))
    yield from ports.values()


def _of_labels(labels: str, ports: dict[tuple[str, int], PortReading]) -> PortReading | None:
    """Return the port of some labels; those of one port differ between its series."""
    own = {plain(name): _ESCAPE.sub(r"\1", value) for name, value in _LABEL.findall(labels)}
    if (port := _identified(own)) is None:
        return None
    known = ports.setdefault((port.node_guid, port.port), port)
    known.description = known.description or port.description
    known.port_guid = known.port_guid or port.port_guid
    return known


def table(text: str, time_ns: int = 0) -> Iterator[PortReading]:
    """Yield the ports of a CSV with a header; `time_ns` is their time if no column has it."""
    rows = csv.reader(io.StringIO(text.lstrip("\ufeff")), skipinitialspace=True)
    header: Sequence[str] = ()
    try:
        for row in rows:
            if not header:
                header = [plain(name) for name in row]
                continue
            if len(row) != len(header):  # an answer that was cut off ends within a row
                continue
            own = dict(zip(header, row, strict=True))
            if (port := _identified(own)) is not None:
                port.at_ns = port.at_ns or time_ns
                port.values = own
                yield port
    except csv.Error as error:
        raise Reject(f"not a CSV: line {rows.line_num}: {error}") from error


def _identified(own: Mapping[str, str]) -> PortReading | None:
    """Return the port that some columns or labels identify; None without a node or a number."""
    node = next((own_guid for name in _NODE if (own_guid := guid(own.get(name, "")))), "")
    number = next((text for name in _PORT if (text := own.get(name, "").strip())), "")
    if not node or not number.isascii() or not number.isdecimal() or len(number) > 4:
        return None
    description = next((text for name in _DESCRIPTION if (text := own.get(name, "").strip().strip('"'))), "")
    at_ns = next((found for name in _TIME if (found := unix_ns(own.get(name, "")))), 0)
    return PortReading(node, int(number), description, guid(own.get("portguid", "")), at_ns)
