"""Returns the text of an export: Slurm's files, Kubernetes' objects, or JSON for custom tools.

The Kubernetes export has node labels like topograph's, and a Topology of Kueue with their levels, in one JSON list for
`kubectl apply --server-side -f`. A value over 63 characters, which Kubernetes refuses, is replaced by `x` and its
64-bit FNV-1a hash in hexadecimal, as in topograph (pkg/engines/k8s/labeler.go).
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal, get_args

import orjson

from streams.locality.export import slurm
from streams.locality.export.slurm import Plugin
from streams.locality.export.tree import Tree, Vertex, tree_of
from streams.locality.fabric_state import FabricState, Usability
from streams.locality.params import LabelKeys, LocalityParams
from streams.wire.errors import Misconfigured

Format = Literal["slurm", "slurm-yaml", "kubernetes", "json"]
FORMATS: tuple[Format, ...] = get_args(Format)


def export_text(
    state: FabricState, form: Format, plugin: Plugin, params: LocalityParams, nodes: Collection[str] | None = None
) -> tuple[str, tuple[str, ...]]:
    """Return the text, and a note for each lack: of hosts' leaves or domains, and of hosts of a domain.

    Raises Misconfigured if it is invalid.

    `nodes` limits the export to these hosts.
    """
    tree = tree_of(state.groups, nodes)
    match form:
        case "slurm":
            text = slurm.topology_conf(tree, plugin)
        case "slurm-yaml":
            text = slurm.topology_yaml(tree, plugin)
        case "kubernetes":
            items = list(documents(tree, params.labels, params.kueue_topology))
            text = _json({"apiVersion": "v1", "kind": "List", "items": items})
        case "json":
            text = _json(plain_document(tree, state))
    return text, tuple(_notes(tree, has_blocks=form == "slurm-yaml" or (form == "slurm" and plugin == "block")))


def _notes(tree: Tree, *, has_blocks: bool) -> Iterator[str]:
    if tree.without_leaf:
        yield f"without a leaf, left out: {', '.join(tree.without_leaf)}"
    if tree.without_domain and has_blocks:
        yield f"without an NVLink domain, left out of the blocks: {', '.join(tree.without_domain)}"
    base = slurm.block_sizes(tree)[0] if tree.domains else 0
    for domain in tree.domains:
        if has_blocks and (count := len(domain.hosts)) != base:
            yield f"the NVLink domain {domain.name} has {count} of {base} hosts; the block size stays {base}"


def _json(value: object) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()


MAX_LABEL = 63
HOSTNAME = "kubernetes.io/hostname"
DOMAIN_LABEL = "accelerator.topograph.run/domain"
"""The key of topograph 1.0 and later for an NVLink domain."""
_FNV_OFFSET, _FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3


def label_value(name: str) -> str:
    """Return the value of a label for the name of a group."""
    return name if len(name) <= MAX_LABEL else f"x{fnv1a_64(name):x}"


def fnv1a_64(text: str) -> int:
    """Return the 64-bit FNV-1a hash (Go's `fnv.New64a`), which no locked library has."""
    found = _FNV_OFFSET
    for byte in text.encode():
        found = ((found ^ byte) * _FNV_PRIME) & 0xFFFFFFFFFFFFFFFF
    return found


def node_labels(tree: Tree, keys: LabelKeys) -> dict[str, dict[str, str]]:
    """Return the labels of each host; raises Misconfigured if there are more levels than keys."""
    names = keys.of_levels(len(tree.tiers))
    if len(names) < len(tree.tiers):
        raise Misconfigured(
            f"{len(tree.tiers)} levels and {len(names)} label keys ({', '.join(names)}): use the keys of topograph 1.0,"
            " which have a number"
        )
    found: dict[str, dict[str, str]] = {}
    for root in tree.roots:
        _add_labels(root, {}, names, found)
    for domain in tree.domains:
        for host in domain.hosts:
            found[host] = {DOMAIN_LABEL: label_value(domain.name), **found.get(host, {})}
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


def plain_document(tree: Tree, state: FabricState) -> dict[str, Any]:
    """Return the tiers, the tree and the hosts."""
    graph, groups = state.groups.graph, state.groups
    hosts: dict[str, dict[str, Any]] = {}
    domain_of = {host: domain.name for domain in tree.domains for host in domain.hosts}
    for unit in tree.units():
        for name in unit.hosts:
            number = graph.number[name]
            hosts[name] = {
                "unit": unit.name,
                **({"domain": domain_of[name]} if name in domain_of else {}),
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
        "domains": [
            {"domain": domain.name, "planned": domain.planned, "hosts": list(domain.hosts)} for domain in tree.domains
        ],
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
