"""The fabric-wide sides of all detectors."""

from collections.abc import Callable
from typing import Any, NamedTuple

from streams.detect.detectors.congestion_collapse.fabric import FABRIC as CONGESTION_COLLAPSE
from streams.detect.detectors.congestion_imbalance.fabric import FABRIC as CONGESTION_IMBALANCE
from streams.detect.detectors.congestion_incast.fabric import FABRIC as CONGESTION_INCAST
from streams.detect.detectors.congestion_pfc_storm.fabric import FABRIC as CONGESTION_PFC_STORM
from streams.detect.detectors.device_down.fabric import FABRIC as DEVICE_DOWN
from streams.detect.detectors.fleet_version_drift.fabric import FABRIC as FLEET_VERSION_DRIFT
from streams.detect.detectors.host_gpu_fault.fabric import FABRIC as HOST_GPU_FAULT
from streams.detect.detectors.host_pcie_degraded.fabric import FABRIC as HOST_PCIE_DEGRADED
from streams.detect.detectors.link_degrading.fabric import FABRIC as LINK_DEGRADING
from streams.detect.detectors.link_down.fabric import FABRIC as LINK_DOWN
from streams.detect.detectors.link_flap.fabric import FABRIC as LINK_FLAP
from streams.detect.detectors.link_miscabled.fabric import FABRIC as LINK_MISCABLED
from streams.detect.detectors.rail_degraded.fabric import FABRIC as RAIL_DEGRADED
from streams.detect.detectors.telemetry_stale.fabric import FABRIC as TELEMETRY_STALE
from streams.detect.fabric_side import FabricSide
from streams.detect.params import DetectParams
from streams.wire.models import Condition


class _Side(NamedTuple):
    side: FabricSide
    params_of: Callable[[DetectParams], Any]


SIDES = {
    Condition.LINK_FLAP: _Side(LINK_FLAP, lambda params: params.flap),
    Condition.LINK_DOWN: _Side(LINK_DOWN, lambda params: params.down),
    Condition.LINK_DEGRADING: _Side(LINK_DEGRADING, lambda params: params.degrading),
    Condition.LINK_MISCABLED: _Side(LINK_MISCABLED, lambda params: params.miscabled),
    Condition.RAIL_DEGRADED: _Side(RAIL_DEGRADED, lambda params: params.rail),
    Condition.CONGESTION_INCAST: _Side(CONGESTION_INCAST, lambda params: params.incast),
    Condition.CONGESTION_PFC_STORM: _Side(CONGESTION_PFC_STORM, lambda params: params.storm),
    Condition.CONGESTION_IMBALANCE: _Side(CONGESTION_IMBALANCE, lambda params: params.imbalance),
    Condition.CONGESTION_COLLAPSE: _Side(CONGESTION_COLLAPSE, lambda params: params.collapse),
    Condition.DEVICE_DOWN: _Side(DEVICE_DOWN, lambda params: params.device_down),
    Condition.TELEMETRY_STALE: _Side(TELEMETRY_STALE, lambda params: params.stale),
    Condition.FLEET_VERSION_DRIFT: _Side(FLEET_VERSION_DRIFT, lambda params: params.drift),
    Condition.HOST_PCIE_DEGRADED: _Side(HOST_PCIE_DEGRADED, lambda params: params.pcie),
    Condition.HOST_GPU_FAULT: _Side(HOST_GPU_FAULT, lambda params: params.gpu),
}
