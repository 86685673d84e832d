"""Groups findings that may have one root cause: those of one device, pod, plane or collector that start together.

Updated as findings come and go. What a group is queried for after each change costs the same however large it is.
"""

from collections.abc import Callable, Iterable

from streams.detect.attribute.sides import DetectorParams, fabric_side
from streams.detect.attribute.time_clusters import Cluster, ClusterIndex, Member, Rank
from streams.detect.fabric_side import GroupKey, GroupKind, detection_order, location_keys
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.topology import Topology
from streams.wire.models import Finding, Status

_FABRIC = GroupKey(GroupKind.FABRIC)
_MIN_OF_COLLECTOR = 2
_OF_DEVICES = (GroupKind.POD, GroupKind.PLANE, GroupKind.FABRIC, GroupKind.CLOCKS)


class Group:
    """The findings of one key that started shortly after each other. The first detected is the root."""

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
        """Return the findings by start time."""
        return [self._finding_of(member.id) for member in self._cluster.ordered()]

    @property
    def strength(self) -> tuple[int, GroupKey]:
        """Return the sort key by which the largest of several groups explains a finding."""
        return len(self._cluster.members), self.key


class GroupIndex:
    """The findings of each group key, clustered by start time."""

    def __init__(self, params: DetectParams, topology: Topology, finding_of: Callable[[str], Finding]) -> None:
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
        group_keys = fabric_side(finding).group_keys
        if group_keys is not None and finding.status is not Status.RETRACTED:
            keys = group_keys(finding, self._topology)
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
        """Remove a finding that is evicted."""
        self._leave(identity, self._keys_by_id.pop(identity, ()))

    def keys_of(self, identity: str) -> tuple[GroupKey, ...]:
        """Return the keys of the groups that a finding may belong to."""
        return self._keys_by_id.get(identity, ())

    def group_of(self, finding: Finding) -> Group | None:
        """Return the largest group of a finding; None if it is in none.

        The group of the whole fabric counts for a finding without another group, or for the root of one.
        """
        keys = self.keys_of(finding.id)
        candidates = (self.group_in(key, finding.id) for key in keys if key != _FABRIC)
        group = max(
            (group for group in candidates if group is not None), key=lambda group: group.strength, default=None
        )
        if _FABRIC in keys and (group is None or group.root_id == finding.id):
            return self.group_in(_FABRIC, finding.id) or group
        return group

    def group_in(self, key: GroupKey, identity: str) -> Group | None:
        """Return the group of one key that a finding belongs to; None if it has too few members."""
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
        """Return whether these are too many to be independent."""
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
        return self._tiers_by_key.get(key, {})


def root_rank(finding: Finding) -> Rank:
    """Return the rank of a finding as the root of its group; the lowest is the root.

    The outage of a device comes before missing data, then the first detected.
    """
    return fabric_side(finding).is_silence, *detection_order(finding)
