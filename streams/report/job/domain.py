"""Attributes what affected a job to the network or to its hosts.

A fault of a host stops a job as well as one of the network does: only the second makes the network of the job unclean.
"""

from streams.detect.detector import JobDomain
from streams.detect.detectors import DETECTORS
from streams.wire.models import Cause, Condition, Finding

HOST_CONDITIONS = frozenset(one.condition for one in DETECTORS if one.job_domain is JobDomain.HOST)
NEUTRAL_CONDITIONS = frozenset(one.condition for one in DETECTORS if one.job_domain is JobDomain.NEITHER)
"""Conditions of the observation and of versions: they stop no traffic."""
HOST_CAUSES = frozenset(
    {
        Cause.HOST, Cause.PCIE, Cause.PCIE_WIDTH, Cause.PCIE_SPEED, Cause.GPU, Cause.GPU_MEMORY, Cause.GPU_OFF_BUS,
        Cause.NVLINK,
    }
)  # fmt: skip
"""Causes within a host, also of a slow rail. Congestion that they cause is one of the network for the other jobs."""


def domain_of(finding: Finding) -> JobDomain:
    """Return the domain of a finding; by its detector and its cause."""
    condition = finding.condition
    if condition in NEUTRAL_CONDITIONS:
        return JobDomain.NEITHER
    is_host_down = condition is Condition.DEVICE_DOWN and finding.subject.role == "host"
    is_within_host = finding.cause in HOST_CAUSES and not condition.is_congestion
    return JobDomain.HOST if condition in HOST_CONDITIONS or is_host_down or is_within_host else JobDomain.NETWORK
