"""The guards: each can deny an action, and reports the limit and the observed value.

Surviving capacity denies an action that would leave a switch, or a plane of a pod, below a floor of uplink paths,
counting links that are down, drained or decided on as lost. Cool-down prevents repeated actions on one target.
Restoring is never denied.
"""

from collections.abc import Collection
from dataclasses import dataclass

from streams.fabric.inventory_rows import HOST_LINK
from streams.fabric.topology import Topology, TopologyLink
from streams.wire.models import Action, Verdict

TAKES_LINK_OUT = (Action.DRAIN_LINK, Action.REPAIR_LINK)
"""Actions after which the link carries no traffic until it is restored."""

TAKES_HOST_OUT = (Action.CORDON_HOST, Action.REBOOT_HOST)
"""No guard computes how many hosts a job can lose, so a person decides."""

CAPACITY = "surviving-capacity"
HOSTS = "hosts"
COOL_DOWN = "cool-down"


@dataclass(frozen=True, slots=True)
class GuardResult:
    """The result of a guard: `verdict` None allows the action; `limit` and `observed` are the constraint's values."""

    verdict: Verdict | None = None
    constraint: str = ""
    limit: float | None = None
    observed: float | None = None
    surviving: float | None = None


def surviving_capacity(topology: Topology, link: TopologyLink, missing: Collection[str], floor: float) -> GuardResult:
    """Return whether every group of this link keeps its floor without it.

    Without a host link, the host must keep another plane of the rail; otherwise a person decides. `missing` are the ids
    of links that already carry no traffic.
    """
    if link.role == HOST_LINK:
        rail = [uplink for uplink in topology.uplinks_of[link.lower.device] if uplink.rail == link.rail]
        remaining = sum(uplink.id != link.id and uplink.id not in missing for uplink in rail)
        surviving = remaining / len(rail)
        if remaining:
            return GuardResult(surviving=surviving)
        return GuardResult(Verdict.NEEDS_APPROVAL, CAPACITY, limit=1.0, observed=float(remaining), surviving=surviving)
    uplinks = topology.uplinks_of[link.lower.device]
    surviving = sum(uplink.id != link.id and uplink.id not in missing for uplink in uplinks) / len(uplinks)
    if link.plane is not None:
        surviving = min(surviving, topology.remaining_plane_ratio(link, missing))
    if surviving < floor:
        return GuardResult(Verdict.DENIED, CAPACITY, limit=floor, observed=surviving, surviving=surviving)
    return GuardResult(surviving=surviving)


def host_guard(action: Action) -> GuardResult:
    """Return whether a host may be taken out of use: only with a person's approval."""
    return GuardResult(Verdict.NEEDS_APPROVAL, HOSTS) if action in TAKES_HOST_OUT else GuardResult()


def cool_down(last_acted_ns: int | None, now_ns: int, cool_down_s: float) -> GuardResult:
    """Return whether the cool-down of a target is over; `last_acted_ns` is when it was last acted on or restored."""
    if last_acted_ns is None:
        return GuardResult()
    elapsed_s = (now_ns - last_acted_ns) / 1e9
    if elapsed_s < cool_down_s:
        return GuardResult(Verdict.DENIED, COOL_DOWN, limit=cool_down_s, observed=elapsed_s)
    return GuardResult()
