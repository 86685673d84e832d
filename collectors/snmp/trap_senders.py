"""Finds the device that a trap's address belongs to; an address of two devices belongs to none."""

from collections.abc import Iterator
from contextlib import contextmanager

from collectors.snmp.device import DeviceReader
from collectors.snmp.engine import Login
from collectors.snmp.octet_text import literal


class TrapSenders:
    """The devices that are read."""

    def __init__(self) -> None:
        self._readers: set[DeviceReader] = set()

    @contextmanager
    def known(self, reader: DeviceReader) -> Iterator[None]:
        """Register a device while it is read."""
        self._readers.add(reader)
        try:
            yield
        finally:
            self._readers.discard(reader)

    def reader(self, address: str) -> DeviceReader | None:
        """Return the reader of the device with this address."""
        wanted = literal(address)
        found = [reader for reader in self._readers if reader.address == wanted]
        return found[0] if len(found) == 1 else None

    def login(self, address: str) -> Login | None:
        """Return the login of the device with this address."""
        reader = self.reader(address)
        return None if reader is None else reader.login

    def reader_of(self, address: str) -> str | None:
        """Return the name of the device with this address."""
        reader = self.reader(address)
        return None if reader is None else reader.name
