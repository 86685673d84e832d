"""Defines the configuration of detection: shared thresholds, and one section for each detector of DETECTORS."""

import hashlib
from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic import Field, create_model
from pydantic_core import to_json

from streams.detect.detector import Detector, P
from streams.detect.detectors import DETECTORS
from streams.detect.evidence.params import GroupingParams, LinkParams, SharedSettings, WindowParams
from streams.detect.thresholds import Ratio, Thresholds


class SharedParams(Thresholds):
    """`[detect]`: thresholds that several detectors and stages share."""

    lateness_s: Annotated[float, Field(gt=0, le=WindowParams.width_s)] = 30
    """A window is final when the watermark is this far beyond its end (DESIGN 2.1); at most the length of a window."""
    capacity_floor: Ratio = 0.75
    """The share of its upward paths that a switch must retain; CorrOpt (SIGCOMM'17) evaluated 50 % and 75 %."""
    link: LinkParams = LinkParams()
    grouping: GroupingParams = GroupingParams()
    window: WindowParams = WindowParams()


if TYPE_CHECKING:
    _Sections = SharedParams
else:
    _Sections = create_model(
        "_Sections",
        __base__=SharedParams,
        **{detector.section: (detector.params, detector.params()) for detector in DETECTORS},
    )


class DetectParams(_Sections):
    """All thresholds of detection. Each detector's own thresholds are in the field of its section."""

    if TYPE_CHECKING:

        def __init__(self, **sections: Any) -> None: ...

        def __getattr__(self, section: str) -> Any: ...

    @property
    def digest(self) -> str:
        """Return an identifier of these thresholds for findings: the first 12 digits of SHA-256 over their JSON."""
        return hashlib.sha256(to_json(self.values())).hexdigest()[:12]

    def section(self, detector: Detector[P]) -> P:
        return cast("P", getattr(self, detector.section))

    @property
    def shared(self) -> SharedSettings:
        retentions = (
            detector.pod.link_retention_ns(self.section(detector), self.lateness_s)
            for detector in DETECTORS
            if detector.pod is not None and detector.pod.link_retention_ns is not None
        )
        return SharedSettings(
            self.digest, self.lateness_s, self.link, self.window, self.grouping, max(retentions, default=0)
        )
