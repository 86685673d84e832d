"""Look-ups over the cases that `attribute` keeps: what touches a device, and what began together.

Made anew from the cases after a restart. Each look-up costs what lies at one device, and nothing of the rest of the
fabric; what a group is asked for each time that a case comes or goes costs the same however large it is.
"""

from collections.abc import Callable, Iterable, Mapping

from streams.detect.attribute.state import Case, devices_of
from streams.detect.attribute.time_clusters import Cluster, ClusterIndex, Member, Rank
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.topology import Topology
from streams.wire.models import Cause, Condition, Evidence, Finding, Status

GroupKey = tuple[str, ...]
"""What its members have in common: a device that links end at, a pod, a plane, a collector."""

_UNSEEN: GroupKey = ("unseen",)
"""All of whom nothing is read, wherever they are: where they are a large share of the fabric, that is one thing."""

LINKS = (Condition.LINK_DOWN, Condition.LINK_FLAP)


class Group:
    """Findings of one key that began one shortly after the other, as they are now; the first that could be told stands
    for all.
    """

    __slots__ = ("_finding_of", "_run", "key")

    def __init__(self, key: GroupKey, run: Cluster, finding_of: Callable[[str], Finding]) -> None:
        self.key = key
        self._run = run
        self._finding_of = finding_of

    @property
    def root_id(self) -> str:
        return self._run.root

    @property
    def root(self) -> Finding:
        return self._finding_of(self._run.root)

    @property
    def members(self) -> list[Finding]:
        """In the order of time."""
        return [self._finding_of(member.id) for member in self._run.ordered()]

    @property
    def strength(self) -> tuple[int, GroupKey]:
        """Of two groups that a finding is in, the larger explains it."""
        return len(self._run.members), self.key


