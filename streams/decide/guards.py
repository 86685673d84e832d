"""The guards: each can forbid an action, and says by which number.

Surviving capacity keeps every switch, and every plane of a pod, above a floor of paths upwards, counted over what is
already down, drained or decided. Cool-down keeps a target from being acted on over and over. Restoring is never
forbidden.
"""

from collections.abc import Collection
from dataclasses import dataclass

from streams.fabric.inventory_rows import HOST_LINK
from streams.fabric.topology import Topology, TopologyLink
from streams.wire.models import Action, Verdict

TAKES_LINK_OUT = (Action.DRAIN_LINK, Action.REPAIR_LINK)
"""Actions after which the link carries nothing until it is restored."""

TAKES_HOST_OUT = (Action.CORDON_HOST, Action.REBOOT_HOST)
"""Nothing here counts how many hosts a job can spare: a person decides."""

CAPACITY = "surviving-capacity"
HOSTS = "hosts"
COOL_DOWN = "cool-down"


@dataclass(frozen=True, slots=True)
class GuardResult:
    """What a guard says: `verdict` None lets the action pass. `limit` and `observed` are the constraint's numbers."""

    verdict: Verdict | None = None
    constraint: str = ""
    limit: float | None = None
    observed: float | None = None
    surviving: float | None = None


def surviving_capacity(topology: Topology, cable: TopologyLink, missing: Collection[str], floor: float) -> GuardResult:
    """Would every group that this link belongs to keep its floor without it?

    A host link needs the host to keep another plane of the rail; otherwise a person decides. `missing` are the ids of
    links that carry nothing already.
    """
    if cable.role == HOST_LINK:
        rail = [c for c in topology.uplinks_of[cable.lower.device] if c.rail == cable.rail]
        kept = sum(c.id != cable.id and c.id not in missing for c in rail)
        surviving = kept / len(rail)
        if kept:
            return GuardResult(surviving=surviving)
        return GuardResult(Verdict.NEEDS_APPROVAL, CAPACITY, limit=1.0, observed=float(kept), surviving=surviving)
    own = topology.uplinks_of[cable.lower.device]
    surviving = sum(c.id != cable.id and c.id not in missing for c in own) / len(own)
    if cable.plane is not None:
        surviving = min(surviving, topology.remaining_plane_ratio(cable, missing))
    if surviving < floor:
        return GuardResult(Verdict.DENIED, CAPACITY, limit=floor, observed=surviving, surviving=surviving)
    return GuardResult(surviving=surviving)


def host_guard(action: Action) -> GuardResult:
    """May a host be taken out of use? Not without a person."""
    return GuardResult(Verdict.NEEDS_APPROVAL, HOSTS) if action in TAKES_HOST_OUT else GuardResult()


def cool_down(last_acted_ns: int | None, now_ns: int, cool_down_s: float) -> GuardResult:
    """Has the target been left alone for long enough? `last_acted_ns` is when it was last acted on or restored."""
    if last_acted_ns is None:
        return GuardResult()
    elapsed_s = (now_ns - last_acted_ns) / 1e9
    if elapsed_s < cool_down_s:
        return GuardResult(Verdict.DENIED, COOL_DOWN, limit=cool_down_s, observed=elapsed_s)
    return GuardResult()
