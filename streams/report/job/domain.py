"""Attributes what affected a job to the network or to its hosts.

A fault of a host stops a job as well as one of the network does: only the second makes the network of the job unclean.
"""

from enum import Enum

from streams.wire.models import Cause, Condition, Finding


class Domain(Enum):
    """The part of the cluster that a finding is about."""

    NETWORK = "network"
    HOST = "host"
    NEITHER = "neither"


HOST_CONDITIONS = frozenset(
    {Condition.HOST_PCIE_DEGRADED, Condition.HOST_GPU_FAULT, Condition.HOST_THERMAL_THROTTLE}
)  # fmt: skip
NEUTRAL_CONDITIONS = frozenset(
    {Condition.TELEMETRY_STALE, Condition.FLEET_VERSION_DRIFT, Condition.DEVICE_CLOCK_SKEW}
)  # fmt: skip
"""Conditions of the observation and of versions: they stop no traffic."""
HOST_CAUSES = frozenset(
    {
        Cause.HOST, Cause.PCIE, Cause.PCIE_WIDTH, Cause.PCIE_SPEED, Cause.GPU, Cause.GPU_MEMORY, Cause.GPU_OFF_BUS,
        Cause.NVLINK,
    }
)  # fmt: skip
"""Causes within a host, also of a slow rail. Congestion that they cause is one of the network for the other jobs."""


def domain_of(finding: Finding) -> Domain:
    """Return the domain of a finding; a condition that is not listed here counts against the network."""
    condition = finding.condition
    if condition in NEUTRAL_CONDITIONS:
        return Domain.NEITHER
    is_host_down = condition is Condition.DEVICE_DOWN and finding.subject.role == "host"
    is_within_host = finding.cause in HOST_CAUSES and not condition.is_congestion
    return Domain.HOST if condition in HOST_CONDITIONS or is_host_down or is_within_host else Domain.NETWORK
