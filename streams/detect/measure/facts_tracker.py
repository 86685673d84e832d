"""Tracks Facts: the neighbors of devices, their versions by cohort, and the parts of their transceivers.

A device is counted by the first of its sources that names versions of a kind, because two sources may spell one version
differently. Devices with the same versions share their state; Facts without changes cost one comparison.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple
from zlib import crc32

from streams.detect.detectors.fleet_version_drift.cohorts import DriftParams
from streams.detect.measure.liveness import Liveness
from streams.detect.measure.lldp_tracker import LldpTracker
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.inventory import Inventory
from streams.fabric.inventory_rows import Device
from streams.fabric.topology import Topology
from streams.wire.models import IDLE_NS, CablingReport, Facts, PortModules, Source, Symptom, VersionCensus, VersionCount
from streams.wire.stage import Output
from streams.wire.symptoms import SourceSilence
from streams.wire.topics import PORT_STATES

_MAX_PENDING = 16
"""The most pending Facts of a device: they arrive hourly, and one dated far ahead would stay pending forever."""
_MAX_PARTS = 4096
"""The most parts of a device that are counted or published; the largest switch has 512 ports."""


class RunningVersion(NamedTuple):
    """The number of a device's parts of one cohort that run one version."""

    kind: str
    vendor: str
    model: str
    version: str
    parts: int


@dataclass(slots=True)
class SourceVersions:
    """The versions that one source of a device reported, each with the time since which it runs."""

    runs: tuple[RunningVersion, ...]
    since_ns: tuple[int, ...]


