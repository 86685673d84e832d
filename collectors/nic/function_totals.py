"""Adds up what the virtual functions of a physical port count, since their RoCE traffic is that of its rail.

A function's RDMA device disappears while a pod has it (`rdma system set netns exclusive`): its total stays, and nothing
that it counts until it is back is added, because all of it would look like a burst.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from collectors.kernel.ports import Port
from collectors.kernel.tree import Tree
from collectors.nic.metric_sources import MetricSource, Slot, of_function


@dataclass(slots=True)
class _Function:
    """The counters of one function, each with its value at the last reading; None before the first."""

    folder: str
    sources: tuple[MetricSource, ...] = ()
    last: dict[Slot, int | None] = field(default_factory=dict)


class FunctionTotals:
    """The sums of one physical port's functions. Functions of the first reading count from 0, later ones from theirs.

    `alone` has the metrics that functions count and their port does not.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._functions: dict[str, _Function] = {}
        self._totals: dict[Slot, int] = {}
        self._has_read = False
        self.alone: frozenset[Slot] = frozenset()

    def set(self, ports: Iterable[Port]) -> None:
        """Set the present functions by their RDMA ports."""
        former, self._functions = self._functions, {}
        for port in ports:
            folder = f"{self._tree.sys}/class/infiniband/{port.rdma}/ports/{port.number}"
            known = former.get(port.identity)
            self._functions[port.identity] = known if known and known.folder == folder else _Function(folder)

    def choose(self, own: Collection[Slot], excluded: Collection[Slot]) -> list[Slot]:
        """Find the counters of each function without the `excluded` metrics; return those new that are not `own`."""
        found: dict[Slot, None] = {}
        for function in self._functions.values():
            sources = of_function(self._tree, function.folder)
            function.sources = tuple(
                source for source in sources if source.slot not in excluded or source.slot in self.alone
            )
            found |= dict.fromkeys(source.slot for source in function.sources)
        fresh = [slot for slot in found if slot not in own and slot not in self.alone]
        self.alone |= set(fresh)
        return fresh

    def read(self, counter: Callable[[MetricSource], int | None]) -> dict[Slot, int]:
        """Return the total of each metric; a counter that cannot be read adds nothing."""
        for function in self._functions.values():
            for source in function.sources:
                value = counter(source)
                if value is None:
                    continue
                last = function.last.get(source.slot)
                if last is None:
                    last = value if self._has_read else 0
                # A smaller value is that of a function that was created again.
                grown = value - last if value >= last else value
                self._totals[source.slot] = self._totals.get(source.slot, 0) + grown
                function.last[source.slot] = value
        self._has_read = True
        return self._totals
