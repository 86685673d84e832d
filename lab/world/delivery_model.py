"""Models the delivery of messages to the pipeline: cadences, delays and duplicates, in slices in order of arrival."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from streams.wire.models import Message, Samples, Source

_S = 10**9
_DUPLICATE_WITHIN_S = (0.1, 20.0)


@dataclass(frozen=True, slots=True)
class DeliveryModel:
    """The delays and losses of delivery; ratios are shares of all messages."""

    jitter_s: float = 0.3
    """The jitter between two polls, as a share of a second or of a quarter of the cadence."""
    skew_s: float = 0.15
    """The standard deviation of devices' clocks; one in fifty is off by up to `max_skew_s`."""
    max_skew_s: float = 4.0
    late_ratio: float = 0.01
    late_s: tuple[float, float] = (2.0, 25.0)
    duplicate_ratio: float = 0.01
    lost_event_ratio: float = 0.0
    """The share of events that never arrive, as UDP traps may; a restarting collector loses more."""
    poll_only_ratio: float = 0.2
    """The share of switches that refuse ON_CHANGE: only samples report their ports."""
    agent_rounds: int = 3
    """The agent on a host reads PCIe and GPUs once in this many rounds, because they change rarely."""
    link_event_delay_s: tuple[float, float] = (0.01, 0.12)
    """The delay from a change of signal to its event at either end."""


@dataclass(frozen=True, slots=True)
class Cadence:
    """The cadences of switches and of NICs; the switches' cadence is a whole multiple of the NICs'."""

    switch_s: float = 10.0
    nic_s: float = 1.0


class DeliveryQueue:
    """Holds messages in flight until the slice in which they arrive."""

    def __init__(self, model: DeliveryModel, slice_ns: int, rng: np.random.Generator, counts: Counter[str]) -> None:
        self._model, self._slice_ns, self._rng, self._counts = model, slice_ns, rng, counts
        self._in_flight: dict[int, list[tuple[int, Message]]] = defaultdict(list)
        self._delayed: dict[tuple[str, Source], int] = {}

    def add(self, arrival_ns: int, message: Message, *, fresh: bool = False) -> None:
        """Add a message; it may arrive twice, and late unless it is `fresh`."""
        model, rng, counts = self._model, self._rng, self._counts
        if rng.random() < model.late_ratio and not fresh and self._may_delay(message):
            arrival_ns += round(rng.uniform(*model.late_s) * _S)
            counts["late"] += 1
        self.deliver(arrival_ns, message)
        if isinstance(message, Samples):
            counts["port_samples"] += len(message.row)
        if rng.random() < model.duplicate_ratio:
            duplicate_ns = arrival_ns + round(rng.uniform(*_DUPLICATE_WITHIN_S) * _S)
            self._in_flight[duplicate_ns // self._slice_ns].append((duplicate_ns, message))
            counts["duplicates"] += 1

    def deliver(self, arrival_ns: int, message: Message) -> None:
        """Add a message that arrives once and at this time."""
        self._in_flight[arrival_ns // self._slice_ns].append((arrival_ns, message))
        self._counts["messages"] += 1

    def due(self, first: int, until: int) -> Iterator[tuple[int, list[Message]]]:
        """Yield (end, messages) of the slices with these numbers."""
        for number in range(first, until):
            arrived = sorted(self._in_flight.pop(number, ()), key=lambda pair: pair[0])
            yield (number + 1) * self._slice_ns, [message for _, message in arrived]

    def _may_delay(self, message: Message) -> bool:
        """Return False for the second of two consecutive samples: a device silent for three cadences is stale."""
        if not isinstance(message, Samples):
            return True
        key = message.device, message.source
        if message.sequence - self._delayed.get(key, -2) < 2:
            return False
        self._delayed[key] = message.sequence
        return True
