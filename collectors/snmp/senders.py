"""Whose address a trap comes from: the targets' names, resolved now and then. I/O only."""

import asyncio
import ipaddress
from collections.abc import Mapping

_EVERY_S = 300.0


class Senders:
    """An address that two targets share is nobody's."""

    def __init__(self, hosts: Mapping[str, str]) -> None:
        self._hosts = hosts
        self._whose: dict[str, str | None] = {}
        for device, host in hosts.items():
            if (address := _literal(host)) is not None:
                self._add(address, device)

    def whose(self, address: str) -> str | None:
        """The device that has this address."""
        return self._whose.get(_literal(address) or address)

    def _add(self, address: str, device: str) -> None:
        self._whose[address] = device if self._whose.get(address, device) == device else None

    async def keep(self) -> None:
        """Resolve those that are names, again and again."""
        loop = asyncio.get_running_loop()
        names = {device: host for device, host in self._hosts.items() if _literal(host) is None}
        while names:
            for device, host in names.items():
                try:
                    found = await loop.getaddrinfo(host, None)
                except OSError:
                    continue  # what it was resolved to before holds
                for *_, address in found:
                    self._add(_literal(str(address[0])) or str(address[0]), device)
            await asyncio.sleep(_EVERY_S)


def _literal(host: str) -> str | None:
    """An address in one spelling: an IPv4 address that came over IPv6 is an IPv4 address."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
