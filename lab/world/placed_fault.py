"""Declares the type of faults at places and times that the caller chooses, and derives effects and truth from them."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from lab.world.effects import Effect, Interval
from lab.world.fabric_arrays import FabricArrays
from lab.world.ground_truth import InjectedFault
from streams.fabric.inventory import Link
from streams.wire.models import Condition

TOLERANCE_S = 15
WINDOWS_TOLERANCE_S = 120
"""Of starts that are dated by minute windows."""
FACTS_TOLERANCE_S = 3600
"""Of starts that show when facts are polled."""


class TruthRow(NamedTuple):
    """A row of a truth file (DESIGN 6); `port` is empty for a device."""

    start: int
    end: int
    condition: str
    device: str
    port: str
    tolerance_s: int = TOLERANCE_S


class PlacedFault(Protocol):
    """A fault at a given place and time."""

    def effects(self, fabric: "Numbers") -> list[Effect]:
        """Return the effects of the fault."""
        ...

    def truths(self) -> list[TruthRow]:
        """Return the rows of the truth file."""
        ...


class Numbers:
    """Numbers of the links, ports and devices of a fabric by their names."""

    def __init__(self, fabric: FabricArrays) -> None:
        self.devices = {name: number for number, name in enumerate(fabric.devices)}
        self.ports = {fabric.port(number): number for number in range(fabric.port_count)}
        self.links = {a: number for number, (a, _) in enumerate(fabric.links.tolist())}

    def link(self, link: Link) -> int:
        """Return the number of a link."""
        return self.links[self.ports[link.a]]


Fault = PlacedFault | InjectedFault
"""A fault at a given place, or one of the list of faults, placed randomly."""


def row(
    interval: Interval, condition: Condition, device: str, port: str = "", tolerance_s: int = TOLERANCE_S
) -> TruthRow:
    """Return a row of the truth file."""
    return TruthRow(*interval, condition.name.lower(), device, port, tolerance_s)


def effects_of(faults: Sequence[Fault], fabric: FabricArrays) -> list[Effect]:
    """Return the effects of all faults."""
    numbers = Numbers(fabric)
    return [
        effect
        for fault in faults
        for effect in (fault.effects if isinstance(fault, InjectedFault) else fault.effects(numbers))
    ]


def truth_rows(faults: Sequence[Fault]) -> list[TruthRow]:
    """Return what a perfect detector would find."""
    rows = []
    for fault in faults:
        if isinstance(fault, InjectedFault):
            rows += [
                TruthRow(t.start_ns, t.end_ns, t.condition.name.lower(), t.device, t.port, round(t.tolerance_s))
                for t in fault.truths
            ]
        else:
            rows += fault.truths()
    return rows
