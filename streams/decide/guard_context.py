"""Defines the input of the guards: the proposed action, the state of the fabric and of the controls, and the capacity
that survives the action.
"""

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Protocol

from streams.decide.capacity import Capacity, Surviving
from streams.decide.link_states import Block
from streams.decide.params import DecideParams
from streams.decide.state import Isolations
from streams.fabric.ids import device_id
from streams.fabric.inventory_rows import HOST_LINK
from streams.fabric.topology import Topology, TopologyLink
from streams.wire.models import Action, Control, Endpoint, Finding, SchedulerAnswer, Subject


class ControlsView(Protocol):
    """The controls that the guards read."""

    def kill_switch(self, now_ns: int) -> Control | None:
        """Return an active kill switch; also one until the topic is read to its end, because it may have one."""
        ...

    def maintenance(self, target: Subject, now_ns: int) -> Control | None:
        """Return an active maintenance of a target."""
        ...

    def exclusion(self, target: Subject, now_ns: int) -> Control | None:
        """Return an active exclusion of a target."""
        ...


class LinkStatesView(Protocol):
    """The observed states of links that the guards read."""

    @property
    def blocked(self) -> Mapping[str, Block]:
        """Return the links of the inventory that are not proven to carry traffic (down, stale or unobserved), by id."""
        ...

    def evidence_gap(self, link_id: str) -> tuple[str, str]:
        """Return why the readings of a link are no evidence (an end is not read, or sources contradict), and where."""
        ...

    def observed_ns(self, device: str) -> int | None:
        """Return the time of the last observation of a device; None for a device without one."""
        ...


@dataclass(frozen=True, slots=True)
class Proposal:
    """An action that the policy proposes. `relapse` marks the drain of a link that failed again on probation."""

    action: Action
    target: Subject
    finding: Finding | None
    """None for an order without a known finding, which must not need one (UNGUARDED)."""
    link: TopologyLink | None
    """The link of the target; None if the inventory has none."""
    attempt: int = 1
    relapse: bool = False
    members: tuple[str, ...] = ()
    """The switches of the target, if it is a pod."""
    is_out: bool = False
    """True for an order whose target is proven to be out of service, so that it takes no capacity."""

    @property
    def targets(self) -> tuple[Subject, ...]:
        """Return the target and its members, because a control may name any of them."""
        return self.target, *(Subject(device_id(name), Endpoint(name)) for name in self.members)

    @property
    def devices(self) -> tuple[str, ...]:
        """Return the devices of the target."""
        if self.members:
            return self.members
        if self.link is not None:
            return self.link.lower.device, self.link.upper.device
        return tuple(end.device for end in (self.target.a, self.target.z) if end is not None)


class LostLinks:
    """Counts the reasons why links carry nothing, whatever their ports report; a change costs its own links only."""

    def __init__(self, capacity: Capacity, names: Iterable[str] = ()) -> None:
        self.capacity = capacity
        self._reasons: dict[str, int] = {}
        for name in names:
            self.change(name, 1)

    @property
    def links(self) -> AbstractSet[str]:
        """Return the ids of the links, a view."""
        return self._reasons.keys()

    def change(self, name: str, by: int) -> None:
        """Add or remove a reason for the links with a name: of a link, device, pod, plane or rail."""
        for link in self.capacity.links_named(name):
            self._reasons[link] = self._reasons.get(link, 0) + by
            if not self._reasons[link]:
                del self._reasons[link]


@dataclass(slots=True)
class Computed:
    """Results for one version of the isolations, cached."""

    version: int = -1
    isolated: list[int] = field(default_factory=list)
    """The links between switches that are isolated."""
    least: dict[tuple[int, ...], Surviving] = field(default_factory=dict)
    """Links -> the group that survives without them with the lowest ratio."""


