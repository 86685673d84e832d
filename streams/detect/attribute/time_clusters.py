"""What began together: findings in order of time, in runs of which each began shortly after the one before.

Kept as findings come and go. A burst puts thousands into one run one after the other, and asks after each which is the
first of them and how many they are: that costs a place in an ordered list, and nothing of all the others.
"""

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from typing import NamedTuple

Rank = tuple[bool, int, int, str, str]
"""The least stands for all of its run; it ends with the id."""


class Member(NamedTuple):
    """What of a finding decides where it is in which run; first by what they are ordered."""

    started_at_ns: int
    id: str
    rank: Rank
    subject: str
    device: str
    tier: str


class Cluster:
    """Members that began one shortly after the other."""

    __slots__ = ("_devices", "_ranks", "_subjects", "members", "tiers")

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}
        self.tiers: dict[str, int] = {}
        """How many devices of each tier they are of."""
        self._subjects: dict[str, int] = {}
        self._devices: dict[str, int] = {}
        self._ranks: list[Rank] = []

    @property
    def subjects(self) -> int:
        """How many things they are of."""
        return len(self._subjects)

    @property
    def root(self) -> str:
        """The id of the one that stands for all; of those that left, the ranks are let go when they come first."""
        while (known := self.members.get(self._ranks[0][-1])) is None or known.rank != self._ranks[0]:
            heapq.heappop(self._ranks)
        return self._ranks[0][-1]

    def ordered(self) -> list[Member]:
        """All of them by when they began."""
        return sorted(self.members.values())

    def add(self, member: Member) -> None:
        """One that was not among them."""
        self.members[member.id] = member
        heapq.heappush(self._ranks, member.rank)
        self._subjects[member.subject] = self._subjects.get(member.subject, 0) + 1
        if member.device:
            count = self._devices[member.device] = self._devices.get(member.device, 0) + 1
            if count == 1:
                self.tiers[member.tier] = self.tiers.get(member.tier, 0) + 1

    def remove(self, member: Member) -> None:
        """One that was among them is no more."""
        del self.members[member.id]
        _one_less(self._subjects, member.subject)
        if member.device and _one_less(self._devices, member.device):
            _one_less(self.tiers, member.tier)


class ClusterIndex:
    """All findings of one key, those within `apart_ns` of the one before in one run with it."""

    __slots__ = ("_apart_ns", "_order", "_run_of")

    def __init__(self, apart_ns: int) -> None:
        self._apart_ns = apart_ns
        self._order: list[Member] = []
        self._run_of: dict[str, Cluster] = {}

    def __len__(self) -> int:
        return len(self._order)

    def cluster_of(self, identity: str) -> Cluster | None:
        """The run that a finding is in; it may be alone in it."""
        return self._run_of.get(identity)

    def add(self, member: Member) -> None:
        """A finding that is new, or of which something changed."""
        run = self._run_of.get(member.id)
        if run is not None:
            if run.members[member.id] == member:
                return
            self.remove(member.id)
        insort(self._order, member)
        place = bisect_left(self._order, member)
        alone = Cluster()
        alone.add(member)
        self._run_of[member.id] = alone
        for before in (place - 1, place):
            if 0 <= before < len(self._order) - 1 and self._joins(before, before + 1):
                self._join(self._order[before], self._order[before + 1])

    def remove(self, identity: str) -> None:
        """A finding that is let go, or belongs elsewhere; what it held together falls apart."""
        run = self._run_of.pop(identity)
        member = run.members[identity]
        place = bisect_left(self._order, member)
        run.remove(member)
        del self._order[place]
        between = 0 < place < len(self._order)
        held = between and run.members.keys() >= {self._order[place - 1].id, self._order[place].id}
        if held and not self._joins(place - 1, place):
            self._split(run, place)

    def _joins(self, before: int, after: int) -> bool:
        return self._order[after].started_at_ns - self._order[before].started_at_ns <= self._apart_ns

    def _join(self, one: Member, other: Member) -> None:
        """Two runs become the larger of them; one that comes into the midst of a run is in it already."""
        few, many = sorted((self._run_of[one.id], self._run_of[other.id]), key=lambda run: len(run.members))
        if few is many:
            return
        for member in few.members.values():
            many.add(member)
            self._run_of[member.id] = many

    def _split(self, run: Cluster, place: int) -> None:
        """The smaller part, before or from that place of all, becomes a run of its own."""
        parted = Cluster()
        for member in _shorter(run, self._order, place):
            run.remove(member)
            parted.add(member)
            self._run_of[member.id] = parted


def _shorter(run: Cluster, order: list[Member], place: int) -> Iterable[Member]:
    """Of a run the members before a place, or those from it on, whichever are fewer."""
    before: list[Member] = []
    after: list[Member] = []
    down: Iterator[int] = iter(range(place - 1, -1, -1))
    for up in range(place, len(order) + 1):
        if up == len(order) or order[up].id not in run.members:
            return after
        after.append(order[up])
        at = next(down, -1)
        if at < 0 or order[at].id not in run.members:
            return before
        before.append(order[at])
    return after


def _one_less(counts: dict[str, int], name: str) -> bool:
    """Count one less; whether it was the last."""
    counts[name] -= 1
    if counts[name]:
        return False
    del counts[name]
    return True
