"""How messages come to the pipeline: read so often, some late, some twice, in slices and in the order of arrival."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from streams.wire.models import Message, Samples, Source

_S = 10**9
_TWICE_WITHIN_S = (0.1, 20.0)


@dataclass(frozen=True, slots=True)
class DeliveryModel:
    """What goes wrong on the way; ratios are of all messages."""

    jitter_s: float = 0.3
    """Between two readings, of the cadence."""
    skew_s: float = 0.15
    """Standard deviation of devices' clocks; one in fifty is off by up to `far_s`."""
    max_skew_s: float = 4.0
    late_ratio: float = 0.01
    late_s: tuple[float, float] = (2.0, 25.0)
    duplicate_ratio: float = 0.01
    lost_event_ratio: float = 0.0
    """Events that never come, as a trap in a datagram may; those of a collector that is away are lost besides."""
    poll_only_ratio: float = 0.2
    """Of switches, those that refuse ON_CHANGE: nothing tells of their ports but the samples."""
    agent_rounds: int = 3
    """The agent on a host reads PCIe and GPUs each so many rounds: that changes rarely."""
    link_event_delay_s: tuple[float, float] = (0.01, 0.12)
    """Until an end notices that its signal went or came."""


@dataclass(frozen=True, slots=True)
class Cadence:
    """How often switches are read, and how often NICs are: as often or oftener, a whole number of times."""

    switch_s: float = 10.0
    nic_s: float = 1.0


class DeliveryQueue:
    """Holds what is on its way."""

    def __init__(
        self, travel: DeliveryModel, slice_ns: int, chance: np.random.Generator, counted: Counter[str]
    ) -> None:
        self._travel, self._slice_ns, self._chance, self._counted = travel, slice_ns, chance, counted
        self._held: dict[int, list[tuple[int, Message]]] = defaultdict(list)
        self._waited: dict[tuple[str, Source], int] = {}

    def add(self, came_ns: int, message: Message, *, fresh: bool = False) -> None:
        """A message that comes then, or late where it is not `fresh`; now and then it comes twice."""
        travel, chance, counted = self._travel, self._chance, self._counted
        if chance.random() < travel.late_ratio and not fresh and self._may_wait(message):
            came_ns += round(chance.uniform(*travel.late_s) * _S)
            counted["late"] += 1
        self._held[came_ns // self._slice_ns].append((came_ns, message))
        counted["messages"] += 1
        if isinstance(message, Samples):
            counted["port_samples"] += len(message.row)
        if chance.random() < travel.duplicate_ratio:
            again_ns = came_ns + round(chance.uniform(*_TWICE_WITHIN_S) * _S)
            self._held[again_ns // self._slice_ns].append((again_ns, message))
            counted["twice"] += 1

    def due(self, first: int, until: int) -> Iterator[tuple[int, list[Message]]]:
        """The slices of these numbers, each with its end."""
        for number in range(first, until):
            came = sorted(self._held.pop(number, ()), key=lambda pair: pair[0])
            yield (number + 1) * self._slice_ns, [message for _, message in came]

    def _may_wait(self, message: Message) -> bool:
        """No two readings in a row: a device of which nothing comes for three cadences is silent by any standard."""
        if not isinstance(message, Samples):
            return True
        key = message.device, message.source
        if message.sequence - self._waited.get(key, -2) < 2:
            return False
        self._waited[key] = message.sequence
        return True
