"""Looks up the fabric-wide side and the parameters of each detector by condition."""

from typing import Any

from streams.detect.detectors.fabric_sides import SIDES
from streams.detect.fabric_side import FabricSide
from streams.detect.params import DetectParams
from streams.wire.models import Condition, Finding

_DEFAULT = FabricSide()
_BY_CONDITION = tuple(SIDES[c].side if c in SIDES else _DEFAULT for c in sorted(Condition))
"""By number, not by dict: the hash of an IntEnum is a Python function, and these are looked up for every case."""

DEVICE_EVALUATORS = tuple(
    (condition.slug, side.evaluate_device)
    for condition in SIDES
    if (side := SIDES[condition].side).evaluate_device is not None
)
"""The detectors that evaluate whole devices."""

FABRIC_EVALUATORS = tuple(
    (condition.slug, side.evaluator) for condition in SIDES if (side := SIDES[condition].side).evaluator is not None
)
"""The detectors that evaluate the whole fabric."""

EFFECTS = tuple(
    side.affected_by for side in (SIDES[condition].side for condition in SIDES) if side.affected_by is not None
)
"""The hooks that name the findings of a detector that change with another finding."""


def fabric_side(finding: Finding) -> FabricSide:
    """Return the fabric-wide side of the detector of a finding."""
    return _BY_CONDITION[finding.condition]


class DetectorParams:
    """The parameters of each detector, for its hooks."""

    def __init__(self, params: DetectParams) -> None:
        self._by_condition = tuple(SIDES[c].params_of(params) if c in SIDES else None for c in sorted(Condition))

    def of(self, finding: Finding) -> Any:
        """Return the parameters of the detector of a finding."""
        return self._by_condition[finding.condition]
