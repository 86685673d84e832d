"""Declares a condition that the simulation can bring about: how it is injected, and how soon it should be detected."""

from collections.abc import Callable
from dataclasses import dataclass

from lab.world.effects import Interval
from lab.world.fault_placement import FaultPlacer
from lab.world.ground_truth import InjectedFault
from streams.wire.models import Condition


@dataclass(frozen=True, slots=True)
class Fault:
    """One condition that the simulation can bring about.

    `inject` draws a place and a time within an interval from the placer's random numbers, and returns the ground truth
    and the effects at all sources that would notice. It takes nothing from the detector. Raises NoRoom.
    """

    condition: Condition
    inject: Callable[[FaultPlacer, Interval], InjectedFault]
    detection_goal_s: float | None = None
    """Promised 95th percentile from when the fault can be known until it is detected; None: not promised."""
    own_stream: bool = False
    """It is placed last and from random numbers of its own, so the rest of a seed's day is the same without it."""

    @property
    def slug(self) -> str:
        """Return the slug of the detector that finds it."""
        return self.condition.slug
