"""Thresholds of the detectors, each with its source; configuration composes them as `[detect.…]`."""

import hashlib
from typing import Self

from pydantic import model_validator

from streams.detect.params.congestion import CollapseParams, ImbalanceParams, IncastParams, StormParams
from streams.detect.params.devices import DeviceDownParams, StaleParams, TogetherParams
from streams.detect.params.flaps import FLAP_PRESETS, FlapParams, FlapPreset
from streams.detect.params.fleet import AllowedVersions, DriftParams
from streams.detect.params.hosts import GpuParams, PcieParams, RailParams
from streams.detect.params.links import (
    DegradingParams,
    DownParams,
    LinkParams,
    MiscabledParams,
    TrendParams,
    WindowParams,
)
from streams.detect.params.shape import Ratio, Seconds, Thresholds, ns

__all__ = [
    "FLAP_PRESETS",
    "AllowedVersions",
    "CollapseParams",
    "DegradingParams",
    "DetectParams",
    "DeviceDownParams",
    "DownParams",
    "DriftParams",
    "FlapParams",
    "FlapPreset",
    "GpuParams",
    "ImbalanceParams",
    "IncastParams",
    "LinkParams",
    "MiscabledParams",
    "PcieParams",
    "RailParams",
    "StaleParams",
    "StormParams",
    "TogetherParams",
    "TrendParams",
    "WindowParams",
    "ns",
]


class DetectParams(Thresholds):
    """All detectors' thresholds."""

    lateness_s: Seconds = 30
    """A window is final when the watermark is so far behind its end (DESIGN 2.1)."""

    capacity_floor: Ratio = 0.75
    """The share of its paths upwards that a switch must keep; CorrOpt (SIGCOMM'17) evaluated 50 % and 75 %."""

    link: LinkParams = LinkParams()
    flap: FlapParams = FlapParams()
    down: DownParams = DownParams()
    device_down: DeviceDownParams = DeviceDownParams()
    stale: StaleParams = StaleParams()
    together: TogetherParams = TogetherParams()
    window: WindowParams = WindowParams()
    degrading: DegradingParams = DegradingParams()
    rail: RailParams = RailParams()
    storm: StormParams = StormParams()
    imbalance: ImbalanceParams = ImbalanceParams()
    incast: IncastParams = IncastParams()
    collapse: CollapseParams = CollapseParams()
    miscabled: MiscabledParams = MiscabledParams()
    drift: DriftParams = DriftParams()
    gpu: GpuParams = GpuParams()
    pcie: PcieParams = PcieParams()

    @model_validator(mode="after")
    def _late_is_within_one_window(self) -> Self:
        if self.lateness_s > self.window.width_s:
            raise ValueError("lateness_s is longer than a window of [detect.window] width_s")
        return self

    @property
    def digest(self) -> str:
        """Names these settings in every finding: the first 12 digits of SHA-256 over their JSON."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:12]
