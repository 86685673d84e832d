"""Which paths of one device are known, and where their values go. Pure.

A path is parsed once and then found by its bytes. What is remembered is bounded, whatever a device sends.
"""

from collections.abc import Callable

from collectors.core.columns import Layout, Place
from collectors.gnmi import leaves, paths
from collectors.gnmi.leaves import Kind, Leaf
from collectors.gnmi.paths import Elem, Elems
from streams.wire.errors import Reject

_NO_SLOT = -1
_LIST_KEYS = {
    "interface": "name",
    "component": "name",
    "lane": "lane_number",
    "neighbor": "id",
    "subinterface": "index",
}
"""The key of each list that JSON may hold whole."""
_DEEPEST = 32
_LONGEST_NAME = 256


class Node:
    """One path: its steps, what it is to us, and the slot of its value; `children` are what JSON below it named."""

    __slots__ = ("children", "elems", "leaf", "row", "slot")

    def __init__(self, elems: Elems, leaf: Leaf | None, slot: int) -> None:
        self.elems = elems
        self.leaf = leaf
        self.slot = slot
        self.row = leaf.row if leaf else ""
        self.children: dict[str, Node] = {}


class Slots:
    """Where values are: one slot for each place and rank. `values` holds None where nothing was read."""

    def __init__(self, max_ports: int) -> None:
        self.values: list[float | None] = []
        self.kinds: list[Kind] = []
        self._places: list[tuple[Place, int]] = []
        self._number: dict[tuple[Place, int], int] = {}
        self._rows: set[str] = set()
        self._max_ports = max_ports
        self._layout: tuple[Layout, list[int]] | None = None

    def of(self, place: Place, rank: int, kind: Kind) -> int | None:
        """The slot of a place, new where it has none; None past the bound of ports."""
        found = self._number.get((place, rank))
        if found is not None:
            return found
        if place.row not in self._rows:
            if len(self._rows) >= self._max_ports:
                return None
            self._rows.add(place.row)
        self._number[place, rank] = number = len(self.values)
        self._places.append((place, rank))
        self.values.append(None)
        self.kinds.append(kind)
        self._layout = None
        return number

    def layout(self) -> tuple[Layout, list[int]]:
        """The layout, and the slot of each of its places: of several for one place, the highest in rank."""
        if self._layout is None:
            best: dict[Place, tuple[int, int]] = {}
            for number, (place, rank) in enumerate(self._places):
                if place not in best or rank > best[place][0]:
                    best[place] = (rank, number)
            self._layout = Layout(list(best)), [number for _, number in best.values()]
        return self._layout

    def clear_below(self, elems: Elems, row_of: Callable[[Elems], str | None]) -> None:
        """Nothing is known any more of what a delete covers: an interface, or all."""
        row = row_of(elems)
        for number, (place, _) in enumerate(self._places):
            if row is None or place.row == row:
                self.values[number] = None


class KnownPaths:
    """The paths of one device by their bytes."""

    def __init__(self, slots: Slots, max_paths: int, out_of_bounds: Callable[[], None]) -> None:
        self.slots = slots
        self._max_paths = max_paths
        self._out_of_bounds = out_of_bounds
        self._by_prefix: dict[bytes, dict[bytes, Node]] = {}
        self._by_elems: dict[Elems, Node] = {}
        self._known = 0

    def below(self, prefix: bytes) -> dict[bytes, Node]:
        """The known paths under a prefix; ask `learn` for one that is not there."""
        found = self._by_prefix.get(prefix)
        if found is None:
            self._make_room()
            found = self._by_prefix[prefix] = {}
        return found

    def learn(self, known: dict[bytes, Node], prefix: bytes, path: bytes) -> Node:
        """Parse a path that is new; one that cannot be read is remembered as nothing."""
        try:
            _, elems = paths.from_bytes(prefix, path)
        except Reject:
            elems = ()
        node = self.node(elems)
        self._make_room()
        # `known` may have just been forgotten with the rest; then it serves this one message and is gone.
        known[path] = node
        return node

    def node(self, elems: Elems) -> Node:
        """The node of these steps."""
        found = self._by_elems.get(elems)
        if found is None:
            self._make_room()
            found = self._by_elems[elems] = self._new(elems)
        return found

    def child(self, node: Node, key: str) -> Node:
        """The node of a member of a JSON object."""
        found = node.children.get(key)
        if found is None:
            self._make_room()
            found = node.children[key] = self.node((*node.elems, paths.elem(key)))
        return found

    def entry(self, node: Node, item: dict[str, object]) -> Node:
        """The node of an item of a JSON list, by the key that its list has."""
        step = node.elems[-1]
        wanted = _LIST_KEYS.get(step.name)
        value = next((str(v) for k, v in item.items() if paths.bare(k) == wanted), None)
        if step.keys or value is None:
            return node
        return self.node((*node.elems[:-1], Elem(step.name, ((str(wanted), value),))))

    def _new(self, elems: Elems) -> Node:
        if len(elems) > _DEEPEST or any(len(value) > _LONGEST_NAME for step in elems for _, value in step.keys):
            self._out_of_bounds()
            return Node(elems[:_DEEPEST], None, _NO_SLOT)
        leaf = leaves.leaf(elems)
        if leaf is None or leaf.metric is None or not leaf.row:
            return Node(elems, leaf, _NO_SLOT)
        place = Place(leaf.row, leaf.metric, leaf.index)
        slot = self.slots.of(place, leaves.RANK.get(elems[-1].name, 9), leaf.kind)
        if slot is None:
            self._out_of_bounds()
            return Node(elems, None, _NO_SLOT)
        return Node(elems, leaf, slot)

    def _make_room(self) -> None:
        """Forget every path past the bound: they are parsed again when they come again."""
        self._known += 1
        if self._known > self._max_paths:
            self._known = 0
            self._by_prefix.clear()
            self._by_elems.clear()
            self._out_of_bounds()


def row_of(elems: Elems) -> str | None:
    """The interface that a path is about; None where it is about all of them, "" where about something else."""
    if not elems:
        return ""
    if elems[0].name != "interfaces":
        return ""
    if len(elems) == 1:
        return None
    return elems[1].key("name")
