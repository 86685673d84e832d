"""Decides which addresses of Kafka and of devices are on this machine, where a login needs no TLS.

A name other than `localhost` is remote: what it resolves to can change. So is an address that cannot be read.
"""

import ipaddress


def is_loopback(address: str) -> bool:
    """Return True if connections to `host`, `host:port` or `[IPv6]:port` stay on this machine."""
    host, colon, _ = address.strip().rpartition(":")
    host = host if colon else address.strip()
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        # Clients read `::1:9092` as an address without a port.
        return False
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def remote_addresses(bootstrap: str) -> tuple[str, ...]:
    """Return those of the comma-separated addresses that are not on loopback."""
    return tuple(address.strip() for address in bootstrap.split(",") if not is_loopback(address))
