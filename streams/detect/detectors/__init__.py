"""Lists all detectors; a new detector is added only here."""

from typing import Any

from streams.detect.detector import Detector
from streams.detect.detectors import (
    congestion_collapse,
    congestion_imbalance,
    congestion_incast,
    congestion_pfc_storm,
    device_clock_skew,
    device_down,
    fleet_version_drift,
    host_gpu_fault,
    host_nvlink_degraded,
    host_pcie_degraded,
    host_power_capped,
    host_thermal_throttle,
    link_degrading,
    link_down,
    link_flap,
    link_miscabled,
    path_loss,
    rail_degraded,
    rail_unreachable,
    telemetry_contradiction,
    telemetry_stale,
)

DETECTORS: tuple[Detector[Any], ...] = (
    link_flap.DETECTOR,
    link_down.DETECTOR,
    link_degrading.DETECTOR,
    link_miscabled.DETECTOR,
    rail_degraded.DETECTOR,
    congestion_incast.DETECTOR,
    congestion_pfc_storm.DETECTOR,
    congestion_imbalance.DETECTOR,
    congestion_collapse.DETECTOR,
    device_down.DETECTOR,
    telemetry_stale.DETECTOR,
    fleet_version_drift.DETECTOR,
    host_pcie_degraded.DETECTOR,
    host_gpu_fault.DETECTOR,
    host_thermal_throttle.DETECTOR,
    device_clock_skew.DETECTOR,
    path_loss.DETECTOR,
    rail_unreachable.DETECTOR,
    host_nvlink_degraded.DETECTOR,
    host_power_capped.DETECTOR,
    telemetry_contradiction.DETECTOR,
)
