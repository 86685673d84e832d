"""Defines the interface of faults: the parts that they act on, their needs on the machine, and their promises."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from enum import Flag, auto

from lab.chaos.load import Load
from lab.chaos.stack import Stack


class Need(Flag):
    """The needs of a fault besides one broker on this machine."""

    THREE_BROKERS = auto()
    NAMESPACES = auto()
    """An own network and own disks, for which the command must run as root."""


NOTHING = Need(0)
NOTHING_LOST = "lost 0, double 0, findings right"
REPORTED = "lost only what was deleted unread, as many as reported; double 0"


@dataclass
class Scene:
    """The parts that a fault may act on, with the random choices of its step."""

    stack: Stack
    load: Load
    rng: random.Random = field(default_factory=random.Random)
    poisoned: list[tuple[str, int, int]] = field(default_factory=list)
    """Topic, partition and offset of every unreadable record that a fault has sent."""
    may_lose: bool = False
    """True after a fault that deletes records that the sink has not read."""
    chosen: str = ""
    """The part on which this step's fault acts."""
    task: asyncio.Task[None] | None = None
    """The task of this step's fault until it heals."""
    is_over: asyncio.Event | None = None


Act = Callable[[Scene], Coroutine[None, None, None]]


@dataclass(frozen=True)
class Fault:
    """One kind of fault; the state of a step is in the step's scene."""

    name: str
    target: str
    begin: Act
    """Starts the fault."""
    heal: Act
    """Heals the fault."""
    hold_s: tuple[float, float]
    """The shortest and the longest time between `begin` and `heal`."""
    promise: str = NOTHING_LOST
    needs: Need = NOTHING
