"""Holds the newest port states of one device, as read by one source."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class SourcePorts:
    """The newest PortStates of one source of a device; sources with equal ports share `ports`."""

    shard: int
    changed_ns: int
    silent_since_ns: int
    first_ns: int
    names: tuple[str, ...]
    ports: Mapping[str, int]
    states: bytes
    since_ns: dict[int, int] = field(default_factory=dict)
    """Index of a port -> its newest transition, if that is after `first_ns`."""


class PortTables:
    """Lists of port names, each stored once: most devices of a model have equal lists."""

    def __init__(self) -> None:
        self._tables: dict[tuple[str, ...], tuple[tuple[str, ...], dict[str, int]]] = {}

    def shared(self, names: tuple[str, ...]) -> tuple[tuple[str, ...], dict[str, int]]:
        """Return the shared tuple of these names, and the index of each name."""
        found = self._tables.get(names)
        if found is None:
            found = self._tables[names] = names, {port: index for index, port in enumerate(names)}
        return found
