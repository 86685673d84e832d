"""Maps the paths of one device to the slots of their values. Pure.

A path is parsed once and then found by its bytes. The index is bounded, whatever a device sends.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

from collectors.core.columns import CellKey, Layout
from collectors.gnmi import paths
from collectors.gnmi.path_mapping import Kind, Leaf, PathMapping, names_of
from collectors.gnmi.paths import Elem, Elems
from collectors.gnmi.v1 import gnmi_lite_pb2
from streams.wire.errors import Reject

_NO_SLOT = -1
_DEEPEST = 32
_LONGEST_NAME = 256


class Node:
    """One path: its steps, its leaf, and the slot of its value; `children` are the members of JSON below it.

    `counter` equals the slot if the value is a plain counter, so that most values are stored without further checks.
    """

    __slots__ = ("children", "counter", "elems", "is_path", "leaf", "on_change", "row", "slot")

    def __init__(
        self, elems: Elems, leaf: Leaf | None, slot: int, *, on_change: bool = False, is_path: bool = True
    ) -> None:
        self.elems = elems
        self.leaf = leaf
        self.slot = slot
        is_plain = leaf is not None and leaf.kind is Kind.COUNTER and leaf.scale == 1
        self.counter = slot if is_plain else _NO_SLOT
        self.row = leaf.row if leaf else ""
        self.on_change = on_change
        self.is_path = is_path
        self.children: dict[str, Node] = {}


class _Slot(NamedTuple):
    """The cell of a slot; `holds` is True if its value stays valid until the device sends a change."""

    cell: CellKey
    rank: int
    elems: Elems
    on_change: bool
    secondary: bool


class SlotTable:
    """The values of one device: one slot per cell and rank. `values` has None for values that were not read."""

    def __init__(self, max_ports: int) -> None:
        self.values: list[float | None] = []
        self.scanned = 0
        """The number of slots that were scanned to clear some: the cost of deletes."""
        self._slots: list[_Slot] = []
        self._number: dict[tuple[CellKey, int], int] = {}
        self._of_row: defaultdict[str, list[int]] = defaultdict(list)
        self._sampled: list[int] = []
        self._max_ports = max_ports
        self._ports: dict[str, set[str]] = {}
        self._layout: tuple[Layout, list[int]] | None = None

    def slot_of(self, leaf: Leaf, elems: Elems, *, on_change: bool) -> int | None:
        """Return the slot of a leaf, creating it if needed; None past the limit of ports."""
        assert leaf.metric is not None
        cell = CellKey(leaf.row, leaf.metric, leaf.index)
        found = self._number.get((cell, leaf.rank))
        if found is not None:
            return found
        if cell.row not in self._of_row and len(self._of_row) >= self._max_ports:
            return None
        self._number[cell, leaf.rank] = number = len(self.values)
        self._of_row[cell.row].append(number)
        self._slots.append(_Slot(cell, leaf.rank, elems, on_change, leaf.secondary))
        self.values.append(None)
        if not on_change:
            self._sampled.append(number)
        self._layout = None
        return number

    def assign_module(self, module: str, port: str) -> None:
        """Assign a module's values to the port that holds it, if exactly one port does."""
        ports = self._ports.setdefault(module, set())
        if port not in ports and len(self._ports) <= self._max_ports:
            ports.add(port)
            self._layout = None

    def row_of(self, row: str) -> str:
        """Return the row under which a row's values are reported: a module's values are in its port's row."""
        ports = self._ports.get(row)
        return next(iter(ports)) if ports is not None and len(ports) == 1 else row

    @property
    def has_modules(self) -> bool:
        """True if any row is reported under another name."""
        return bool(self._ports)

    def layout(self) -> tuple[Layout, list[int]]:
        """Return the layout, and the slot of each of its cells; the slot of highest rank if several fit a cell."""
        if self._layout is None:
            best: dict[CellKey, tuple[int, int]] = {}
            full = {slot.cell.row for slot in self._slots if not slot.secondary} | self._ports.keys()
            for number, slot in enumerate(self._slots):
                if slot.secondary and slot.cell.row not in full:
                    continue
                cell = slot.cell._replace(row=self.row_of(slot.cell.row))
                if cell not in best or slot.rank > best[cell][0]:
                    best[cell] = (slot.rank, number)
            self._layout = Layout(list(best)), [number for _, number in best.values()]
        return self._layout

    def clear_sampled(self) -> None:
        """Clear all values except those sent on change, after a reading was taken."""
        for number in self._sampled:
            self.values[number] = None

    def clear_below(self, elems: Elems) -> None:
        """Clear the values that a delete covers."""
        rows = {value for step in elems for _, value in step.keys}
        numbers = [number for row in rows & self._of_row.keys() for number in self._of_row[row]]
        if not numbers:
            numbers = list(range(len(self._slots)))
        self.scanned += len(numbers)
        for number in numbers:
            if _covers(elems, self._slots[number].elems):
                self.values[number] = None


