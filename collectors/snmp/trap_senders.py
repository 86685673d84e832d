"""Whose address a trap comes from: that of a device which is read here. An address that two have is nobody's."""

from collections.abc import Iterator
from contextlib import contextmanager

from collectors.snmp.device import DeviceReader
from collectors.snmp.octet_text import literal


class TrapSenders:
    """The devices that are read."""

    def __init__(self) -> None:
        self._readers: set[DeviceReader] = set()

    @contextmanager
    def known(self, reader: DeviceReader) -> Iterator[None]:
        """A device is known for as long as it is read."""
        self._readers.add(reader)
        try:
            yield
        finally:
            self._readers.discard(reader)

    def reader(self, address: str) -> DeviceReader | None:
        """The device that has this address."""
        said = literal(address)
        found = [reader for reader in self._readers if reader.address == said]
        return found[0] if len(found) == 1 else None

    def reader_of(self, address: str) -> str | None:
        """Its name."""
        reader = self.reader(address)
        return None if reader is None else reader.name
