"""Clusters findings by start time: each member starts shortly after the one before it.

Updated as findings come and go. A burst adds thousands of members to one cluster one after the other and queries its
root and its size after each: that costs one insertion into an ordered list, independent of the other clusters.
"""

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from typing import NamedTuple

Rank = tuple[bool, int, int, str, str]
"""The member with the lowest rank is the root of its cluster. The last element is the id."""


class Member(NamedTuple):
    """The fields of a finding that decide its cluster and its place there; ordered by the first fields."""

    started_at_ns: int
    id: str
    rank: Rank
    subject: str
    device: str
    tier: str


class Cluster:
    """Members of which each started shortly after the one before."""

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
        """Return the number of different subjects."""
        return len(self._subjects)

    @property
    def root_id(self) -> str:
        """Return the id of the root. Ranks of members that left are removed when they reach the top."""
        while (member := self.members.get(self._ranks[0][-1])) is None or member.rank != self._ranks[0]:
            heapq.heappop(self._ranks)
        return self._ranks[0][-1]

    def ordered(self) -> list[Member]:
        """Return the members by start time."""
        return sorted(self.members.values())

    def add(self, member: Member) -> None:
        """Add a new member."""
        self.members[member.id] = member
        heapq.heappush(self._ranks, member.rank)
        self._subjects[member.subject] = self._subjects.get(member.subject, 0) + 1
        if member.device:
            count = self._devices[member.device] = self._devices.get(member.device, 0) + 1
            if count == 1:
                self.tiers[member.tier] = self.tiers.get(member.tier, 0) + 1

    def remove(self, member: Member) -> None:
        """Remove a member."""
        del self.members[member.id]
        _decrement(self._subjects, member.subject)
        if member.device and _decrement(self._devices, member.device):
            _decrement(self.tiers, member.tier)


class ClusterIndex:
    """The findings of one group key; those at most `max_gap_ns` apart are in one cluster."""

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
        """Remove a finding and split its cluster where the gap becomes too large."""
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
        """Move the smaller cluster into the larger; two members of one cluster need no merge."""
        small, large = sorted(
            (self._cluster_by_id[one.id], self._cluster_by_id[other.id]), key=lambda cluster: len(cluster.members)
        )
        if small is large:
            return
        for member in small.members.values():
            large.add(member)
            self._cluster_by_id[member.id] = large

    def _split(self, cluster: Cluster, index: int) -> None:
        """Move the smaller part, before or from an index of the order on, into a new cluster."""
        new = Cluster()
        for member in _smaller_part(cluster, self._order, index):
            cluster.remove(member)
            new.add(member)
            self._cluster_by_id[member.id] = new


def _smaller_part(cluster: Cluster, order: list[Member], index: int) -> Iterable[Member]:
    """Return the members of a cluster before an index, or those from it on, whichever are fewer."""
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
