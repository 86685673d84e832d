"""Assigns values of an interface whose path lacks its key to the name that arrived in the same message. Pure."""

from collections.abc import Iterator

from collectors.gnmi.path_index import Node, PathIndex
from collectors.gnmi.paths import Elem
from collectors.gnmi.v1 import gnmi_lite_pb2


class UnnamedValues:
    """The values of one message that have no row yet, and the name that it contains."""

    def __init__(self) -> None:
        self.name = ""
        self.values: list[tuple[Node, gnmi_lite_pb2.TypedValue]] = []

    def resolve(self, known: PathIndex) -> Iterator[tuple[Node, gnmi_lite_pb2.TypedValue]]:
        """Yield the values with the nodes of the named port."""
        for node, value in self.values:
            leaf = node.leaf
            assert leaf is not None
            if leaf.row or leaf.row_in is None:
                continue
            step, key = leaf.row_in
            elems = (*node.elems[:step], Elem(node.elems[step].name, ((key, self.name),)), *node.elems[step + 1 :])
            named = known.node(elems)
            if named.slot >= 0:
                yield named, value