class CaseIndex:
    """The cases by what they touch; told of every change of theirs."""

    def __init__(self, params: DetectParams, cases: Mapping[str, Case], topology: Topology) -> None:
        self._params = params.grouping
        self._unseen_ratio = params.stale.unseen_ratio
        self._cases = cases
        self._topology = topology
        self._at: dict[str, set[str]] = {}
        self._runs: dict[GroupKey, ClusterIndex] = {}
        self._gone: dict[str, dict[str, None]] = {}
        self._keys: dict[str, tuple[GroupKey, ...]] = {}
        self._devices_of: dict[GroupKey, dict[str, int]] = {}
        for case in cases.values():
            self.add(case.episode.finding)

    def add(self, finding: Finding) -> None:
        """A new case, or one whose episode changed."""
        for device in devices_of(finding):
            self._at.setdefault(device, set()).add(finding.id)
            if finding.condition is Condition.DEVICE_DOWN:
                self._gone.setdefault(device, {})[finding.id] = None
        keys = () if finding.status is Status.RETRACTED else tuple(self._keys_of(finding))
        self._leave(finding.id, (key for key in self._keys.get(finding.id, ()) if key not in keys))
        self._keys[finding.id] = keys
        if keys:
            device = finding.subject.a.device if finding.subject.a is not None else ""
            tier = known.tier if (known := self._topology.devices.get(device)) else ""
            member = Member(
                finding.started_at_ns, finding.id, root_rank(finding), finding.subject.id, device, tier
            )  # fmt: skip
            for key in keys:
                if key not in self._runs:
                    apart_s = self._params.links_s if key[0] == "links" else self._params.devices_s
                    self._runs[key] = ClusterIndex(ns(apart_s))
                self._runs[key].add(member)

    def remove(self, finding: Finding) -> None:
        """A case that is let go."""
        for device in devices_of(finding):
            self._at[device].discard(finding.id)
            if not self._at[device]:
                del self._at[device]
            if device in self._gone:
                self._gone[device].pop(finding.id, None)
                if not self._gone[device]:
                    del self._gone[device]
        self._leave(finding.id, self._keys.pop(finding.id, ()))

    def _leave(self, identity: str, keys: Iterable[GroupKey]) -> None:
        for key in keys:
            self._runs[key].remove(identity)
            if not self._runs[key]:
                del self._runs[key]

    def ids_at(self, device: str) -> Iterable[str]:
        """The cases that touch a device."""
        return sorted(self._at.get(device, ()))

    def count_at(self, device: str) -> int:
        """How many cases touch a device."""
        return len(self._at.get(device, ()))

    def findings_at(self, device: str) -> list[Finding]:
        """The episodes that touch a device, but those that were not so."""
        episodes = (self._cases[identity].episode.finding for identity in self.ids_at(device))
        return [finding for finding in episodes if finding.status is not Status.RETRACTED]

    @property
    def has_outage(self) -> bool:
        """Whether any device was gone lately."""
        return bool(self._gone)

    def outages_at(self, device: str) -> list[Finding]:
        """When a device was gone."""
        return [
            self._cases[identity].episode.finding
            for identity in self._gone.get(device, ())
            if self._cases[identity].episode.finding.status is not Status.RETRACTED
        ]

    def group_keys_of(self, identity: str) -> tuple[GroupKey, ...]:
        """The groups that a case may be in."""
        return self._keys.get(identity, ())

    def group_of(self, finding: Finding) -> Group | None:
        """The largest group that it began together with, or that stands for one with many; None where it is alone."""
        keys = self.group_keys_of(finding.id)
        found = (self.group_in(key, finding.id) for key in keys if key != _UNSEEN)
        group = max((group for group in found if group is not None), key=lambda group: group.strength, default=None)
        if _UNSEEN in keys and (group is None or group.root_id == finding.id):
            return self.group_in(_UNSEEN, finding.id) or group
        return group

    def group_in(self, key: GroupKey, identity: str) -> Group | None:
        """The group of one key that a case is in; None where there are too few of them."""
        run = self._runs[key].cluster_of(identity) if key in self._runs else None
        return Group(key, run, self._finding_of) if run is not None and self._suffices(key, run) else None

    def _finding_of(self, identity: str) -> Finding:
        return self._cases[identity].episode.finding

    def _suffices(self, key: GroupKey, run: Cluster) -> bool:
        """Whether these are too many for chance."""
        if key[0] not in ("pod", "plane", "unseen"):
            return run.subjects >= (2 if key[0] == "collector" else self._params.links)
        if run.subjects < self._params.devices:
            return False
        if key == _UNSEEN:
            return run.subjects >= self._unseen_ratio * len(self._topology.devices)
        tiers = self._tiers(key)
        return any(
            count >= self._params.devices_ratio * tiers.get(tier, 0) for tier, count in run.tiers.items() if tier
        )

    def device_count(self, key: GroupKey) -> int:
        """How many devices a pod or a plane has."""
        return sum(self._tiers(key).values())

    def _tiers(self, key: GroupKey) -> dict[str, int]:
        """How many devices of each tier a pod has, or switches a plane."""
        if not self._devices_of:
            for device in self._topology.devices.values():
                for own in _groups_of(device.pod, device.plane):
                    tiers = self._devices_of.setdefault(own, {})
                    tiers[device.tier] = tiers.get(device.tier, 0) + 1
        return self._devices_of.get(key, {})

    def _keys_of(self, finding: Finding) -> Iterable[GroupKey]:
        if finding.condition in LINKS:
            return (("links", device) for device in devices_of(finding))
        if finding.subject.a is None or finding.condition not in (Condition.DEVICE_DOWN, Condition.TELEMETRY_STALE):
            return ()
        known = self._topology.devices.get(finding.subject.a.device)
        if finding.condition is Condition.DEVICE_DOWN:
            return _groups_of(known.pod, known.plane) if known else ()
        if finding.cause is Cause.COLLECTOR:
            return (("collector", _silence(finding).collector),)
        pod = known.pod if known else ""
        if finding.cause is Cause.PATH and pod:
            return ("path", pod, _silence(finding).source.label), _UNSEEN
        return (*_groups_of(pod, None), _UNSEEN) if known else ()


def _silence(finding: Finding) -> Evidence:
    """Return the evidence of a silent source: its collector and its source."""
    return finding.evidence[0] if finding.evidence else Evidence("")


def _groups_of(pod: str, plane: int | None) -> tuple[GroupKey, ...]:
    return (*((("pod", pod),) if pod else ()), *((("plane", str(plane)),) if plane is not None else ()))


def root_rank(finding: Finding) -> Rank:
    """A device before what is only silent; then the first that could be told, which hardly changes as more come in.

    Of those of one moment it is the subject that decides: an id differs from one day to the next.
    """
    told_ns = finding.detected_at_ns or finding.started_at_ns
    silent = finding.condition is Condition.TELEMETRY_STALE
    return silent, told_ns, finding.started_at_ns, finding.subject.id, finding.id
