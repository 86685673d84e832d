"""Selects the flows of a host from the inventory: the ToR mesh and the inter-ToR mesh of R-Pingmesh. Pure.

Each rail probes rails on its own leaf, to separate host from network, and rails on other leaves, to probe the fabric.
The selection is fixed by a seed; a share of it rotates each hour. A rail never probes its own host.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from collectors.probe.params import Params
from streams.fabric.ids import Port
from streams.fabric.inventory import Inventory
from streams.fabric.inventory_rows import HOST_LINK, is_address


class Rail(NamedTuple):
    """A port of a host with an address, and the leaf that it is cabled to."""

    port: Port
    address: str
    leaf: str
    plane: int | None


class FlowKey(NamedTuple):
    """One probed 5-tuple; its rails identify the ports of the hosts."""

    rail: Rail
    target: Rail
    source_port: int


@dataclass(frozen=True)
class Rails:
    """All rails of the inventory that have an address."""

    all: tuple[Rail, ...] = ()
    by_host: Mapping[str, Sequence[Rail]] = field(default_factory=dict)
    by_leaf: Mapping[str, Sequence[Rail]] = field(default_factory=dict)
    addresses: frozenset[str] = frozenset()
    """The addresses of all hosts."""


def find_rails(inventory: Inventory) -> Rails:
    """Return the rails of all hosts: host links whose host port has an address, the lowest if it has several."""
    addresses: dict[tuple[str, str], str] = {}
    for name in inventory.ports:
        if is_address(name.alias):
            at = name.device, name.port
            addresses[at] = min(addresses.get(at, name.alias), name.alias)
    hosts = {device.name for device in inventory.devices if device.kind == "host"}
    planes = {device.name: device.plane for device in inventory.devices}
    found: list[Rail] = []
    for link in inventory.links:
        if link.role != HOST_LINK:
            continue
        own, leaf = (link.a, link.z_device) if link.a_device in hosts else (link.z, link.a_device)
        if (address := addresses.get(own)) is not None:
            plane = planes.get(leaf) if link.plane is None else link.plane
            found.append(Rail(own, address, leaf, plane))
    by_host: dict[str, list[Rail]] = defaultdict(list)
    by_leaf: dict[str, list[Rail]] = defaultdict(list)
    for rail in sorted(found):
        by_host[rail.port.device].append(rail)
        by_leaf[rail.leaf].append(rail)
    return Rails(tuple(found), by_host, by_leaf, frozenset(rail.address for rail in found))


def flows_of(rails: Rails, host: str, params: Params, hour: int) -> tuple[FlowKey, ...]:
    """Return the flows of a host in an hour since the epoch."""
    leaves: dict[int | None, list[str]] = defaultdict(list)
    for leaf, own in rails.by_leaf.items():
        leaves[own[0].plane].append(leaf)

    @cache
    def leaf_ring(plane: int | None, generation: int) -> list[str]:
        return sorted(leaves[plane], key=lambda leaf: _rank(params, "leaf", leaf, generation=generation))

    return tuple(
        flow
        for rail in rails.by_host.get(host, ())
        for flow in (*_tor_flows(rails, rail, params, hour), *_fabric_flows(rails, rail, leaf_ring, params, hour))
    )


def _tor_flows(rails: Rails, rail: Rail, params: Params, hour: int) -> Iterable[FlowKey]:
    """Yield flows to the next rails in a ring of the leaf's rails, so that every rail is the target of equally many."""
    for slot in range(params.tor_targets):
        generation = _generation(params, hour, slot)
        ring = sorted(
            rails.by_leaf[rail.leaf], key=lambda one: _rank(params, "rail", *one.port, generation=generation)
        )  # fmt: skip
        start = ring.index(rail)
        others = [one for one in (*ring[start + 1 :], *ring[:start]) if one.port.device != rail.port.device]
        if slot < len(others):
            yield FlowKey(rail, others[slot], params.port + 1 + slot % params.source_ports)


def _fabric_flows(
    rails: Rails, rail: Rail, leaf_ring: Callable[[int | None, int], list[str]], params: Params, hour: int
) -> Iterable[FlowKey]:
    """Yield flows to the other leaves of the plane in turn, each with its own source port."""
    for slot in range(params.fabric_flows):
        generation = _generation(params, hour, params.tor_targets + slot)
        ring = leaf_ring(rail.plane, generation)
        start = ring.index(rail.leaf)
        others = ring[start + 1 :] + ring[:start]
        if not others:
            return
        # Rails of one leaf start at different leaves, so that few flows cover all leaves.
        first = _rank(params, "first", *rail.port, generation=generation)
        on_leaf = rails.by_leaf[others[(first + slot) % len(others)]]
        targets = [one for one in on_leaf if one.port.device != rail.port.device]
        if targets:
            number = _rank(params, "target", *rail.port, str(slot), generation=generation)
            source_port = params.port + 1 + (params.tor_targets + slot) % params.source_ports
            yield FlowKey(rail, targets[number % len(targets)], source_port)


def _generation(params: Params, hour: int, slot: int) -> int:
    """Return a number that changes for a share of the slots each hour."""
    if not params.rotated_per_hour:
        return 0
    period = max(1, round(1 / params.rotated_per_hour))
    return (hour + slot) // period


def _rank(params: Params, *names: str, generation: int) -> int:
    """Return a pseudo-random number that is the same on all hosts."""
    text = "\0".join((str(params.seed), str(generation), *names))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
