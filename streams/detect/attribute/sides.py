"""Looks up the fabric-wide side and the parameters of each detector by condition."""

from typing import Any

from streams.detect.detectors import DETECTORS
from streams.detect.fabric_side import FabricSide
from streams.detect.params import DetectParams
from streams.wire.models import Condition, Finding

_DETECTORS = {detector.condition: detector for detector in DETECTORS}
_DEFAULT = FabricSide()
_BY_CONDITION = tuple(_DETECTORS[c].fabric if c in _DETECTORS else _DEFAULT for c in sorted(Condition))
"""Indexed by number, because the hash of an IntEnum is a Python function and these are looked up for every case."""

DEVICE_EVALUATORS = tuple(
    (detector, detector.fabric.evaluate_device) for detector in DETECTORS if detector.fabric.evaluate_device is not None
)
"""The detectors that evaluate whole devices."""

FABRIC_EVALUATORS = tuple(
    (detector, detector.fabric.evaluator) for detector in DETECTORS if detector.fabric.evaluator is not None
)
"""The detectors that evaluate the whole fabric."""

EFFECTS = tuple(d.fabric.affected_by for d in DETECTORS if d.fabric.affected_by is not None)
"""The hooks that return the findings of a detector that change with another finding."""


def fabric_side(finding: Finding) -> FabricSide:
    """Return the fabric-wide side of the detector of a finding."""
    return _BY_CONDITION[finding.condition]


def detector_slug(finding: Finding) -> str:
    """Return the slug of the detector of a finding's condition; a message may name another."""
    return _DETECTORS[finding.condition].slug


class DetectorParams:
    """The parameters of each detector, for its hooks, and the limits that several detectors determine together."""

    def __init__(self, params: DetectParams) -> None:
        self._by_detector = [(detector.fabric, params.section(detector)) for detector in DETECTORS]
        self._by_condition = tuple(
            params.section(_DETECTORS[c]) if c in _DETECTORS else None for c in sorted(Condition)
        )

    def of(self, finding: Finding) -> Any:
        return self._by_condition[finding.condition]

    def silence_limit_ns(self, cadence_ns: int) -> int:
        """Return the longest permitted silence of a source with this cadence."""
        limits_ns = (
            side.silence_limit_ns(params, cadence_ns)
            for side, params in self._by_detector
            if side.silence_limit_ns is not None
        )
        return max(limits_ns, default=0)

    @property
    def min_silent_ratio(self) -> float:
        """Return the share of the inventory's devices above which silent devices form one group of the fabric."""
        ratios = (
            side.min_silent_ratio(params) for side, params in self._by_detector if side.min_silent_ratio is not None
        )
        return min(ratios, default=1.0)
