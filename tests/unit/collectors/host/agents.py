"""A host agent on a tree written by hand, with a ring or a file for its log, and what it published."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from collectors.core.counts import Counts
from collectors.core.means import Means
from collectors.host.agent import HostAgent
from collectors.host.gpu import Gpus
from collectors.host.params import Params
from collectors.kernel.tree import Tree
from streams.wire.models import ABSENT_COUNTER, NO_INDEX, Event, Samples
from streams.wire.topics import EVENTS, Record
from tests.fakes.nvml import FakeGpu, FakeNvml
from tests.fakes.publisher import KeptRecords
from tests.unit.collectors.host.trees import BOOT_S

S = 10**9
START_NS = (BOOT_S + 1000) * S


@dataclass
class SetClock:
    """Stands still until it is set."""

    ns: int = START_NS

    def now_ns(self) -> int:
        return self.ns


class Acknowledging:
    """A publisher that keeps what it is given; Kafka has all of it at once, while `is_there`."""

    def __init__(self, counts: Counts) -> None:
        self.kept = KeptRecords()
        self.counts = counts
        self.is_there = True

    def offer(self, record: Record, rows: int = 0) -> bool:
        taken = self.kept.offer(record, rows)
        if taken and record.topic is EVENTS and self.is_there:
            self.counts.add("settled", EVENTS.name)
        return taken


@dataclass
class Whole:
    """An agent and what it published."""

    agent: HostAgent
    publisher: Acknowledging
    counts: Counts
    clock: SetClock
    nvml: FakeNvml

    def events(self) -> list[Event]:
        """In the order in which they came."""
        return self.publisher.kept.of(Event)

    def look(self, after_s: float = 0.0) -> None:
        """Look at the log once, some time later."""
        self.clock.ns += int(after_s * S)
        log = self.agent.listening.log
        assert log is not None
        log.look(self.clock.ns, self.clock.ns / S)


def whole(root: Path, gpus: Sequence[FakeGpu] = (), clock: SetClock | None = None, **settings: object) -> Whole:
    """An agent of this tree."""
    counts, clock, nvml = Counts(), clock or SetClock(), FakeNvml(gpus)
    publisher = Acknowledging(counts)
    params = Params.model_validate(
        {"device": "gpu17", "root": root, "state_file": root / "state.json", "deadline_s": 5.0} | settings
    )
    means = Means(publisher, "test", counts, 7, clock=clock)
    return Whole(HostAgent(params, Tree(root), Gpus(nvml if gpus else None), means), publisher, counts, clock, nvml)


def rows(samples: Samples) -> dict[str, dict[str, float]]:
    """What was read, by row and name; nothing stands for what was not."""
    found: dict[str, dict[str, float]] = {row: {} for row in samples.row}
    for table, is_counter in ((samples.counters, True), (samples.gauges, False)):
        for metric, index, values in zip(table.metric, table.index, table.values, strict=True):
            name = metric.name.lower() + ("" if index == NO_INDEX else f"[{index}]")
            for row, value in zip(samples.row, values.tolist(), strict=True):
                if value == value and not (is_counter and value == ABSENT_COUNTER):
                    found[row][name] = value
    return found
