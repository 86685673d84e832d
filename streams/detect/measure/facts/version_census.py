"""Which versions run in the devices of one partition, by cohorts: counted from Facts, told when a count changed.

A device is counted by the first of its sources that names versions of a kind: two sources call one version by two
names. Devices that run the same share what is kept of them; a fact that says nothing new costs a comparison.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple
from zlib import crc32

from streams.detect.detectors.fleet_version_drift.params import DriftParams
from streams.detect.thresholds import ns
from streams.fabric.inventory_rows import Device
from streams.fabric.reported_identity import with_reported_fields
from streams.fabric.topology import Topology
from streams.wire.models import IDLE_NS, Facts, Source, VersionCensus, VersionCount

_MOST_WAITING = 16
"""Words of one device that wait: they come hourly, and what is dated far ahead would wait for ever."""
_MOST_PARTS = 4096
"""Parts of one device that are looked at."""


class RunningVersion(NamedTuple):
    """Of one device: so many parts of a cohort run this version."""

    kind: str
    vendor: str
    model: str
    version: str
    parts: int


@dataclass(slots=True)
class SourceVersions:
    """What one source of a device said: its versions, and since when each."""

    runs: tuple[RunningVersion, ...]
    since_ns: tuple[int, ...]


class VersionCounter:
    """The devices of one partition. What they say counts in the order of event time, once nothing earlier can come."""

    def __init__(self, params: DriftParams, lateness_s: float, shard: int) -> None:
        self._params = params
        self._late_ns, self._width_ns = ns(lateness_s), ns(params.every_s)
        self._shard = shard
        self._known: dict[str, dict[Source, SourceVersions]] = {}
        self._shared: dict[tuple[RunningVersion, ...], tuple[RunningVersion, ...]] = {}
        self._changed: dict[tuple[Source, str, str, str, str], int] = {}
        self._waiting: dict[tuple[int, str, Source], tuple[RunningVersion, ...]] = {}
        """What is not counted yet, by when who said it by which source."""
        self._busy: Counter[str] = Counter()
        """Devices of which something waits."""
        self._newest_ns = self._counted_ns = 0
        self._is_gone = False
        self.has_pending = False
        """Something waits to be counted."""

    def on_facts(self, facts: Facts, topology: Topology) -> None:
        """What a device says that it runs."""
        runs = tuple(_runs(self._params.kinds, topology.devices.get(facts.device), facts))
        known = self._known.get(facts.device, {}).get(facts.source)
        self._newest_ns = max(self._newest_ns, facts.observed_at_ns)
        if facts.device not in self._busy and (not runs if known is None else runs == known.runs):
            return
        at_ns = max(facts.observed_at_ns, self._counted_ns + 1)  # what is late counts from now on
        key = at_ns, facts.device, facts.source
        if key not in self._waiting:
            if self._busy[facts.device] >= _MOST_WAITING:
                return
            self._busy[facts.device] += 1
        self._waiting[key] = self._shared.setdefault(runs, runs)
        self.has_pending = True

    def due(self, watermark_ns: int) -> list[VersionCensus]:
        """The counts at the end of each minute of event time in which one changed, once it is final."""
        now_ns = self._newest_ns if watermark_ns == IDLE_NS else watermark_ns - self._late_ns
        until_ns = now_ns // self._width_ns * self._width_ns
        if until_ns <= self._counted_ns or not (self._waiting or self._is_gone):
            return []
        found: list[VersionCensus] = []
        minutes: dict[int, list[tuple[int, str, Source]]] = defaultdict(list)
        for key in sorted(self._waiting):
            if key[0] <= until_ns:
                minutes[-(-key[0] // self._width_ns) * self._width_ns].append(key)
        if self._is_gone:
            minutes.setdefault(until_ns, [])
        for end_ns, keys in minutes.items():
            changes = [self._count(*key) for key in keys]
            if any(changes) or self._is_gone:
                found.append(VersionCensus(self._shard, end_ns, tuple(self._counts(end_ns))))
                self._is_gone = False
        self._counted_ns, self.has_pending = until_ns, bool(self._waiting)
        return found

    def _count(self, at_ns: int, device: str, source: Source) -> bool:
        """Let what waits count; whether that changes anything."""
        runs = self._waiting.pop((at_ns, device, source))
        self._busy[device] -= 1
        if not self._busy[device]:
            del self._busy[device]
        of = self._known.get(device, {})
        known = of.get(source)
        if known is None:
            if runs:
                self._known.setdefault(device, {})[source] = SourceVersions(runs, (at_ns,) * len(runs))
            return bool(runs)
        if runs == known.runs:
            return False
        before = {run[:4]: since for run, since in zip(known.runs, known.since_ns, strict=True)}
        for run in {run[:4] for run in runs} ^ before.keys():
            self._changed[(source, *run)] = at_ns
        known.since_ns, known.runs = tuple(before.get(run[:4], at_ns) for run in runs), runs
        return True

    def set_topology(self, topology: Topology) -> None:
        """Let go of devices that the inventory has no more."""
        if not topology.devices:
            return
        gone = self._known.keys() - topology.devices.keys()
        for device in gone:
            del self._known[device]
        self._is_gone |= bool(gone)
        self.has_pending |= self._is_gone

    def _counts(self, now_ns: int) -> Iterable[VersionCount]:
        devices: dict[tuple[Source, str, str, str, str], list[tuple[str, int, int]]] = defaultdict(list)
        for device, by_source in self._known.items():
            counted: set[str] = set()
            for source in sorted(by_source):
                known, kinds = by_source[source], {run.kind for run in by_source[source].runs}
                for run, since_ns in zip(known.runs, known.since_ns, strict=True):
                    if run.kind not in counted:
                        devices[(source, *run[:4])].append((device, since_ns, run.parts))
                counted |= kinds
        several: dict[tuple[Source, str, str, str], int] = defaultdict(int)
        for key in devices:
            several[key[:4]] += 1
        horizon_ns = now_ns - ns(self._params.rollout_s)
        self._changed = {key: at_ns for key, at_ns in self._changed.items() if at_ns > horizon_ns}
        for key, own in sorted(devices.items()):
            source, kind, vendor, model, version = key
            # Names are for comparing what runs different versions; a cohort that is of one mind needs none.
            named = several[key[:4]] > 1 or len(own) <= self._params.members
            some = sorted(heapq.nsmallest(self._params.members, own, key=_lot)) if named else []
            yield VersionCount(
                kind, vendor, model, source, version, len(own), sum(parts for _, _, parts in own),
                self._changed.get(key, 0), tuple(device for device, _, _ in some), tuple(at for _, at, _ in some),
            )  # fmt: skip

    def dump(self) -> dict[str, Any]:
        """As JSON holds it; what many devices run stands there once."""
        place: dict[tuple[RunningVersion, ...], int] = {}

        def placed(runs: tuple[RunningVersion, ...]) -> int:
            return place.setdefault(runs, len(place))

        known = [
            [device, int(source), placed(own.runs), own.since_ns]
            for device, by_source in self._known.items()
            for source, own in by_source.items()
        ]
        waiting = [
            [at_ns, device, int(source), placed(runs)] for (at_ns, device, source), runs in self._waiting.items()
        ]
        return {
            "known": known, "waiting": waiting, "runs": [[list(run) for run in runs] for runs in place],
            "changed": [[*key, at_ns] for key, at_ns in self._changed.items()],
            "newest_ns": self._newest_ns, "counted_ns": self._counted_ns, "gone": self._is_gone,
        }  # fmt: skip

    def load(self, data: dict[str, Any]) -> None:
        """Fill it from what `dump` gave."""
        shared = [tuple(RunningVersion(*run) for run in runs) for runs in data["runs"]]
        self._shared = {runs: runs for runs in shared}
        for device, source, place, since_ns in data["known"]:
            self._known.setdefault(device, {})[Source(source)] = SourceVersions(
                shared[place], tuple(map(int, since_ns))
            )
        for at_ns, device, source, place in data["waiting"]:
            self._waiting[int(at_ns), device, Source(source)] = shared[place]
            self._busy[device] += 1
        for source, kind, vendor, model, version, at_ns in data["changed"]:
            self._changed[Source(source), kind, vendor, model, version] = int(at_ns)
        self._newest_ns, self._counted_ns, self._is_gone = data["newest_ns"], data["counted_ns"], bool(data["gone"])
        self.has_pending = self._is_gone or bool(self._waiting)


def _lot(of: tuple[str, int, int]) -> tuple[int, str]:
    """An order that has nothing to do with where a device stands."""
    return crc32(of[0].encode()), of[0]


def _runs(kinds: Iterable[str], device: Device | None, facts: Facts) -> Iterable[RunningVersion]:
    counts: dict[tuple[str, str, str, str], int] = defaultdict(int)
    for part in facts.components[:_MOST_PARTS]:
        if part.kind in kinds and part.firmware and part.part_number:
            counts[part.kind, "", part.part_number, part.firmware] += 1
    if "os" in kinds and facts.os_version and device is not None and device.kind == "switch":
        row = with_reported_fields(device, facts)
        counts["os", row.vendor, row.model, facts.os_version] = 1
    return (RunningVersion(*key, count) for key, count in sorted(counts.items()))
