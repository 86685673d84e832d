"""Decides which device a connection is, by its client certificate or its address. Pure.

The name that a device gives itself selects only between devices that its connection may be: a relay, or several behind
one address. Any other is refused.
"""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import unquote

from collectors.dialout.params import Target


class Peer(NamedTuple):
    """The other end of a connection: its address, and the names in its client certificate."""

    address: str
    names: frozenset[str]


def peer_of(address: str, authentication: Mapping[str, Iterable[bytes]]) -> Peer:
    """Return the peer of gRPC's `ipv4:192.0.2.1:5000` or `ipv6:%5B::1%5D:5000`, and of its authentication context."""
    host = unquote(address).partition(":")[2].rpartition(":")[0].strip("[]")
    try:
        found = ipaddress.ip_address(host)
        host = str(getattr(found, "ipv4_mapped", None) or found)
    except ValueError:
        host = ""
    names = (
        name.decode(errors="replace")
        for kind in ("x509_common_name", "x509_subject_alternative_name")
        for name in authentication.get(kind, ())
    )
    return Peer(host, frozenset(names))


def candidates(targets: Iterable[Target], peer: Peer, *, by_certificate: bool) -> tuple[Target, ...]:
    """Return the devices that a connection may be: none for an unknown one."""
    return tuple(
        target
        for target in targets
        if (not by_certificate or target.certificate_name in peer.names)
        and (peer.address in target.addresses or (by_certificate and not target.addresses))
    )


def named(possible: Sequence[Target], node: str) -> Target | None:
    """Return the device that gives itself this name; without a name, the only one that it may be."""
    if not node:
        return possible[0] if len(possible) == 1 else None
    return next((target for target in possible if target.node_name == node), None)
