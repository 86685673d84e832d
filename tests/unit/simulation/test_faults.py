"""The list of faults: one for each detector, each with ground truth and effects of its own condition."""

from pathlib import Path

import streams.simulation.faults as faults_package
from streams.simulation.faults import FAULT_OF, FAULTS
from streams.wire.models import Condition


def test_every_condition_has_one_fault() -> None:
    """A detector without a fault cannot be measured."""
    conditions = [fault.condition for fault in FAULTS]
    assert len(set(conditions)) == len(conditions)
    assert set(conditions) == {condition for condition in Condition if condition}
    assert {fault.slug for fault in FAULTS} == set(FAULT_OF)


def test_every_fault_has_a_file_named_for_its_condition() -> None:
    """One declaration in one file."""
    folder = Path(faults_package.__file__).parent
    for fault in FAULTS:
        assert (folder / f"{fault.condition.name.lower()}.py").is_file()
