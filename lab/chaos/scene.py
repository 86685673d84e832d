"""The interface of faults: what they act on, what they need of the machine, and what is promised under them."""

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
    """A network and disks of its own, for which the command must run as root."""


NOTHING = Need(0)
NOTHING_LOST = "lost 0, double 0, findings right"
REPORTED = "lost only what was deleted unread, as many as reported; double 0"


@dataclass
class Scene:
    """Everything that a fault may act on, with the random choices of its step."""

    stack: Stack
    load: Load
    rng: random.Random = field(default_factory=random.Random)
    poisoned: list[tuple[str, int, int]] = field(default_factory=list)
    """Topic, partition and offset of every record that a fault has sent and that cannot be read."""
    may_lose: bool = False
    """True after a fault that deletes records which the sink has not read."""
    chosen: str = ""
    """The part on which the fault of this step acts."""
    task: asyncio.Task[None] | None = None
    """The work of the fault of this step until it heals."""
    is_over: asyncio.Event | None = None


Act = Callable[[Scene], Coroutine[None, None, None]]


@dataclass(frozen=True)
class Fault:
    """One kind of fault; what it has begun in a step is in the step's scene."""

    name: str
    target: str
    begin: Act
    """Takes something away."""
    heal: Act
    """Gives it back."""
    hold_s: tuple[float, float]
    """The shortest and the longest time between begin and heal."""
    promise: str = NOTHING_LOST
    needs: Need = NOTHING
