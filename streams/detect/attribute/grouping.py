"""Groups findings that may have one root cause: those of one device, pod, plane or collector that start together.

Updated whenever findings are added or removed. The cost of a query does not depend on the size of the group.
"""

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from streams.detect.attribute.sides import DetectorParams, fabric_side
from streams.detect.fabric_side import (
    CapacityEffect,
    GroupKey,
    GroupKind,
    detection_order,
    in_maintenance,
    location_keys,
)
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.topology import Topology
from streams.wire.models import Finding, Status

Rank = tuple[bool, int, int, str, str]
"""The sort key of members: the member with the lowest rank is the root of its cluster. The last element is the id."""


class Member(NamedTuple):
    """The fields of a finding that determine its cluster and its position in it; ordered by the first fields."""

    started_at_ns: int
    id: str
    rank: Rank
    subject: str
    device: str
    tier: str


class Cluster:
    """Members that each started shortly after the previous one."""

    __slots__ = ("_devices", "_ranks", "_subjects", "members", "tiers")

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}
        self.tiers: dict[str, int] = {}
        """The number of affected devices by tier."""
        self._subjects: dict[str, int] = {}
        self._devices: dict[str, int] = {}
        self._ranks: list[Rank] = []

    @property
    def subject_count(self) -> int:
        return len(self._subjects)

    @property
    def root_id(self) -> str:
        """Return the id of the root. Ranks of removed members are discarded when they reach the top."""
        while (member := self.members.get(self._ranks[0][-1])) is None or member.rank != self._ranks[0]:
            heapq.heappop(self._ranks)
        return self._ranks[0][-1]

    def ordered(self) -> list[Member]:
        return sorted(self.members.values())

    def add(self, member: Member) -> None:
        self.members[member.id] = member
        heapq.heappush(self._ranks, member.rank)
        self._subjects[member.subject] = self._subjects.get(member.subject, 0) + 1
        if member.device:
            count = self._devices[member.device] = self._devices.get(member.device, 0) + 1
            if count == 1:
                self.tiers[member.tier] = self.tiers.get(member.tier, 0) + 1

    def remove(self, member: Member) -> None:
        del self.members[member.id]
        _decrement(self._subjects, member.subject)
        if member.device and _decrement(self._devices, member.device):
            _decrement(self.tiers, member.tier)


class ClusterIndex:
    """The findings of one group key; findings at most `max_gap_ns` apart are in one cluster."""

    __slots__ = ("_cluster_by_id", "_max_gap_ns", "_order")

    def __init__(self, max_gap_ns: int) -> None:
        self._max_gap_ns = max_gap_ns
        self._order: list[Member] = []
        self._cluster_by_id: dict[str, Cluster] = {}

    def __len__(self) -> int:
        return len(self._order)

    def cluster_of(self, identity: str) -> Cluster | None:
        """Return the cluster of a finding, which may be its only member."""
        return self._cluster_by_id.get(identity)

    def add(self, member: Member) -> None:
        """Add a finding, or replace its former state."""
        cluster = self._cluster_by_id.get(member.id)
        if cluster is not None:
            if cluster.members[member.id] == member:
                return
            self.remove(member.id)
        insort(self._order, member)
        index = bisect_left(self._order, member)
        single = Cluster()
        single.add(member)
        self._cluster_by_id[member.id] = single
        for earlier in (index - 1, index):
            if 0 <= earlier < len(self._order) - 1 and self._is_adjacent(earlier, earlier + 1):
                self._merge(self._order[earlier], self._order[earlier + 1])

    def remove(self, identity: str) -> None:
        """Remove a finding, and split its cluster if the gap becomes too large."""
        cluster = self._cluster_by_id.pop(identity)
        member = cluster.members[identity]
        index = bisect_left(self._order, member)
        cluster.remove(member)
        del self._order[index]
        is_between = 0 < index < len(self._order)
        was_bridge = is_between and cluster.members.keys() >= {self._order[index - 1].id, self._order[index].id}
        if was_bridge and not self._is_adjacent(index - 1, index):
            self._split(cluster, index)

    def _is_adjacent(self, earlier: int, later: int) -> bool:
        return self._order[later].started_at_ns - self._order[earlier].started_at_ns <= self._max_gap_ns

    def _merge(self, one: Member, other: Member) -> None:
        """Move the smaller cluster into the larger; no effect on two members of one cluster."""
        small, large = sorted(
            (self._cluster_by_id[one.id], self._cluster_by_id[other.id]), key=lambda cluster: len(cluster.members)
        )
        if small is large:
            return
        for member in small.members.values():
            large.add(member)
            self._cluster_by_id[member.id] = large

    def _split(self, cluster: Cluster, index: int) -> None:
        """Move the smaller part of a cluster, before or from an index of the order, into a new cluster."""
        new = Cluster()
        for member in _smaller_part(cluster, self._order, index):
            cluster.remove(member)
            new.add(member)
            self._cluster_by_id[member.id] = new


