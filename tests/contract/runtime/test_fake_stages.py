"""The fake stages of the runner's tests fulfil the contract of a stage, as real stages do."""

import pytest

from streams.fabric.inventory import Inventory
from streams.fabric.topology import Topology
from streams.wire.models import (
    Event,
    EventKind,
    Source,
    Symptom,
)
from streams.wire.symptoms import PortChange, PortTransition
from streams.wire.topics import PartitionScheme, Topic
from tests.contract.stage_promises import Case, RepeatPromises, StagePromises, Step
from tests.fakes.stages import CountingStage, WindowStage

OUT = Topic("out", Symptom, PartitionScheme.SINGLE, 3600)
NOWHERE = Topology(Inventory(), "nowhere")
SECOND = 10**9


def events() -> list[Step]:
    one_by_one = [Event(f"d{n % 3}", "", EventKind.LOG, n, n, Source.SOURCE_GNMI, code=n) for n in range(1, 100)]
    return [one_by_one[start : start + 7] for start in range(0, 99, 7)]


def symptoms() -> list[Step]:
    steps: list[Step] = []
    for second in range(1, 6):
        at = second * SECOND
        steps.append(
            [
                Symptom(f"d{n % 2}", str(n), PortTransition(PortChange.WENT_DOWN), at + n * SECOND // 10)
                for n in range(9)
            ]
        )
        steps.append(at + SECOND // 2)
    return [*steps, 7 * SECOND]


class TestCounting(StagePromises):
    """A stage that counts its inputs, and so recognises a repeat."""

    @pytest.fixture
    def case(self) -> Case:
        return Case("counting", lambda: CountingStage(OUT), NOWHERE, events())


class TestWindows(StagePromises, RepeatPromises):
    """The one that waits for event time."""

    @pytest.fixture
    def case(self) -> Case:
        return Case("windows", lambda: WindowStage(OUT), NOWHERE, symptoms())
