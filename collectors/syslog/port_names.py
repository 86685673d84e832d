"""Finds the port that a line names: vendors abbreviate names, and name modules by the numbers of their port. Pure."""

import re
from collections.abc import Iterable, Mapping

_A = re.ASCII
_NUMBERS = re.compile(r"\d[\d/:._]*\Z", _A)
_ADDRESS = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}|[0-9A-Fa-f:]*::?[0-9A-Fa-f:.]+", _A)
_SUB_INTERFACE = re.compile(r"(?<=\d)\.\d{1,9}\Z", _A)
_OTHERS = re.compile(
    r"(?:vlan|port-?channel|po(?=\d)|bundle|be(?=\d)|ae(?=\d)|lag|bond|loopback|lo(?=\d|\Z)|null|tunnel|tu(?=\d)|bvi|irb|nve"
    r"|vxlan|vl(?=\d)|mgmt|management|ma(?=\d)|em\d|fxp|me(?=\d)|eth\d+\Z|docker|bridge|system)",
    _A | re.IGNORECASE,
)
_MODULES = frozenset({"", "optics", "sfp", "xcvr", "transceiver", "port"})
_MOST = 1024
"""Limit of remembered names of one device."""


def is_address(name: str) -> bool:
    """Return whether a name is an IP address, as that of a BGP neighbor."""
    return _ADDRESS.fullmatch(name) is not None


def port_of(name: str) -> str:
    """Return the port of a sub-interface, `et-0/0/0` of `et-0/0/0.100`; another name is returned as it is."""
    return name if is_address(name) else _SUB_INTERFACE.sub("", name)


def is_other(name: str) -> bool:
    """Return whether a name is of a logical or management interface."""
    return _OTHERS.match(name) is not None


class PortNames:
    """The port names of one device; `known` maps names and aliases of the inventory to ports."""

    def __init__(self, known: Mapping[str, str] | None = None) -> None:
        self._known = dict(known or {})
        self._learns = not self._known
        self._found: dict[str, str] = {}

    def learn(self, name: str) -> None:
        """Add a port that a line about a link names in full, unless the inventory has the device's ports."""
        if self._learns and len(self._known) < _MOST and name not in self._known:
            self._known[name] = name
            self._found.clear()

    def resolve(self, name: str) -> str:
        """Return the only port with these numbers whose kind fits; the name itself if there is none."""
        if name in self._known:
            return self._known[name]
        if name not in self._found:
            if len(self._found) >= _MOST:
                self._found.clear()
            self._found[name] = self._find(name)
        return self._found[name]

    def _find(self, name: str) -> str:
        own, numbers = _split(name)
        if not numbers:
            return name
        found = {port for known, port in self._known.items() if _fits(_split(known), own, numbers)}
        return found.pop() if len(found) == 1 else name


def _fits(known: tuple[str, str], kind: str, numbers: str) -> bool:
    if known[1] != numbers:
        return False
    return kind in _MODULES or known[0].startswith(kind) or (bool(known[0]) and kind.startswith(known[0]))


def _split(name: str) -> tuple[str, str]:
    """Return the kind in lower case and the numbers of a name: `et` and `0/0/6` of `et-0/0/6`."""
    found = _NUMBERS.search(name)
    if found is None:
        return name.lower(), ""
    return name[: found.start()].rstrip("- ").lower(), found[0]


def known_ports(ends: Iterable[tuple[str, str]], aliases: Iterable[tuple[str, str, str]]) -> dict[str, dict[str, str]]:
    """Return the names of ports by device, from (device, port) and (device, port, alias)."""
    names: dict[str, dict[str, str]] = {}
    for device, port, alias in aliases:
        names.setdefault(device, {})[alias] = port
    for device, port in ends:
        names.setdefault(device, {})[port] = port
    return names
