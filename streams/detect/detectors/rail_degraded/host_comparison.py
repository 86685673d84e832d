"""Compares the hosts of a job in one window: which carry less than the others on most of their rails, and why.

A synchronous job runs at the speed of its slowest host, so that all of its hosts carry the same: bytes alone find a
slow host only where its job does not wait for it. Counters of its own NICs separate it in any job.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streams.detect.detectors.rail_degraded.comparison import MAD_TO_SIGMA, median_of_others, spread_within
from streams.detect.detectors.rail_degraded.params import RailParams
from streams.detect.detectors.rail_degraded.screening import RailReason, Values


@dataclass(frozen=True, slots=True)
class HostCells:
    """One host in one window; see `HostRates`."""

    source: int
    rate_bps: float
    speed_bps: float
    rails: int
    stalled: int
    retransmitting: int


@dataclass(frozen=True, slots=True)
class HostVerdict:
    """One host in one window; `reason` is NONE where it was as its peers."""

    begin_ns: int
    end_ns: int
    reason: RailReason = RailReason.NONE
    rails: int = 0
    """Rails for which the reason holds; of SLOW all that were read."""
    read: int = 0
    rate_bps: float = 0.0
    usual_bps: float = 0.0
    """The median of the job's other hosts."""
    peers: int = 0
    is_busy: bool = False


def compare_hosts(
    params: RailParams, begin_ns: int, end_ns: int, hosts: Mapping[str, HostCells]
) -> dict[str, HostVerdict]:
    """Return the verdict on each host of a job; nothing where too few of them were read, each with enough rails."""
    hosts = {host: one for host, one in hosts.items() if one.rails > params.other_rails}
    cells, peers = list(hosts.values()), len(hosts) - 1
    if peers < params.peers:
        return {}
    rate = np.array([one.rate_bps for one in cells])
    rails = np.array([one.rails for one in cells])
    busy = rate >= params.busy * np.array([one.speed_bps for one in cells])
    usual = median_of_others(rate[:, None])[:, 0]
    stalled, retransmitting = (
        busy & _is_apart(np.array(counts), rails)
        for counts in ([one.stalled for one in cells], [one.retransmitting for one in cells])
    )
    slow = _is_slow(params, rate, usual, busy)
    found = {}
    for n, (host, one) in enumerate(hosts.items()):
        reason, count = RailReason.NONE, 0
        if stalled[n]:
            reason, count = RailReason.PCIE, one.stalled
        elif retransmitting[n]:
            reason, count = RailReason.RETRANSMITS, one.retransmitting
        elif slow[n]:
            reason, count = RailReason.SLOW, one.rails
        found[host] = HostVerdict(
            begin_ns, end_ns, reason, count, one.rails, one.rate_bps, float(usual[n]), peers, bool(busy[n])
        )  # fmt: skip
    return found


def _is_apart(counts: npt.NDArray[np.int64], rails: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return which hosts have more than half of their rails counted, where less than half of the others have."""
    most = 2 * counts > rails
    others = np.count_nonzero(most) - most
    apart: npt.NDArray[np.bool_] = most & (2 * others < len(counts) - 1)
    return apart


def _is_slow(params: RailParams, rate: Values, usual: Values, busy: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return which hosts carry less than their peers; an idle one is not slow."""
    behind = busy & (rate < params.slow * usual)
    limit = (usual - rate) / max(params.sigmas * MAD_TO_SIGMA, 1e-9)
    own = np.arange(len(rate))
    within = spread_within(rate[:, None], own, usual[:, None], limit[:, None], behind[:, None])[:, 0]
    slow: npt.NDArray[np.bool_] = behind & within
    return slow