def _smaller_part(cluster: Cluster, order: list[Member], index: int) -> Iterable[Member]:
    """Return the members of a cluster before an index or from it on, whichever are fewer."""
    before: list[Member] = []
    after: list[Member] = []
    downwards: Iterator[int] = iter(range(index - 1, -1, -1))
    for upwards in range(index, len(order) + 1):
        if upwards == len(order) or order[upwards].id not in cluster.members:
            return after
        after.append(order[upwards])
        at = next(downwards, -1)
        if at < 0 or order[at].id not in cluster.members:
            return before
        before.append(order[at])
    return after


def _decrement(counts: dict[str, int], name: str) -> bool:
    """Decrement a count; return whether it reached zero and was removed."""
    counts[name] -= 1
    if counts[name]:
        return False
    del counts[name]
    return True


_MIN_OF_COLLECTOR = 2
_MIN_OF_PART = 2
_OF_DEVICES = (GroupKind.POD, GroupKind.PLANE, GroupKind.FABRIC, GroupKind.CLOCKS)


class Group:
    """The findings of one key that each started shortly after another. The first detected is the root."""

    __slots__ = ("_cluster", "_finding_of", "key")

    def __init__(self, key: GroupKey, cluster: Cluster, finding_of: Callable[[str], Finding]) -> None:
        self.key = key
        self._cluster = cluster
        self._finding_of = finding_of

    @property
    def root_id(self) -> str:
        return self._cluster.root_id

    @property
    def root(self) -> Finding:
        return self._finding_of(self._cluster.root_id)

    @property
    def members(self) -> list[Finding]:
        return [self._finding_of(member.id) for member in self._cluster.ordered()]

    @property
    def strength(self) -> tuple[int, GroupKey]:
        """Return the sort key that selects the largest of several groups."""
        return len(self._cluster.members), self.key