def _covers(above: Elems, elems: Elems) -> bool:
    """Return True if a path equals or contains another.

    `*` matches any step or value, as in openconfig/gnmi (ctree), and a key that is left out matches any value.
    """
    return len(above) <= len(elems) and all(
        step.name in ("*", other.name) and all(value in ("*", other.key(key)) for key, value in step.keys)
        for step, other in zip(above, elems, strict=False)
    )


OnChange = frozenset[tuple[str, ...]]
"""The paths, by their steps' names, below which the device sends a value only when it changes."""
STATES: OnChange = frozenset({("*",)})
"""All states in any path, and nothing else."""
SAMPLED: OnChange = frozenset()


class PathIndex:
    """Finds the paths of one device by their bytes."""

    def __init__(
        self,
        slots: SlotTable,
        max_paths: int,
        mapping: PathMapping,
        on_change: OnChange,
        out_of_bounds: Callable[[], None],
    ) -> None:
        self.slots = slots
        self._mapping = mapping
        self._on_change = on_change
        self._max_paths = max_paths
        self._out_of_bounds = out_of_bounds
        self._by_prefix: dict[bytes, dict[bytes, Node]] = {}
        self._by_elems: dict[Elems, Node] = {}
        self._known = 0
        self.created = 0
        """The number of nodes that were created: each costs as much as many known ones."""

    def below(self, prefix: bytes) -> dict[bytes, Node]:
        """Return the known paths under a prefix; `add` parses a missing one."""
        found = self._by_prefix.get(prefix)
        if found is None:
            self._make_room()
            found = self._by_prefix[prefix] = {}
        return found

    def add(self, known: dict[bytes, Node], prefix: bytes, path: bytes) -> Node:
        """Parse a new path; one that cannot be parsed is indexed without a leaf, and one that is too long is not."""
        if len(path) > paths.LONGEST_PATH:
            self._out_of_bounds()
            return Node((), None, _NO_SLOT, is_path=False)
        try:
            _, elems = paths.from_bytes(prefix, path)
            node = self.node(elems)
        except Reject:
            node = Node((), None, _NO_SLOT, is_path=False)
        self._make_room()
        # `known` may just have been evicted with the rest; then the node is used for this message only.
        known[path] = node
        return node

    def node(self, elems: Elems) -> Node:
        """Return the node of these steps."""
        found = self._by_elems.get(elems)
        if found is None:
            self._make_room()
            found = self._by_elems[elems] = self._new(elems)
        return found

    def child(self, node: Node, key: str) -> Node:
        """Return the node of a member of a JSON object."""
        found = node.children.get(key)
        if found is None:
            self._make_room()
            found = node.children[key] = self.node((*node.elems, paths.elem(key)))
        return found

    def entry(self, node: Node, item: dict[str, object]) -> Node:
        """Return the node of a JSON list's item, by the keys of the list."""
        step = node.elems[-1]
        if any(value != "*" for _, value in step.keys):
            return node
        wanted = self._mapping.keys_of(step.name)
        named = ((paths.bare(key), str(value)) for key, value in _scalars(item))
        keys = tuple(sorted((key, value) for key, value in named if key in wanted))
        return self.node((*node.elems[:-1], Elem(step.name, keys))) if keys else node

    def _new(self, elems: Elems) -> Node:
        self.created += 1
        if len(elems) > _DEEPEST or any(len(value) > _LONGEST_NAME for step in elems for _, value in step.keys):
            self._out_of_bounds()
            return Node(elems[:_DEEPEST], None, _NO_SLOT)
        leaf = self._mapping.leaf(elems)
        if leaf is None or leaf.metric is None or not leaf.row:
            return Node(elems, leaf, _NO_SLOT)
        on_change = self._is_sent_on_change(elems, leaf)
        slot = self.slots.slot_of(leaf, elems, on_change=on_change) if len(leaf.row) <= _LONGEST_NAME else None
        if slot is None:
            self._out_of_bounds()
            return Node(elems, None, _NO_SLOT)
        return Node(elems, leaf, slot, on_change=on_change)

    def _is_sent_on_change(self, elems: Elems, leaf: Leaf) -> bool:
        if self._on_change is STATES:
            return leaf.kind is Kind.STATE
        names = names_of(elems)
        return any(names[: len(path)] == path for path in self._on_change)

    def _make_room(self) -> None:
        """Evict every path past the limit: a path is parsed again when it arrives again."""
        self._known += 1
        if self._known > self._max_paths:
            self._known = 0
            self._by_prefix.clear()
            self._by_elems.clear()
            self._out_of_bounds()


def _scalars(item: dict[str, object]) -> Iterator[tuple[str, object]]:
    return ((key, value) for key, value in item.items() if isinstance(value, str | int | float))


class UnnamedValues:
    """The values of one message that have no row yet, and the port name that the message contains."""

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
