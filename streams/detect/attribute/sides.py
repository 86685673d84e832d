"""Looks up the fabric-wide side and the parameters of each detector by condition."""

from typing import Any

from streams.detect.detectors import DETECTORS
from streams.detect.fabric_side import FabricSide
from streams.detect.params import DetectParams
from streams.wire.models import Condition, Finding

_BY_NUMBER = {detector.condition: detector for detector in DETECTORS}
_DEFAULT = FabricSide()
_BY_CONDITION = tuple(_BY_NUMBER[c].fabric if c in _BY_NUMBER else _DEFAULT for c in sorted(Condition))
"""By number, not by dict: the hash of an IntEnum is a Python function, and these are looked up for every case."""

DEVICE_EVALUATORS = tuple(
    (detector, detector.fabric.evaluate_device) for detector in DETECTORS if detector.fabric.evaluate_device is not None
)
"""The detectors that evaluate whole devices."""

FABRIC_EVALUATORS = tuple(
    (detector, detector.fabric.evaluator) for detector in DETECTORS if detector.fabric.evaluator is not None
)
"""The detectors that evaluate the whole fabric."""

EFFECTS = tuple(d.fabric.affected_by for d in DETECTORS if d.fabric.affected_by is not None)
"""The hooks that name the findings of a detector that change with another finding."""


def fabric_side(finding: Finding) -> FabricSide:
    """Return the fabric-wide side of the detector of a finding."""
    return _BY_CONDITION[finding.condition]


class DetectorParams:
    """The parameters of each detector, for its hooks."""

    def __init__(self, params: DetectParams) -> None:
        self._by_condition = tuple(
            params.section(_BY_NUMBER[c]) if c in _BY_NUMBER else None for c in sorted(Condition)
        )

    def of(self, finding: Finding) -> Any:
        """Return the parameters of the detector of a finding."""
        return self._by_condition[finding.condition]
