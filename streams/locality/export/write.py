"""Selects the format of an export and returns its text."""

from collections.abc import Collection
from typing import Literal, get_args

import orjson

from streams.locality.export import kubernetes, plain, slurm
from streams.locality.export.slurm import Plugin
from streams.locality.export.tree import tree_of
from streams.locality.fabric_state import FabricState
from streams.locality.params import LocalityParams

__all__ = ["FORMATS", "Format", "Plugin", "export_text"]

Format = Literal["slurm", "slurm-yaml", "kubernetes", "json"]
FORMATS: tuple[Format, ...] = get_args(Format)


def export_text(
    state: FabricState, form: Format, plugin: Plugin, params: LocalityParams, nodes: Collection[str] | None = None
) -> tuple[str, tuple[str, ...]]:
    """Return the text, and the hosts that it lacks because they have no leaf; raises Misconfigured if it is not valid.

    `nodes` limits the export to these hosts.
    """
    tree = tree_of(state.groups, nodes)
    match form:
        case "slurm":
            text = slurm.topology_conf(tree, plugin)
        case "slurm-yaml":
            text = slurm.topology_yaml(tree, plugin)
        case "kubernetes":
            items = list(kubernetes.documents(tree, params.labels, params.kueue_topology))
            text = _json({"apiVersion": "v1", "kind": "List", "items": items})
        case "json":
            text = _json(plain.document(tree, state))
    return text, tree.without_leaf


def _json(value: object) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()
