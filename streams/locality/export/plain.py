"""Writes the groups as JSON, with what is known against each host, for tools of one's own."""

from typing import Any

from streams.locality.export.tree import Tree, Vertex
from streams.locality.fabric_state import FabricState, Usability


def document(tree: Tree, state: FabricState) -> dict[str, Any]:
    """Return the tiers, the tree and the hosts."""
    graph, groups = state.groups.graph, state.groups
    hosts = {}
    for unit in tree.units():
        for name in unit.hosts:
            number = graph.number[name]
            hosts[name] = {
                "unit": unit.name,
                "pod": groups.topology.pod_of(name),
                "gpus": int(graph.gpus[number]),
                "leaves": [graph.names[leaf] for leaf in groups.leaves[number]],
                "usability": Usability(int(state.usability[number])).name.lower(),
                "ratio": {tier: round(float(state.ratio[place][number]), 4) for place, tier in enumerate(groups.tiers)},
                "reasons": [str(issue) for issue in state.issues(number)],
            }
    return {
        "inventory": groups.topology.digest,
        "tiers": list(tree.tiers),
        "groups": [_plain(root) for root in tree.roots],
        "hosts": hosts,
        "without_leaf": list(tree.without_leaf),
    }


def _plain(vertex: Vertex) -> dict[str, Any]:
    found: dict[str, Any] = {"name": vertex.name, "level": vertex.level}
    if vertex.children:
        found["groups"] = [_plain(child) for child in vertex.children]
    else:
        found["hosts"] = list(vertex.hosts)
    return found
