"""The detectors of whole devices: what is known of each, and when to look at one again.

A device is looked at when something is told of it or of its links, and when what was said of it can be final.
"""

import heapq
import itertools
from bisect import bisect_right
from collections.abc import Iterable

from streams.detect.attribute.case_index import LINKS, CaseIndex
from streams.detect.attribute.state import AttributeState, DeviceState, corroborated_by_other
from streams.detect.detectors.device_down import evaluate as device_down
from streams.detect.detectors.device_down.evaluate import DeviceEvidence, LostLink, Restart
from streams.detect.detectors.telemetry_stale import evaluate as telemetry_stale
from streams.detect.detectors.telemetry_stale.evaluate import Silence
from streams.detect.evidence.link_history import FOREVER, merge_intervals
from streams.detect.evidence.subjects import device_subject
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.topology import Topology
from streams.wire import symptoms
from streams.wire.models import (
    Condition,
    Episode,
    Symptom,
)


class DeviceEvaluator:
    """Over what one stage keeps."""

    def __init__(self, params: DetectParams, kept: AttributeState, cases: CaseIndex, topology: Topology) -> None:
        self._params = params
        self._kept = kept
        self._cases = cases
        self._topology = topology
        self._due: list[tuple[int, str]] = []
        for device, state in kept.devices.items():
            self._schedule(device, state)

    def add_symptom(self, symptom: Symptom) -> bool:
        """Keep what concerns a device; False for a repetition."""
        state = self._kept.devices.setdefault(symptom.device, DeviceState())
        name = symptom.source.name
        observed = symptom.payload
        if isinstance(observed, symptoms.Restart):
            restart = Restart(symptom.since_ns, symptom.at_ns, observed.ended_boot_id, symptom.by_event)
            if restart in state.restarts:
                return False
            state.restarts.append(restart)
            return True
        silences = state.silences.setdefault(name, [])
        if isinstance(observed, symptoms.SourceSilence):
            state.silences[name] = telemetry_stale.update_silences(
                self._params.stale, silences, symptom.source, symptom.since_ns, symptom.at_ns, observed
            )
        return state.silences[name] != silences

    def due(self) -> dict[str, None]:
        """The devices of which something can be final by now."""
        found: dict[str, None] = {}
        while self._due and self._due[0][0] <= self._kept.watermark_ns:
            found[heapq.heappop(self._due)[1]] = None
        return found

    def evaluate(self, device: str) -> list[Episode]:
        """Let the detectors look at a device; answers what changed."""
        links = len(self._topology.links_of.get(device, ()))
        state = self._kept.devices.get(device)
        enough = (
            0 if state is not None else max(self._params.grouping.links, self._params.grouping.device_ratio * links)
        )
        if self._cases.count_at(device) < enough:
            return []  # a far end of many links that went: each of its own is not looked at for it
        lost = self._lost(device)
        if len(lost) < enough:
            return []
        if state is None:
            state = self._kept.devices[device] = DeviceState()
        subject, watermark_ns = device_subject(self._topology, device), self._kept.watermark_ns
        beyond = self._beyond(device) if any(state.silences.values()) else ()
        signs = DeviceEvidence(subject, state.silences, state.restarts, lost, links, beyond)
        state.down, episodes = device_down.step(self._params, state.down, signs, watermark_ns)
        for name, silences in state.silences.items():
            said = state.stale.get(name, ())
            state.stale[name], stale = telemetry_stale.step(self._params, said, subject, silences, watermark_ns)
            episodes += stale
        self._schedule(device, state)
        return episodes

    def _beyond(self, device: str) -> tuple[dict[str, list[Silence]], ...]:
        """The silences of the devices at the other ends of its links, one for each link."""
        cables = self._topology.links_of.get(device, ())
        ends = (c.upper.device if c.lower.device == device else c.lower.device for c in cables)
        return tuple(self._kept.devices[end].silences for end in ends if end in self._kept.devices)

    def silences(self) -> "SilenceCount":
        """When of how many devices of the inventory nothing was read, as it is known now."""
        return SilenceCount(
            span
            for device, state in self._kept.devices.items()
            if device in self._topology.devices
            for span in merge_intervals(
                (s.since_ns, s.resumed_ns) for own in state.silences.values() for s in own if not s.others
            )
        )

    def _schedule(self, device: str, state: DeviceState) -> None:
        for said in itertools.chain(state.down, *state.stale.values()):
            finding = said.episode.finding
            if finding.final or finding.resolved_at_ns is None:
                continue
            grace_s = self._params.device_down.merge_s if finding.condition is Condition.DEVICE_DOWN else 0
            due_ns = finding.resolved_at_ns + ns(self._params.lateness_s + grace_s)
            if due_ns > self._kept.watermark_ns:
                heapq.heappush(self._due, (due_ns, device))

    def _lost(self, device: str) -> list[LostLink]:
        """The links of a device that are down, or come and go, as their other ends tell."""
        return [
            LostLink(
                f.subject.id,
                f.started_at_ns,
                FOREVER if f.resolved_at_ns is None else f.resolved_at_ns,
                f.detected_at_ns or f.started_at_ns,
                flaps=f.condition is Condition.LINK_FLAP,
            )
            for f in self._cases.findings_at(device)
            if f.condition in LINKS and corroborated_by_other(f, device)
        ]


class SilenceCount:
    """Spans in which one device each was silent."""

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        known = list(spans)
        self._begun, self._ended = sorted(begin for begin, _ in known), sorted(end for _, end in known)

    def at(self, at_ns: int) -> int:
        """How many there were at a time."""
        return bisect_right(self._begun, at_ns) - bisect_right(self._ended, at_ns)
