"""Publishes the part numbers of the transceivers of a device where its Facts show that they changed."""

from typing import Any
from zlib import crc32

from streams.wire.models import Facts, PortModules, Source
from streams.wire.stage import Output
from streams.wire.topics import PORT_STATES

_KIND = "transceiver"
_MAX_PARTS = 4096
"""Modules of one device that are published; the largest switch has 512 ports."""


class ModuleTracker:
    """The modules of the devices of one partition; only a checksum of them is retained."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, Source], tuple[int, int]] = {}
        """(device, source) -> (time, checksum) of the newest Facts."""
        self.found: list[Output] = []

    def on_facts(self, facts: Facts) -> None:
        """Process the Facts of a device; the port of a module is its alias, or its name if it has none."""
        modules = [
            (part.alias[0] if part.alias else part.name, part.part_number)
            for part in facts.components[:_MAX_PARTS]
            if part.kind == _KIND and part.part_number
        ]
        key, checksum = (facts.device, facts.source), crc32(repr(modules).encode())
        known = self._known.get(key)
        if known is None and not modules:
            return
        if known is not None and (facts.observed_at_ns < known[0] or checksum == known[1]):
            return
        self._known[key] = facts.observed_at_ns, checksum
        ports, parts = zip(*modules, strict=True) if modules else ((), ())
        self.found.append(
            Output(PORT_STATES, PortModules(facts.device, facts.source, facts.observed_at_ns, ports, parts))
        )

    def outputs(self) -> list[Output]:
        """Return what is to be published, once."""
        found, self.found = self.found, []
        return found

    def dump(self) -> list[list[Any]]:
        """Return the state for a snapshot, as JSON holds it."""
        return [[device, int(source), *known] for (device, source), known in self._known.items()]

    def load(self, data: list[list[Any]]) -> None:
        """Restore what `dump` returned."""
        self._known = {(device, Source(source)): (at_ns, checksum) for device, source, at_ns, checksum in data}
