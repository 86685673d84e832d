"""Generates the sequence of faults of a seed: each fault's start and duration."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from lab.chaos.faults import FAULTS
from lab.chaos.scene import NOTHING
from lab.chaos.stack import ALL_TARGETS
from streams.wire.errors import Misconfigured

ALL, EVERY = "all", "every"
_GAP_S = (0.5, 4.0)


@dataclass(frozen=True, slots=True)
class Step:
    """One fault of a sequence; times are seconds after the start of the sequence."""

    number: int
    fault: str
    begin_s: float
    heal_s: float
    seed: int
    """Seed of the fault's own random choices."""

    def __str__(self) -> str:
        return f"{self.fault} {self.begin_s:.1f}-{self.heal_s:.1f} s"


def fault_names(given: str) -> tuple[str, ...]:
    """Return the names in a comma-separated list; raise Misconfigured for an unknown one.

    `all` selects the faults that need only one broker, `every` also those that need more.
    """
    if given == EVERY:
        return tuple(FAULTS)
    if given == ALL:
        return tuple(name for name in FAULTS if FAULTS[name].needs == NOTHING)
    names = tuple(name.strip() for name in given.split(",") if name.strip())
    unknown = [name for name in names if name not in FAULTS]
    if unknown or not names:
        raise Misconfigured(f"--faults: unknown fault {', '.join(unknown) or given!r}; available: {', '.join(FAULTS)}")
    return names


def make_plan(seed: int, faults: Sequence[str], seconds: float) -> tuple[Step, ...]:
    """Return the steps that start within `seconds`, at least one.

    Faults of different targets overlap; faults of one target follow each other, and target `all` overlaps no other.
    """
    rng = random.Random(seed)
    steps: list[Step] = []
    free_s: dict[str, float] = {}
    begin_s = 0.0
    while not steps or begin_s < seconds:
        name = rng.choice(faults)
        fault = FAULTS[name]
        taken = (
            free_s.values()
            if fault.target == ALL_TARGETS
            else (free_s.get(fault.target, 0.0), free_s.get(ALL_TARGETS, 0.0))
        )
        begin_s = max(begin_s, *taken, 0.0)
        heal_s = begin_s + rng.uniform(*fault.hold_s)
        if begin_s >= seconds and steps:
            break
        steps.append(Step(len(steps), name, begin_s, heal_s, rng.getrandbits(32)))
        # The servers need some seconds to start again; a fault of another target may start meanwhile.
        free_s[fault.target] = heal_s + rng.uniform(*_GAP_S)
        begin_s += rng.uniform(*_GAP_S)
    return tuple(steps)
