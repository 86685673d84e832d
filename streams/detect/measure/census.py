"""Which versions run in the devices of one partition, by cohorts: counted from Facts, told when a count changed.

A device is counted by the first of its sources that names versions of a kind: two sources call one version by two
names. Devices that run the same share what is kept of them; a fact that says nothing new costs a comparison.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple
from zlib import crc32

from streams.detect.params import DriftParams, ns
from streams.fabric.rows import Device
from streams.fabric.selves import completed
from streams.fabric.topology import Topology
from streams.wire.models import IDLE_NS, Census, Facts, Source, VersionCount

_MOST_PARTS = 4096
"""Parts of one device that are looked at."""


class Runs(NamedTuple):
    """Of one device: so many parts of a cohort run this version."""

    kind: str
    vendor: str
    model: str
    version: str
    parts: int


@dataclass(slots=True)
class Known:
    """What one source of a device said: its versions, and since when each."""

    at_ns: int
    runs: tuple[Runs, ...]
    since_ns: tuple[int, ...]


class Counted:
    """The devices of one partition."""

    def __init__(self, params: DriftParams, shard: int) -> None:
        self._params = params
        self._shard = shard
        self._known: dict[str, dict[Source, Known]] = {}
        self._shared: dict[tuple[Runs, ...], tuple[Runs, ...]] = {}
        self._changed: dict[tuple[Source, str, str, str, str], int] = {}
        self._is_news = False
        self._newest_ns = 0
        self._due_ns = 0

    def take(self, facts: Facts, topology: Topology) -> None:
        """What a device says that it runs."""
        runs = tuple(_runs(self._params.kinds, topology.devices.get(facts.device), facts))
        of = self._known.get(facts.device)
        known = None if of is None else of.get(facts.source)
        self._newest_ns = max(self._newest_ns, facts.observed_at_ns)
        if known is None:
            if runs:
                runs = self._shared.setdefault(runs, runs)
                since = (facts.observed_at_ns,) * len(runs)
                self._known.setdefault(facts.device, {})[facts.source] = Known(facts.observed_at_ns, runs, since)
                self._is_news = True
        elif runs == known.runs:
            known.at_ns = max(known.at_ns, facts.observed_at_ns)
        elif facts.observed_at_ns > known.at_ns:
            self._change(facts, known, runs)

    def _change(self, facts: Facts, known: Known, runs: tuple[Runs, ...]) -> None:
        before = {run[:4]: since for run, since in zip(known.runs, known.since_ns, strict=True)}
        for run in {run[:4] for run in runs} ^ before.keys():
            self._changed[(facts.source, *run)] = facts.observed_at_ns
        known.since_ns = tuple(before.get(run[:4], facts.observed_at_ns) for run in runs)
        known.runs, known.at_ns, self._is_news = self._shared.setdefault(runs, runs), facts.observed_at_ns, True

    def adopt(self, topology: Topology) -> None:
        """Let go of devices that the inventory has no more."""
        if not topology.devices:
            return
        gone = self._known.keys() - topology.devices.keys()
        for device in gone:
            del self._known[device]
        self._is_news |= bool(gone)

    def due(self, watermark_ns: int) -> Census | None:
        """The counts, at most once a minute of event time, and only where one changed."""
        now_ns = self._newest_ns if watermark_ns == IDLE_NS else watermark_ns
        if not self._is_news or now_ns < self._due_ns:
            return None
        width_ns = ns(self._params.every_s)
        self._due_ns, self._is_news = (now_ns // width_ns + 1) * width_ns, False
        return Census(self._shard, now_ns, tuple(self._counts(now_ns)))

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
        place: dict[tuple[Runs, ...], int] = {}
        known = [
            [device, int(source), own.at_ns, place.setdefault(own.runs, len(place)), own.since_ns]
            for device, by_source in self._known.items()
            for source, own in by_source.items()
        ]
        return {
            "runs": list(place), "known": known, "changed": [[*key, at_ns] for key, at_ns in self._changed.items()],
            "news": self._is_news, "newest_ns": self._newest_ns, "due_ns": self._due_ns,
        }  # fmt: skip

    def load(self, data: dict[str, Any]) -> None:
        """Fill it from what `dump` gave."""
        shared = [tuple(Runs(*run) for run in runs) for runs in data["runs"]]
        self._shared = {runs: runs for runs in shared}
        for device, source, at_ns, place, since_ns in data["known"]:
            own = Known(int(at_ns), shared[place], tuple(map(int, since_ns)))
            self._known.setdefault(device, {})[Source(source)] = own
        for source, kind, vendor, model, version, at_ns in data["changed"]:
            self._changed[Source(source), kind, vendor, model, version] = int(at_ns)
        self._is_news, self._newest_ns, self._due_ns = bool(data["news"]), data["newest_ns"], data["due_ns"]


def _lot(of: tuple[str, int, int]) -> tuple[int, str]:
    """An order that has nothing to do with where a device stands."""
    return crc32(of[0].encode()), of[0]


def _runs(kinds: Iterable[str], device: Device | None, facts: Facts) -> Iterable[Runs]:
    counts: dict[tuple[str, str, str, str], int] = defaultdict(int)
    for part in facts.components[:_MOST_PARTS]:
        if part.kind in kinds and part.firmware and part.part_number:
            counts[part.kind, "", part.part_number, part.firmware] += 1
    if "os" in kinds and facts.os_version and device is not None and device.kind == "switch":
        row = completed(device, facts)
        counts["os", row.vendor, row.model, facts.os_version] = 1
    return (Runs(*key, count) for key, count in sorted(counts.items()))