class VersionCounter:
    """The versions of one partition's devices. Facts count in order of event time, once no earlier can arrive."""

    def __init__(self, params: DriftParams, lateness_s: float, shard: int) -> None:
        self._params = params
        self._late_ns, self._width_ns = ns(lateness_s), ns(params.every_s)
        self._shard = shard
        self._known: dict[str, dict[Source, SourceVersions]] = {}
        self._shared: dict[tuple[RunningVersion, ...], tuple[RunningVersion, ...]] = {}
        self._changed: dict[tuple[Source, str, str, str, str], int] = {}
        self._pending: dict[tuple[int, str, Source], tuple[RunningVersion, ...]] = {}
        """Versions that are not counted yet, by time, device and source."""
        self._busy: Counter[str] = Counter()
        """Device -> the number of its pending versions."""
        self._newest_ns = self._counted_ns = 0
        self._has_removed = False
        self.has_pending = False
        """True if versions are pending or devices were removed."""

    def on_facts(self, facts: Facts, topology: Topology) -> None:
        runs = tuple(_runs(self._params.kinds, topology.devices.get(facts.device), facts))
        known = self._known.get(facts.device, {}).get(facts.source)
        self._newest_ns = max(self._newest_ns, facts.observed_at_ns)
        if facts.device not in self._busy and (not runs if known is None else runs == known.runs):
            return
        at_ns = max(facts.observed_at_ns, self._counted_ns + 1)  # late Facts count from now on
        key = at_ns, facts.device, facts.source
        if key not in self._pending:
            if self._busy[facts.device] >= _MAX_PENDING:
                return
            self._busy[facts.device] += 1
        self._pending[key] = self._shared.setdefault(runs, runs)
        self.has_pending = True

    def due(self, watermark_ns: int) -> list[VersionCensus]:
        """Return the counts at the end of each minute of event time in which one changed, once it is final."""
        now_ns = self._newest_ns if watermark_ns == IDLE_NS else watermark_ns - self._late_ns
        until_ns = now_ns // self._width_ns * self._width_ns
        if until_ns <= self._counted_ns or not (self._pending or self._has_removed):
            return []
        found: list[VersionCensus] = []
        minutes: dict[int, list[tuple[int, str, Source]]] = defaultdict(list)
        for key in sorted(self._pending):
            if key[0] <= until_ns:
                minutes[-(-key[0] // self._width_ns) * self._width_ns].append(key)
        if self._has_removed:
            minutes.setdefault(until_ns, [])
        for end_ns, keys in minutes.items():
            changes = [self._count(*key) for key in keys]
            if any(changes) or self._has_removed:
                found.append(VersionCensus(self._shard, end_ns, tuple(self._version_counts(end_ns))))
                self._has_removed = False
        self._counted_ns, self.has_pending = until_ns, bool(self._pending)
        return found

    def _count(self, at_ns: int, device: str, source: Source) -> bool:
        """Count pending versions; return whether a count changes."""
        runs = self._pending.pop((at_ns, device, source))
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
        """Remove devices that are no longer in the inventory."""
        if not topology.devices:
            return
        removed = self._known.keys() - topology.devices.keys()
        for device in removed:
            del self._known[device]
        self._has_removed |= bool(removed)
        self.has_pending |= self._has_removed

    def _version_counts(self, now_ns: int) -> Iterable[VersionCount]:
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
            # Names serve to compare devices with different versions; a cohort with one version needs none.
            named = several[key[:4]] > 1 or len(own) <= self._params.members
            some = sorted(heapq.nsmallest(self._params.members, own, key=_sample_order)) if named else []
            yield VersionCount(
                kind, vendor, model, source, version, len(own), sum(parts for _, _, parts in own),
                self._changed.get(key, 0), tuple(device for device, _, _ in some), tuple(at for _, at, _ in some),
            )  # fmt: skip

    def dump(self) -> dict[str, Any]:
        """Return the state for a snapshot, in JSON types; versions that many devices share are written once."""
        place: dict[tuple[RunningVersion, ...], int] = {}

        def place_of(runs: tuple[RunningVersion, ...]) -> int:
            return place.setdefault(runs, len(place))

        known = [
            [device, int(source), place_of(own.runs), own.since_ns]
            for device, by_source in self._known.items()
            for source, own in by_source.items()
        ]
        pending = [
            [at_ns, device, int(source), place_of(runs)] for (at_ns, device, source), runs in self._pending.items()
        ]
        return {
            "known": known, "waiting": pending, "runs": [[list(run) for run in runs] for runs in place],
            "changed": [[*key, at_ns] for key, at_ns in self._changed.items()],
            "newest_ns": self._newest_ns, "counted_ns": self._counted_ns, "gone": self._has_removed,
        }  # fmt: skip

    def load(self, data: dict[str, Any]) -> None:
        shared = [tuple(RunningVersion(*run) for run in runs) for runs in data["runs"]]
        self._shared = {runs: runs for runs in shared}
        for device, source, place, since_ns in data["known"]:
            self._known.setdefault(device, {})[Source(source)] = SourceVersions(
                shared[place], tuple(map(int, since_ns))
            )
        for at_ns, device, source, place in data["waiting"]:
            self._pending[int(at_ns), device, Source(source)] = shared[place]
            self._busy[device] += 1
        for source, kind, vendor, model, version, at_ns in data["changed"]:
            self._changed[Source(source), kind, vendor, model, version] = int(at_ns)
        self._newest_ns, self._counted_ns, self._has_removed = data["newest_ns"], data["counted_ns"], bool(data["gone"])
        self.has_pending = self._has_removed or bool(self._pending)


def _sample_order(of: tuple[str, int, int]) -> tuple[int, str]:
    """Return a sort key that does not depend on the location of a device."""
    return crc32(of[0].encode()), of[0]


def _runs(kinds: Iterable[str], device: Device | None, facts: Facts) -> Iterable[RunningVersion]:
    counts: dict[tuple[str, str, str, str], int] = defaultdict(int)
    for part in facts.components[:_MAX_PARTS]:
        if part.kind in kinds and part.firmware and part.part_number:
            counts[part.kind, "", part.part_number, part.firmware] += 1
    if "os" in kinds and facts.os_version and device is not None and device.kind == "switch":
        counts["os", device.vendor or facts.vendor, device.model or facts.model, facts.os_version] = 1
    return (RunningVersion(*key, count) for key, count in sorted(counts.items()))


_KIND = "transceiver"


class ModuleTracker:
    """The modules of the devices of one partition; only their checksum is retained."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, Source], tuple[int, int]] = {}
        """(device, source) -> (time, checksum) of the newest Facts."""
        self.found: list[Output] = []

    def on_facts(self, facts: Facts) -> None:
        """Process the Facts of a device; the port of a module is its alias, or its name if it has none."""
        modules = [
            (part.alias[0] if part.alias else part.name, part.part_number)
            for part in facts.components[:_MAX_PARTS]
            if part.kind == _KIND and part.part_number
        ]
        key, checksum = (facts.device, facts.source), crc32(repr(modules).encode())
        known = self._known.get(key)
        if known is None and not modules:
            return
        if known is not None and (facts.observed_at_ns < known[0] or checksum == known[1]):
            return
        self._known[key] = facts.observed_at_ns, checksum
        ports, parts = zip(*modules, strict=True) if modules else ((), ())
        self.found.append(
            Output(PORT_STATES, PortModules(facts.device, facts.source, facts.observed_at_ns, ports, parts))
        )

    def outputs(self) -> list[Output]:
        found, self.found = self.found, []
        return found

    def dump(self) -> list[list[Any]]:
        return [[device, int(source), *known] for (device, source), known in self._known.items()]

    def load(self, data: list[list[Any]]) -> None:
        self._known = {(device, Source(source)): (at_ns, checksum) for device, source, at_ns, checksum in data}


_NO_RUN = -1
"""Stands for the run of Facts without one, which is another than that of any collector."""


class FactsRuns:
    """The sources of devices that have sent Facts with the run of their collector: Facts of another run do not count.

    Otherwise a host would invent neighbors and versions of a switch, or hide wrong ones. Collectors of former versions
    send no run, so Facts without one count until the collector of the source has sent one.
    """

    def __init__(self) -> None:
        self._known: set[tuple[str, Source]] = set()

    def permits(self, facts: Facts, liveness: Liveness) -> bool:
        """Return whether Facts are of the run that reads the source; of any run while none does."""
        key, run = (facts.device, facts.source), facts.collector_run
        state = liveness.sources.get(key)
        if state is None or not (run or key in self._known):
            return True
        if liveness.is_other(state, run or _NO_RUN, liveness.arrival_ns):
            return False
        if run == state.run:
            self._known.add(key)
        return True

    def dump(self) -> list[list[Any]]:
        return [[device, int(source)] for device, source in sorted(self._known)]

    def load(self, data: Iterable[tuple[str, int]]) -> None:
        self._known = {(device, Source(source)) for device, source in data}


class FactsTracker:
    """The Facts of the devices of one partition."""

    def __init__(self, params: DetectParams, shard: int) -> None:
        self._topology = Topology(Inventory())
        self.runs = FactsRuns()
        self._neighbors = LldpTracker(params.miscabled)
        self.versions = VersionCounter(params.drift, params.lateness_s, shard)

    def on_facts(self, facts: Facts) -> list[CablingReport]:
        """Process the Facts of a device; its versions are sent with the next census."""
        self.versions.on_facts(facts, self._topology)
        return self._neighbors.on_facts(facts)

    def set_topology(self, topology: Topology, at_ns: int) -> list[CablingReport]:
        """Replace the version of the inventory, or its jobs."""
        if topology.devices is not self._topology.devices:
            self.versions.set_topology(topology)
        self._topology = topology
        return self._neighbors.set_topology(topology, at_ns)

    def on_symptoms(self, outputs: Iterable[object], watermark_ns: int) -> list[CablingReport | VersionCensus]:
        """Return the neighbors of sources that fell silent or resumed by these outputs, and a due census.

        Without outputs there are none unless `versions.has_pending`.
        """
        found: list[CablingReport | VersionCensus] = []
        for output in outputs:
            if isinstance(output, Symptom) and isinstance(output.payload, SourceSilence):
                change = self._neighbors.source_silent
                if output.payload.has_resumed:
                    change = self._neighbors.source_resumed
                found += change(output.device, output.source, output.at_ns)
        return [*found, *self.versions.due(watermark_ns)]

    def dump(self) -> dict[str, Any]:
        return {"neighbors": self._neighbors.dump(), "versions": self.versions.dump(), "runs": self.runs.dump()}

    def load(self, data: dict[str, Any]) -> None:
        self._neighbors.load(data["neighbors"])
        self.versions.load(data["versions"])
        self.runs.load(data.get("runs", ()))  # 0.2.0 had none
