"""The stages of detection keep the promises of a stage, in a world with every fault and in each labelled case."""

from functools import cache

import pytest

from streams.detect.attribute.stage import Attribute
from streams.detect.correlate.stage import Correlate
from streams.detect.measure.stage import Measure
from tests.contract.detect.cases import LABELLED
from tests.contract.detect.stage_steps import (
    EVERYTHING,
    PARAMS,
    attribute_steps,
    correlate_steps,
    measure_steps,
    world_of,
)
from tests.contract.stage_promises import Case, RepeatPromises, StagePromises

MAKE = {
    "measure": (Measure, measure_steps), "correlate": (Correlate, correlate_steps),
    "attribute": (Attribute, attribute_steps),
}  # fmt: skip


@cache
def case_of(stage: str, name: str) -> Case:
    """Return a stage in a case. It is played once a session, because most promises use its outputs."""
    make, steps = MAKE[stage]
    return Case(name, lambda: make(PARAMS), world_of(name).topology, steps(name))


@pytest.fixture(params=[EVERYTHING, *LABELLED])
def name(request: pytest.FixtureRequest) -> str:
    """Each case."""
    return str(request.param)


class TestMeasure(StagePromises):
    """From samples to symptoms."""

    @pytest.fixture
    def case(self, name: str) -> Case:
        return case_of("measure", name)


class TestMeasureRepeated(RepeatPromises):
    """Whole batches are repeated long after the lateness; test_every_stream.py repeats single messages within it."""

    @pytest.fixture
    def case(self) -> Case:
        return case_of("measure", EVERYTHING)


class TestCorrelate(StagePromises, RepeatPromises):
    """From symptoms to episodes."""

    @pytest.fixture
    def case(self, name: str) -> Case:
        return case_of("correlate", name)


class TestAttribute(StagePromises, RepeatPromises):
    """From episodes to findings."""

    @pytest.fixture
    def case(self, name: str) -> Case:
        return case_of("attribute", name)