@dataclass(frozen=True)
class GuardContext:
    """The state at one time. A new message needs a new context; isolations may be added in between."""

    now_ns: int
    params: DecideParams
    topology: Topology
    controls: ControlsView
    link_states: LinkStatesView
    isolations: Isolations
    capacity: Capacity
    """The capacity of this topology, which the guards update."""
    lost_links: AbstractSet[str] = frozenset()
    """Links that a finding reports down, at a device that one reports down, or under a maintenance (LostLinks)."""
    miscabled: Collection[str] = ()
    """Ids of links with an open finding that their LLDP neighbors contradict the inventory."""
    dead: Collection[str] = ()
    """Devices that are proven dead, without those that only restart."""
    schedulers: Mapping[str, SchedulerAnswer] = field(default_factory=dict)
    """Scheduler -> how well it answers the jobs collector."""
    approved_by: str = ""
    """The person who approved the proposal; satisfies guards that ask for approval, but lifts no denial."""
    computed: Computed = field(default_factory=Computed)
    _refreshed: set[int] = field(default_factory=set)

    @cached_property
    def maintained_links(self) -> frozenset[str]:
        """Return the links of devices that the inventory has in maintenance."""
        devices = (device for device, until_ns in self.capacity.maintenance if until_ns > self.now_ns)
        return frozenset(link.id for device in devices for link in self.topology.links_of.get(device, ()))

    @cached_property
    def dead_links(self) -> frozenset[str]:
        """Return the links of dead devices that an end reports down; an unobserved link or one that is up may carry."""
        links = (link.id for device in self.dead for link in self.topology.links_of.get(device, ()))
        return frozenset(link for link in links if self.link_states.blocked.get(link, Block.NONE) >= Block.DOWN)

    def carries(self, link: TopologyLink) -> bool:
        """Return whether a link of the inventory is proven to carry traffic; isolations are not considered."""
        return not any(link.id in unused for unused in self.unused)

    @property
    def unused(self) -> tuple[AbstractSet[str], ...]:
        """Return the links that are not proven to carry, and those that carry nothing whatever their ports report."""
        return self.link_states.blocked.keys(), self.lost_links, self.maintained_links

    def current_capacity(self, link: int) -> Capacity:
        """Return the capacity with the current states of all links that a decision on this link counts."""
        for pod in self.capacity.pods_of(link) - self._refreshed:
            self.capacity.refresh(pod, *self.unused)
            self.capacity.set_dead(pod, self.dead_links)
            self._refreshed.add(pod)
        return self.capacity


def touched_links(proposal: Proposal, context: GuardContext) -> tuple[TopologyLink, ...]:
    """Return the link of a proposal, and the links that its repair interrupts too; empty without a link."""
    if proposal.link is None:
        return ()
    is_repaired = proposal.action in (Action.DRAIN_LINK, Action.REPAIR_LINK)
    return proposal.link, *(context.topology.handled_with(proposal.link) if is_repaired else ())


def least_surviving(
    link: TopologyLink, context: GuardContext, touched: Collection[TopologyLink] = ()
) -> Surviving | None:
    """Return the group that retains the lowest ratio without a link between switches; None if it has no group.

    The links that are `touched` with it count as lost too, and so do links that a decision isolated, even if their
    ports are up.
    """
    number = context.capacity.number_of(link)
    if number is None:
        return None
    isolated = isolated_links(context)
    least = context.computed.least
    others = {own for one in touched if (own := context.capacity.number_of(one)) is not None} - {number}
    numbers = (number, *sorted(others))
    if numbers not in least:
        for one in numbers:
            context.current_capacity(one)
        least[numbers] = context.capacity.least(numbers, isolated)
    return least[numbers]


def isolated_links(context: GuardContext) -> list[int]:
    """Return the numbers of the links between switches that decisions took out of service."""
    computed, isolations = context.computed, context.isolations
    if computed.version != isolations.version:
        found = (context.topology.links.get(target) for target in isolations.active)
        numbers = (context.capacity.number_of(link) for link in found if link is not None)
        computed.isolated = [number for number in numbers if number is not None]
        computed.version, computed.least = isolations.version, {}
    return computed.isolated


def other_planes(link: TopologyLink, context: GuardContext, touched: Collection[TopologyLink] = ()) -> list[bool]:
    """Return, for each other link of the same host and rail, whether it is in service and proven to carry."""
    interrupted = {one.id for one in touched}
    return [
        other.id not in interrupted and other.id not in context.isolations.active and context.carries(other)
        for other in context.topology.uplinks_of[link.lower.device]
        if other.rail == link.rail and other.id != link.id
    ]


def job_without_plane(link: TopologyLink, context: GuardContext) -> str:
    """Return a job on a host link's host, at another host of which a link of the same plane is not in use; else empty.

    The links that are not in use are searched, because a job may have all hosts of the fabric.
    """
    topology, own = context.topology, link.lower.device
    jobs = topology.jobs_on((own,), context.now_ns)
    if not any(len(topology.placement.all_hosts_of(job)) > 1 for job in jobs):
        return ""
    unused = (context.isolations.active, *context.unused)
    for other in filter(None, map(topology.links.get, chain.from_iterable(unused))):
        if other.role == HOST_LINK and other.plane == link.plane and other.lower.device != own:
            shared = set(jobs).intersection(topology.jobs_on((other.lower.device,), context.now_ns))
            if shared:
                return min(shared)
    return ""