class GroupIndex:
    """The findings of each group key, clustered by start time."""

    def __init__(
        self, params: DetectParams, topology: Topology, finding_of: Callable[[str], Finding], watermark_ns: int
    ) -> None:
        self.watermark_ns = watermark_ns
        self._params = params.grouping
        self._min_silent_ratio = DetectorParams(params).min_silent_ratio
        self._topology = topology
        self._finding_of = finding_of
        self._clusters: dict[GroupKey, ClusterIndex] = {}
        self._keys_by_id: dict[str, tuple[GroupKey, ...]] = {}
        self._tiers_by_key: dict[GroupKey, dict[str, int]] = {}

    def add(self, finding: Finding) -> None:
        """Add a finding, or replace its former state."""
        keys: tuple[GroupKey, ...] = ()
        side = fabric_side(finding)
        if side.group_keys is not None and finding.status is not Status.RETRACTED:
            keys = side.group_keys(finding, self._topology)
            if in_maintenance(self._topology, finding, side, self.watermark_ns):
                keys = tuple(key._replace(is_planned=True) for key in keys)
        self._leave(finding.id, (key for key in self._keys_by_id.get(finding.id, ()) if key not in keys))
        self._keys_by_id[finding.id] = keys
        if keys:
            member = self._member(finding)
            for key in keys:
                clusters = self._clusters.get(key)
                if clusters is None:
                    max_gap_s = self._params.links_s if key.kind is GroupKind.LINKS else self._params.devices_s
                    clusters = self._clusters[key] = ClusterIndex(ns(max_gap_s))
                clusters.add(member)

    def remove(self, identity: str) -> None:
        self._leave(identity, self._keys_by_id.pop(identity, ()))

    def keys_of(self, identity: str) -> tuple[GroupKey, ...]:
        return self._keys_by_id.get(identity, ())

    def group_of(self, finding: Finding) -> Group | None:
        """Return the largest group of a finding, or None.

        The group of the whole fabric applies to a finding without another group, and to the root of a group.
        """
        keys = self.keys_of(finding.id)
        candidates = (self.group_in(key, finding.id) for key in keys if key.kind is not GroupKind.FABRIC)
        group = max(
            (group for group in candidates if group is not None), key=lambda group: group.strength, default=None
        )
        if group is None or group.root_id == finding.id:
            whole = (self.group_in(key, finding.id) for key in keys if key.kind is GroupKind.FABRIC)
            return next(whole, None) or group
        return group

    def group_in(self, key: GroupKey, identity: str) -> Group | None:
        """Return the group of one key to which a finding belongs; None if it has too few members."""
        cluster = self._clusters[key].cluster_of(identity) if key in self._clusters else None
        if cluster is None or not self._is_group(key, cluster):
            return None
        return Group(key, cluster, self._finding_of)

    def device_count(self, key: GroupKey) -> int:
        """Return the number of devices of a pod or a site, or of switches of a plane."""
        return sum(self._tiers(key).values())

    def _member(self, finding: Finding) -> Member:
        device = finding.subject.a.device if finding.subject.a is not None else ""
        tier = known.tier if (known := self._topology.devices.get(device)) else ""
        return Member(finding.started_at_ns, finding.id, root_rank(finding), finding.subject.id, device, tier)

    def _leave(self, identity: str, keys: Iterable[GroupKey]) -> None:
        for key in keys:
            self._clusters[key].remove(identity)
            if not self._clusters[key]:
                del self._clusters[key]

    def _is_group(self, key: GroupKey, cluster: Cluster) -> bool:
        """Return whether a cluster has too many members to be independent."""
        if key.kind is GroupKind.PART:
            links = len(self._topology.links_of_part.get(key.name, ()))
            return cluster.subject_count >= max(_MIN_OF_PART, self._params.devices_ratio * links)
        if key.kind is GroupKind.BOARD:  # of both kinds: what takes capacity from the network, and what takes none
            return len({takes_none for takes_none, *_ in (member.rank for member in cluster.members.values())}) > 1
        if key.kind not in _OF_DEVICES:
            minimum = _MIN_OF_COLLECTOR if key.kind is GroupKind.COLLECTOR else self._params.links
            return cluster.subject_count >= minimum
        if cluster.subject_count < self._params.devices:
            return False
        if key.kind is GroupKind.FABRIC:
            return cluster.subject_count >= self._min_silent_ratio * len(self._topology.devices)
        if key.kind is GroupKind.CLOCKS:
            return cluster.subject_count >= self._params.clocks_ratio * self.device_count(key)
        tiers = self._tiers(key)
        return any(
            count >= self._params.devices_ratio * tiers.get(tier, 0) for tier, count in cluster.tiers.items() if tier
        )

    def _tiers(self, key: GroupKey) -> dict[str, int]:
        """Return the number of devices of a pod or a site, or of switches of a plane, by tier."""
        if not self._tiers_by_key:
            for device in self._topology.devices.values():
                for own in (*location_keys(device.pod, device.plane), GroupKey(GroupKind.CLOCKS, device.site)):
                    tiers = self._tiers_by_key.setdefault(own, {})
                    tiers[device.tier] = tiers.get(device.tier, 0) + 1
        return self._tiers_by_key.get(key._replace(is_planned=False), {})


def root_rank(finding: Finding) -> Rank:
    """Return the rank of a finding as the root of its group; the lowest rank is the root.

    What takes capacity precedes what takes none, as missing data; otherwise the first detected finding precedes.
    """
    return fabric_side(finding).capacity is CapacityEffect.NONE, *detection_order(finding)
