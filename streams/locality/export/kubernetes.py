"""Writes Kubernetes' view: labels of nodes as topograph writes them, and a Topology of Kueue with their levels.

One JSON list, as `kubectl apply --server-side -f` reads it. A value over 63 characters, which Kubernetes refuses, is
replaced by `x` and its FNV-1a hash of 64 bits in hexadecimal, as topograph does (pkg/engines/k8s/labeler.go).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from streams.locality.export.tree import Tree, Vertex
from streams.locality.params import LabelKeys
from streams.wire.errors import Misconfigured

MAX_LABEL = 63
HOSTNAME = "kubernetes.io/hostname"
_FNV_OFFSET, _FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3


def label_value(name: str) -> str:
    """Return the value of a label for the name of a group."""
    return name if len(name) <= MAX_LABEL else f"x{fnv1a_64(name):x}"


def fnv1a_64(text: str) -> int:
    """Return the FNV-1a hash of 64 bits, Go's `fnv.New64a`; no library of the lock has it."""
    found = _FNV_OFFSET
    for byte in text.encode():
        found = ((found ^ byte) * _FNV_PRIME) & 0xFFFFFFFFFFFFFFFF
    return found


def node_labels(tree: Tree, keys: LabelKeys) -> dict[str, dict[str, str]]:
    """Return the labels of each host; raises Misconfigured where there are more levels than keys."""
    names = keys.of_levels(len(tree.tiers))
    if len(names) < len(tree.tiers):
        raise Misconfigured(
            f"{len(tree.tiers)} levels and {len(names)} label keys ({', '.join(names)}): use the keys of topograph 1.0,"
            " which have a number"
        )
    found: dict[str, dict[str, str]] = {}
    for root in tree.roots:
        _add_labels(root, {}, names, found)
    return found


def _add_labels(
    vertex: Vertex, above: Mapping[str, str], names: tuple[str, ...], found: dict[str, dict[str, str]]
) -> None:
    labels = {names[vertex.level]: label_value(vertex.name), **above}
    for child in vertex.children:
        _add_labels(child, labels, names, found)
    for host in vertex.hosts:
        found[host] = labels


def kueue_topology(tree: Tree, keys: LabelKeys, name: str) -> dict[str, Any]:
    """Return Kueue's Topology: the levels from the widest to the host."""
    levels = [*reversed(keys.of_levels(len(tree.tiers))), HOSTNAME]
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Topology",
        "metadata": {"name": name},
        "spec": {"levels": [{"nodeLabel": level} for level in levels]},
    }


def documents(tree: Tree, keys: LabelKeys, name: str) -> Iterator[dict[str, Any]]:
    """Yield Kueue's Topology, then a Node with its labels for each host."""
    yield kueue_topology(tree, keys, name)
    for host, labels in node_labels(tree, keys).items():
        yield {"apiVersion": "v1", "kind": "Node", "metadata": {"name": host, "labels": labels}}
