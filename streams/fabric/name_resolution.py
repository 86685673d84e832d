"""Resolves the names that devices report for each other: full host names, MACs, netdevs, RDMA devices.

The names of the inventory take precedence over its aliases: `id`, `serial`, the table of ports. An ambiguous name is
not resolved.
"""

import math
import re
from collections.abc import Collection

from streams.fabric.ids import Port
from streams.fabric.inventory_rows import Job
from streams.fabric.lldp_verdict import Neighbor, NeighborMatch
from streams.fabric.topology import Topology, TopologyLink

_MAC = re.compile(r"(?:[0-9a-f]{2}[:-]?){5}[0-9a-f]{2}|(?:[0-9a-f]{4}\.){2}[0-9a-f]{4}", re.IGNORECASE)
_NUMBERED = re.compile(r"(\D+)(\d{1,6})")
_DIGITS = re.compile(r"\d+")


def named_jobs(topology: Topology, jobs: Collection[Job]) -> tuple[Job, ...]:
    """Return the jobs with the hosts' names of the inventory: schedulers write other cases, and add or omit domains."""
    resolver = NameResolver(topology) if any(job.device not in topology.devices for job in jobs) else None
    if resolver is None:
        return tuple(jobs)
    return tuple(job._replace(device=resolver.resolve_device(job.device) or job.device) for job in jobs)


class NameResolver:
    """The names of one version of the inventory."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._devices: dict[str, str | None] = {}
        for name, device in topology.devices.items():
            for alias in {
                _normalized(name),
                _normalized(name).partition(".")[0],
                _normalized(device.id),
                _normalized(device.serial),
            } - {""}:
                self._devices[alias] = name if self._devices.get(alias, name) == name else None

    def resolve_device(self, name: str) -> str | None:
        """Return the device of a name, or None; ignores a domain that only one of the names has."""
        if name in self._topology.devices:
            return name
        plain = _normalized(name)
        return self._devices[plain] if plain in self._devices else self._devices.get(plain.partition(".")[0])

    def resolve_port(self, device: str, name: str) -> str | None:
        """Return the port of a device with this name if it is the end of a link, else None."""
        known = self._topology.resolve_port(device, name)
        return None if self._topology.link_at(known) is None else known.port

    def match_neighbor(self, link: TopologyLink, far: Port, neighbor: Neighbor) -> tuple[NeighborMatch, Port | None]:
        """Compare the neighbor at an end of a link with the expected port `far`; return the match and the port."""
        device = self.resolve_device(neighbor.remote_device)
        if device is None:
            return NeighborMatch.UNKNOWN_NAME, None
        if device == far.device and (match := self._match_alias(far, neighbor.remote_port)) is not None:
            return match, far if match is NeighborMatch.EXPECTED else None
        port = self.resolve_port(device, neighbor.remote_port)
        if port is not None:
            remote = Port(device, port)
            return (NeighborMatch.EXPECTED if remote == far else NeighborMatch.UNEXPECTED), remote
        if device != far.device or differ_only_in_digits(neighbor.remote_port, far.port):
            return NeighborMatch.UNEXPECTED, None
        # The expected device with another kind of port name matches if a single link leads to the device.
        parallel = sum(c.upper.device == link.upper.device for c in self._topology.uplinks_of[link.lower.device])
        return (NeighborMatch.EXPECTED, far) if parallel == 1 else (NeighborMatch.UNKNOWN_NAME, None)

    def _match_alias(self, far: Port, advertised: str) -> NeighborMatch | None:
        """Compare an advertised alias with a port of a device that numbers its ports by lanes; None if it is no alias.

        SONiC names its ports Ethernet0, Ethernet8, ... and may advertise their aliases: Ethernet1, Ethernet2, ...
        """
        own, other = _NUMBERED.fullmatch(far.port), _NUMBERED.fullmatch(advertised)
        if own is None or other is None or own[1] != other[1] or own[2] == other[2]:
            return None
        ends = (end for link in self._topology.links_of[far.device] for end in (link.lower, link.upper))
        names = (_NUMBERED.fullmatch(end.port) for end in ends if end.device == far.device)
        lanes = math.gcd(*(int(name[2]) for name in names if name is not None and name[1] == own[1]))
        if lanes < 2:
            return None
        if int(own[2]) == (int(other[2]) - 1) * lanes:
            return NeighborMatch.EXPECTED
        return NeighborMatch.UNKNOWN_NAME if int(other[2]) % lanes else None


def differ_only_in_digits(one: str, other: str) -> bool:
    """Return whether two port names differ only in their digits and so name two ports."""
    return _DIGITS.sub("#", one) == _DIGITS.sub("#", other)


def _normalized(name: str) -> str:
    """Normalize a name: ignore case and the separators of a MAC address."""
    plain = name.strip().lower()
    return re.sub("[^0-9a-f]", "", plain) if _MAC.fullmatch(plain) else plain
