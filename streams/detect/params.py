"""Thresholds of the detectors, each with its source; configuration composes them as `[detect.…]`."""

import hashlib
from typing import Self

from pydantic import model_validator

from streams.detect.detectors.congestion_collapse.params import CollapseParams
from streams.detect.detectors.congestion_imbalance.params import ImbalanceParams
from streams.detect.detectors.congestion_incast.params import IncastParams
from streams.detect.detectors.congestion_pfc_storm.params import StormParams
from streams.detect.detectors.device_down.params import DeviceDownParams
from streams.detect.detectors.fleet_version_drift.params import DriftParams
from streams.detect.detectors.host_gpu_fault.params import GpuParams
from streams.detect.detectors.host_pcie_degraded.params import PcieParams
from streams.detect.detectors.link_degrading.params import DegradingParams
from streams.detect.detectors.link_down.params import DownParams
from streams.detect.detectors.link_flap.params import FlapParams
from streams.detect.detectors.link_miscabled.params import MiscabledParams
from streams.detect.detectors.rail_degraded.params import RailParams
from streams.detect.detectors.telemetry_stale.params import StaleParams
from streams.detect.evidence.params import GroupingParams, LinkParams, WindowParams
from streams.detect.thresholds import Ratio, Seconds, Thresholds


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
    grouping: GroupingParams = GroupingParams()
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
