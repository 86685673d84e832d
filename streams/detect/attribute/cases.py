"""Look-ups over the cases that `attribute` keeps: what touches a device, and what began together.

Made anew from the cases after a restart. Each look-up costs what lies at one device, or in one group, and nothing of
the rest of the fabric; who comes in later is put where it belongs when the group is asked for next.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from streams.detect.attribute.kept import Case, devices_of
from streams.detect.params import DetectParams, ns
from streams.fabric.topology import Topology
from streams.wire.models import Condition, Finding, Status

Key = tuple[str, ...]
"""What its members have in common: a device that links end at, a pod, a plane, a collector."""

_UNSEEN: Key = ("unseen",)
"""All of whom nothing is read, wherever they are: where they are a large share of the fabric, that is one thing."""

LINKS = (Condition.LINK_DOWN, Condition.LINK_FLAP)


class Group(NamedTuple):
    """Findings of one key that began one shortly after the other; the first that could be told stands for all."""

    key: Key
    root: Finding
    members: tuple[Finding, ...]

    @property
    def strength(self) -> tuple[int, Key]:
        """Of two groups that a finding is in, the larger explains it."""
        return len(self.members), self.key


class Cases:
    """The cases by what they touch; told of every change of theirs."""

    def __init__(self, params: DetectParams, cases: Mapping[str, Case], topology: Topology) -> None:
        self._params = params.together
        self._unseen_ratio = params.stale.unseen_ratio
        self._cases = cases
        self._topology = topology
        self._at: dict[str, set[str]] = {}
        self._of: dict[Key, set[str]] = {}
        self._gone: dict[str, dict[str, None]] = {}
        self._keys: dict[str, tuple[Key, ...]] = {}
        self._groups: dict[Key, dict[str, Group]] = {}
        self._devices_of: dict[Key, dict[str, int]] = {}
        for case in cases.values():
            self.add(case.episode.finding)

    def add(self, finding: Finding) -> None:
        """A new case, or one whose episode changed."""
        for device in devices_of(finding):
            self._at.setdefault(device, set()).add(finding.id)
            if finding.condition is Condition.DEVICE_DOWN:
                self._gone.setdefault(device, {})[finding.id] = None
        keys = () if finding.status is Status.RETRACTED else tuple(self._keys_of(finding))
        for key in {*keys, *self._keys.get(finding.id, ())}:
            self._groups.pop(key, None)
            (self._of.setdefault(key, set()).add if key in keys else self._leave(key).discard)(finding.id)
        self._keys[finding.id] = keys

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
        for key in self._keys.pop(finding.id, ()):
            self._groups.pop(key, None)
            self._leave(key).discard(finding.id)
            if not self._of[key]:
                del self._of[key]

    def _leave(self, key: Key) -> set[str]:
        return self._of.setdefault(key, set())

    def ids_at(self, device: str) -> Iterable[str]:
        """The cases that touch a device."""
        return sorted(self._at.get(device, ()))

    def at(self, device: str) -> list[Finding]:
        """The episodes that touch a device, but those that were not so."""
        episodes = (self._cases[identity].episode.finding for identity in self.ids_at(device))
        return [finding for finding in episodes if finding.status is not Status.RETRACTED]

    @property
    def any_gone(self) -> bool:
        """Whether any device was gone lately."""
        return bool(self._gone)

    def gone(self, device: str) -> list[Finding]:
        """When a device was gone."""
        return [
            self._cases[identity].episode.finding
            for identity in self._gone.get(device, ())
            if self._cases[identity].episode.finding.status is not Status.RETRACTED
        ]

    def keys_of(self, identity: str) -> tuple[Key, ...]:
        """The groups that a case may be in."""
        return self._keys.get(identity, ())

    def group_of(self, finding: Finding) -> Group | None:
        """The largest group that it began together with, or that stands for one with many; None where it is alone."""
        found = (self.groups(key).get(finding.id) for key in self.keys_of(finding.id) if key != _UNSEEN)
        group = max((group for group in found if group is not None), key=lambda group: group.strength, default=None)
        if group is None or group.root.id == finding.id:
            return self.groups(_UNSEEN).get(finding.id, group) if _UNSEEN in self.keys_of(finding.id) else group
        return group

    def groups(self, key: Key) -> dict[str, Group]:
        """The groups of one key, by the id of each member."""
        made = self._groups.get(key)
        if made is None:
            made = self._groups[key] = self._made(key)
        return made

    def _made(self, key: Key) -> dict[str, Group]:
        members = [self._cases[identity].episode.finding for identity in self._of.get(key, ())]
        apart_ns = ns(self._params.links_s if key[0] == "links" else self._params.devices_s)
        made: dict[str, Group] = {}
        run: list[Finding] = []
        for finding in [*sorted(members, key=lambda f: (f.started_at_ns, f.id)), None]:
            if run and (finding is None or finding.started_at_ns - run[-1].started_at_ns > apart_ns):
                if self._suffices(key, run):
                    group = Group(key, min(run, key=stands_for_all), tuple(run))
                    made |= dict.fromkeys((f.id for f in run), group)
                run = []
            if finding is not None:
                run.append(finding)
        return made

    def _suffices(self, key: Key, run: list[Finding]) -> bool:
        """Whether these are too many for chance."""
        subjects = {f.subject.id for f in run}
        if key[0] not in ("pod", "plane", "unseen"):
            return len(subjects) >= (2 if key[0] == "collector" else self._params.links)
        if len(subjects) < self._params.devices:
            return False
        if key == _UNSEEN:
            return len(subjects) >= self._unseen_ratio * len(self._topology.devices)
        gone: dict[str, int] = {}
        for device in {f.subject.a.device for f in run if f.subject.a is not None}:
            tier = known.tier if (known := self._topology.devices.get(device)) else ""
            gone[tier] = gone.get(tier, 0) + 1
        tiers = self._tiers(key)
        return any(count >= self._params.devices_ratio * tiers.get(tier, 0) for tier, count in gone.items() if tier)

    def size(self, key: Key) -> int:
        """How many devices a pod or a plane has."""
        return sum(self._tiers(key).values())

    def _tiers(self, key: Key) -> dict[str, int]:
        """How many devices of each tier a pod has, or switches a plane."""
        if not self._devices_of:
            for device in self._topology.devices.values():
                for own in _groups_of(device.pod, device.plane):
                    tiers = self._devices_of.setdefault(own, {})
                    tiers[device.tier] = tiers.get(device.tier, 0) + 1
        return self._devices_of.get(key, {})

    def _keys_of(self, finding: Finding) -> Iterable[Key]:
        if finding.condition in LINKS:
            return (("links", device) for device in devices_of(finding))
        if finding.subject.a is None or finding.condition not in (Condition.DEVICE_DOWN, Condition.TELEMETRY_STALE):
            return ()
        known = self._topology.devices.get(finding.subject.a.device)
        if finding.condition is Condition.DEVICE_DOWN:
            return _groups_of(known.pod, known.plane) if known else ()
        if finding.cause == "collector":
            told = (e.statement.partition("its collector ")[2].partition(" is silent")[0] for e in finding.evidence)
            return (("collector", next(told, "")),)
        pod = known.pod if known else ""
        if finding.cause == "path" and pod:
            source = finding.coverage.missing[0].rpartition("/")[2] if finding.coverage else ""
            return ("path", pod, source), _UNSEEN
        return (*_groups_of(pod, None), _UNSEEN) if known else ()


def _groups_of(pod: str, plane: int | None) -> tuple[Key, ...]:
    return (*((("pod", pod),) if pod else ()), *((("plane", str(plane)),) if plane is not None else ()))


def stands_for_all(finding: Finding) -> tuple[bool, int, int, str]:
    """A device before what is only silent; then the first that could be told, which hardly changes as more come in."""
    told_ns = finding.detected_at_ns or finding.started_at_ns
    return finding.condition is Condition.TELEMETRY_STALE, told_ns, finding.started_at_ns, finding.id
