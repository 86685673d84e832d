"""Writes Slurm's topology: `topology.conf` of the plugins tree and block, and `topology.yaml` of Slurm 25.05 and later.

A unit is a leaf switch, or a block. The sizes of blocks: the smallest unit, then each level of which all groups have
the same number of units, a power of two, because Slurm joins adjacent blocks by powers of two.
"""

from collections.abc import Iterator
from typing import Any, Literal

from streams.locality.export.hostlist import compressed, expanded
from streams.locality.export.tree import Tree, Vertex
from streams.wire.errors import Misconfigured

Plugin = Literal["tree", "block"]


def topology_conf(tree: Tree, plugin: Plugin) -> str:
    """Return topology.conf; raises Misconfigured if a list of hosts would be read otherwise."""
    lines = _switch_lines(tree) if plugin == "tree" else _block_lines(tree)
    return "".join(f"{line}\n" for line in ("# Written by railsight topology export.", *lines))


def _switch_lines(tree: Tree) -> Iterator[str]:
    for vertex in _from_the_leaves(tree):
        if vertex.level:
            yield f"SwitchName={vertex.name} Switches={_list(child.name for child in vertex.children)}"
        else:
            yield f"SwitchName={vertex.name} Nodes={_list(vertex.hosts)}"


def _block_lines(tree: Tree) -> Iterator[str]:
    for unit in tree.units():
        yield f"BlockName={unit.name} Nodes={_list(unit.hosts)}"
    yield f"BlockSizes={','.join(map(str, block_sizes(tree)))}"


def _from_the_leaves(tree: Tree) -> list[Vertex]:
    return sorted(tree.vertices(), key=lambda vertex: vertex.level)


def _list(names: Any) -> str:
    given = list(names)
    hostlist = compressed(given)
    if sorted(expanded(hostlist)) != sorted(given):
        raise Misconfigured(f"these names do not form a hostlist of Slurm: {', '.join(given[:8])}")
    return hostlist


def block_sizes(tree: Tree) -> list[int]:
    """Return the sizes of blocks in hosts, each a power of two times the first."""
    base = min((len(unit.hosts) for unit in tree.units()), default=1)
    sizes = [base]
    for level in range(1, len(tree.tiers)):
        counts = {sum(1 for _ in vertex.units()) for vertex in tree.vertices() if vertex.level == level}
        count = counts.pop() if len(counts) == 1 else 0
        if count and count & (count - 1) == 0 and base * count > sizes[-1]:
            sizes.append(base * count)
    return sizes


def topology_yaml(tree: Tree, plugin: Plugin) -> str:
    """Return topology.yaml with both topologies, that of `plugin` as the default of the cluster."""
    import yaml

    switches: list[dict[str, str]] = [
        {"switch": vertex.name, "children": _list(child.name for child in vertex.children)}
        if vertex.level
        else {"switch": vertex.name, "nodes": _list(vertex.hosts)}
        for vertex in _from_the_leaves(tree)
    ]
    blocks = [{"block": unit.name, "nodes": _list(unit.hosts)} for unit in tree.units()]
    document = [
        {"topology": "railsight-tree", "cluster_default": plugin == "tree", "tree": {"switches": switches}},
        {
            "topology": "railsight-block",
            "cluster_default": plugin == "block",
            "block": {"block_sizes": block_sizes(tree), "blocks": blocks},
        },
    ]
    return f"# Written by railsight topology export.\n{yaml.safe_dump(document, sort_keys=False, width=1 << 20)}"
