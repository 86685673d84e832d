"""Builds the tree of host groups that all exports write, with one root per part of the fabric, and checks it.

A leaf of the tree is a unit, because a scheduler's node belongs to one leaf; rails and planes are below that. Only
hosts of the inventory are nodes.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from streams.locality.groups import Groups, Level, natural_key
from streams.wire.errors import Misconfigured

_PLAIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class Vertex:
    """A group: a unit with `hosts`, or a group with the groups below it; `level` is 0 for units."""

    name: str
    level: int
    hosts: tuple[str, ...] = ()
    children: tuple["Vertex", ...] = field(default=())

    def units(self) -> Iterator["Vertex"]:
        """Yield the units below, or this group if it is a unit."""
        if not self.level:
            yield self
        for child in self.children:
            yield from child.units()

    def vertices(self) -> Iterator["Vertex"]:
        """Yield this group and all groups below it, parents first."""
        yield self
        for child in self.children:
            yield from child.vertices()


@dataclass(frozen=True, slots=True)
class Domain:
    """An NVLink domain: its hosts that are exported, in natural order, and the number of hosts in the inventory."""

    name: str
    hosts: tuple[str, ...]
    planned: int


@dataclass(frozen=True, slots=True)
class Tree:
    """The roots, and the hosts that no export can place, because they have no link to a leaf."""

    tiers: tuple[str, ...]
    """The tier that connects the groups of each level; the units' level is the first."""
    roots: tuple[Vertex, ...]
    without_leaf: tuple[str, ...]
    domains: tuple[Domain, ...] = ()
    """All NVLink domains in the order of the inventory, also those without an exported host."""
    without_domain: tuple[str, ...] = ()
    """Hosts without a domain, if others have one."""

    def vertices(self) -> Iterator[Vertex]:
        """Yield every group, parents first."""
        for root in self.roots:
            yield from root.vertices()

    def units(self) -> Iterator[Vertex]:
        """Yield every unit."""
        for root in self.roots:
            yield from root.units()


def tree_of(groups: Groups, nodes: Collection[str] | None = None) -> Tree:
    """Return the tree of all hosts, or of `nodes`; raises Misconfigured for a node outside of the inventory."""
    names = groups.graph.names
    hosts = {names[host] for host in groups.hosts.tolist()}
    if nodes is not None and (unknown := sorted(set(nodes) - hosts, key=natural_key)):
        more = f" and {len(unknown) - 8} more" if len(unknown) > 8 else ""
        raise Misconfigured(
            f"no host of the inventory: {', '.join(unknown[:8])}{more}; add them to the inventory, or leave them out"
        )
    wanted = hosts if nodes is None else set(nodes)
    without = tuple(sorted((names[h] for h, leaves in groups.leaves.items() if not leaves and names[h] in wanted),
                           key=natural_key))  # fmt: skip
    levels, domains = groups.levels(), _domains(groups, wanted)
    apart = wanted.difference(*(domain.hosts for domain in domains)) if domains else ()
    tree = Tree(
        tuple(level.tier for level in levels), tuple(_roots(groups, levels, wanted)), without, domains,
        tuple(sorted(apart, key=natural_key)),
    )  # fmt: skip
    if problems := problems_of(tree, wanted):
        raise Misconfigured("\n".join(problems))
    return tree


def _domains(groups: Groups, wanted: Collection[str]) -> tuple[Domain, ...]:
    names, domains = groups.graph.names, groups.domains
    hosts = ([name for host in members.tolist() if (name := names[host]) in wanted] for members in domains.members)
    return tuple(
        Domain(name, tuple(sorted(own, key=natural_key)), len(members))
        for name, members, own in zip(domains.names, domains.members, hosts, strict=True)
    )


def _roots(groups: Groups, levels: tuple[Level, ...], wanted: Collection[str]) -> list[Vertex]:
    names = groups.graph.names
    below: dict[int, list[Vertex]] = {}
    vertices: list[Vertex] = []
    for number, level in enumerate(levels):
        parents: dict[int, list[Vertex]] = {}
        vertices = []
        for group, name in enumerate(level.names):
            if number:
                children = tuple(sorted(below.get(group, ()), key=lambda vertex: natural_key(vertex.name)))
                vertex = Vertex(f"{name}", number, (), children)
            else:
                members = (names[host] for host in level.members[group].tolist())
                vertex = Vertex(name, 0, tuple(sorted((n for n in members if n in wanted), key=natural_key)))
            if not (vertex.hosts or vertex.children):
                continue
            vertices.append(vertex)
            if number + 1 < len(levels):
                first = int(level.members[group][0])
                parents.setdefault(int(levels[number + 1].group[first]), []).append(vertex)
        below = parents
    return sorted(vertices, key=lambda vertex: natural_key(vertex.name))


def problems_of(tree: Tree, wanted: Collection[str]) -> list[str]:
    """Return the errors that a scheduler would refuse or misread: names, hosts in two units, missing hosts."""
    problems = []
    seen_groups: set[str] = set()
    seen_hosts: dict[str, str] = {}
    for vertex in tree.vertices():
        if vertex.name in seen_groups:
            problems.append(f"two groups are called {vertex.name}")
        seen_groups.add(vertex.name)
        problems += [
            f"{name!r} is no name for a scheduler: letters, digits, and - _ . between them"
            for name in (vertex.name, *vertex.hosts)
            if not _PLAIN.fullmatch(name)
        ]
        for host in vertex.hosts:
            if host in seen_hosts:
                problems.append(f"{host} is in the units {seen_hosts[host]} and {vertex.name}")
            seen_hosts[host] = vertex.name
    problems += [
        f"{domain.name!r} is no name for a scheduler: letters, digits, and - _ . between them"
        for domain in tree.domains
        if not _PLAIN.fullmatch(domain.name)
    ]
    if lost := set(wanted) - set(seen_hosts) - set(tree.without_leaf):
        problems.append(f"{len(lost)} hosts are in no unit: {', '.join(sorted(lost)[:8])}")
    return problems
