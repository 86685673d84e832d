"""The list of faults: one for each detector, each with ground truth and effects of its own condition."""

from pathlib import Path

import streams.simulation.faults as faults_package
from streams.simulation.faults import FAULT_OF, FAULTS
from streams.simulation.scenario import ScenarioSpec, build
from streams.wire.codec import to_bytes
from streams.wire.models import Condition


def test_every_condition_has_a_fault_and_a_second_one_has_a_stream_of_its_own() -> None:
    """A detector without a fault cannot be measured; a stream is that of a condition, so one fault alone uses it."""
    conditions = [fault.condition for fault in FAULTS]
    assert set(conditions) == {condition for condition in Condition if condition}
    assert {fault.slug for fault in FAULTS} == set(FAULT_OF)
    assert all(fault.own_stream for fault in FAULTS if fault is not FAULT_OF[fault.slug])
    streams = [fault.condition for fault in FAULTS if fault.own_stream]
    assert len(set(streams)) == len(streams)


def test_every_fault_has_a_file_named_for_its_condition() -> None:
    """One declaration in one file."""
    folder = Path(faults_package.__file__).parent
    for fault in FAULTS:
        assert (folder / f"{fault.condition.name.lower()}.py").is_file()


def test_a_fault_with_a_stream_of_its_own_leaves_the_rest_of_the_day_unchanged() -> None:
    """With and without it, a seed gives the same other faults, negative cases and first messages."""
    shared = tuple(fault for fault in FAULTS if not fault.own_stream)
    assert len(shared) < len(FAULTS)
    days = [build(ScenarioSpec(gpus=256, seed=104, each=1, faults=faults)) for faults in (FAULTS, shared)]
    faults, others = (day.faults for day in days)
    assert [fault.ground_truths for fault in faults[: len(others)]] == [fault.ground_truths for fault in others]
    assert len(faults) == len(others) + len(FAULTS) - len(shared)
    assert days[0].negative_cases == days[1].negative_cases
    batches = (next(day.telemetry.batches(day.whole.start_ns, day.whole.end_ns, 10**10)) for day in days)
    first, second = ([to_bytes(message) for message in messages] for _, messages in batches)
    assert first == second != []
