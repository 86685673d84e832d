"""Holds the newest states of the ports of one device, as one source reads them."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class SourcePorts:
    """The newest PortStates of one source of a device; `ports` is shared by sources with equal ports."""

    shard: int
    changed_ns: int
    silent_since_ns: int
    first_ns: int
    names: tuple[str, ...]
    ports: Mapping[str, int]
    states: bytes
    since_ns: dict[int, int] = field(default_factory=dict)
    """Index of a port -> its newest transition, where that is after `first_ns`."""


class PortTables:
    """The lists of port names, each once: most devices of a model have equal ones."""

    def __init__(self) -> None:
        self._tables: dict[tuple[str, ...], tuple[tuple[str, ...], dict[str, int]]] = {}

    def shared(self, names: tuple[str, ...]) -> tuple[tuple[str, ...], dict[str, int]]:
        """Return the tuple of these names that all sources share, and the index of each."""
        found = self._tables.get(names)
        if found is None:
            found = self._tables[names] = names, {port: index for index, port in enumerate(names)}
        return found
