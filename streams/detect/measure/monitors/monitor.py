"""The interface of monitors: a monitor finds the symptoms of one kind of condition in readings and events.

The stage iterates its monitors and names none. A monitor writes nothing into the storage of readings: transitions that
it finds go into the batch or the late message, and the store adds them to its history.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from streams.detect.measure.monitors.active_conditions import ActiveConditions
from streams.detect.measure.storage.message_batch import LateMessage, MessageBatch
from streams.detect.measure.storage.reading_store import ReadingStore
from streams.fabric.topology import Topology
from streams.wire.models import Event, Symptom, SymptomsReplaced

NumberedSymptom = tuple[int, Symptom]
"""A symptom, and the number of the message that shows it."""
NumberedOutput = tuple[int, Symptom | SymptomsReplaced]


class Monitor(Protocol):
    """Finds symptoms; a method that a monitor does not define finds none."""

    name: str
    """Key of its state in snapshots."""

    def is_relevant(self, batch: MessageBatch) -> bool:
        """Return whether batches of these rows and columns concern it; asked once for each combination of columns."""
        return False

    def process(self, batch: MessageBatch, topology: Topology) -> Iterable[NumberedSymptom]:
        """Return the symptoms that a batch shows, compared with the readings before it."""
        return ()

    def process_late(self, late: LateMessage, topology: Topology) -> Iterable[NumberedOutput]:
        """Return what a message older than its device's last one would have shown in its time."""
        return ()

    def process_event(self, event: Event, at_ns: int, readings: ReadingStore, topology: Topology) -> Iterable[Symptom]:
        """Return the symptoms of an event; `at_ns` is its time, corrected where the device's clock is ahead."""
        return ()

    def dump(self) -> Any:
        """Return the state for a snapshot, as JSON holds it."""
        return None

    def load(self, data: Any) -> None:
        """Restore the state that `dump` returned."""
        return


class ReplayedMonitor(Monitor, Protocol):
    """Finds conditions that begin and end, by comparing each reading with the one before it.

    `LateReplay` replays its readings where one of them comes late; the state is in `active` only.
    """

    @property
    def active(self) -> Sequence[ActiveConditions]:
        """The conditions that last, by which it compares the next reading."""


@dataclass(frozen=True, slots=True)
class MonitorSpec:
    """Makes a monitor; a detector that brings one registers it by this."""

    make: Callable[[Any], Monitor]
    """From the parameters of the detector that brings it."""


@dataclass(frozen=True, slots=True)
class ReplayedMonitorSpec:
    """Makes a monitor that is replayed after a late reading."""

    make: Callable[[Any], ReplayedMonitor]
