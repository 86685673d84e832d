"""Runs the detectors that evaluate whole devices, and schedules the next evaluation of each device.

A device is evaluated when a symptom of it or of its links arrives, and when one of its episodes can become final.
"""

from bisect import bisect_right
from collections.abc import Iterable

from streams.detect.attribute.case_index import CaseIndex
from streams.detect.attribute.sides import DEVICE_EVALUATORS, DetectorParams, fabric_side
from streams.detect.attribute.state import AttributeState, DeviceState, has_evidence_from_other
from streams.detect.evidence.deadlines import Deadlines
from streams.detect.evidence.device_evidence import (
    DeviceEvidence,
    LostLink,
    Restart,
    Silence,
    update_clocks,
    update_silences,
)
from streams.detect.evidence.link_history import FOREVER
from streams.detect.evidence.subjects import device_subject
from streams.detect.fabric_side import LINK_LOSS, Loss
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.intervals import merge_intervals
from streams.fabric.topology import Topology
from streams.wire import symptoms
from streams.wire.models import Episode, Symptom


class DeviceEvaluator:
    """Evaluates devices over the state of one stage."""

    def __init__(self, params: DetectParams, state: AttributeState, cases: CaseIndex, topology: Topology) -> None:
        self._params = params
        self._settings = params.shared
        self._detector_params = DetectorParams(params)
        self._state = state
        self._cases = cases
        self._topology = topology
        self._deadlines = Deadlines()
        for device, known in state.devices.items():
            self._schedule(device, known)

    def add_symptom(self, symptom: Symptom) -> bool:
        """Record a symptom of a device; return False for a repetition."""
        state = self._state.devices.setdefault(symptom.device, DeviceState())
        observed = symptom.payload
        if isinstance(observed, symptoms.Restart):
            restart = Restart(symptom.since_ns, symptom.at_ns, observed.ended_boot_id, symptom.by_event)
            if restart in state.restarts:
                return False
            state.restarts.append(restart)
            return True
        if isinstance(observed, symptoms.ClockOffset):
            before = state.clocks
            limit_ns = ns(self._params.clock.min_offset_s)
            state.clocks = update_clocks(limit_ns, before, symptom.source, symptom.since_ns, symptom.at_ns, observed)
            return state.clocks != before
        silences = state.silences.setdefault(symptom.source.name, [])
        if not isinstance(observed, symptoms.SourceSilence):
            return False
        limit_ns = self._detector_params.silence_limit_ns(observed.cadence_ns)
        updated = update_silences(limit_ns, silences, symptom.source, symptom.since_ns, symptom.at_ns, observed)
        state.silences[symptom.source.name] = updated
        return updated != silences

    def pop_due(self) -> dict[str, None]:
        return self._deadlines.pop_all(self._state.watermark_ns)

    def evaluate(self, device: str) -> list[Episode]:
        """Run the detectors on a device; return the episodes that changed.

        A device without its own facts is evaluated only if nearly all of its links are lost, because it may be the far
        end of many devices that went down.
        """
        links = self._topology.links_of.count(device)
        state = self._state.devices.get(device)
        grouping = self._params.grouping
        minimum = 0 if state is not None else max(grouping.links, grouping.device_ratio * links)
        if self._cases.count_at(device) < minimum:
            return []
        lost = self._lost_links(device)
        if len(lost) < minimum:
            return []
        if state is None:
            state = self._state.devices[device] = DeviceState()
        evidence = DeviceEvidence(
            device_subject(self._topology, device),
            state.silences,
            state.restarts,
            lost,
            links,
            self._neighbor_silences(device) if any(state.silences.values()) else (),
            state.clocks,
        )
        episodes: list[Episode] = []
        state.due_ns = FOREVER
        for detector, evaluate in DEVICE_EVALUATORS:
            own, ledger = self._params.section(detector), detector.ledger(self._settings, self._state.watermark_ns)
            evaluation = evaluate(own, ledger, state.published.get(detector.slug, {}), evidence)
            state.published[detector.slug] = evaluation.published
            state.due_ns = min(state.due_ns, evaluation.due_ns)
            episodes += evaluation.episodes
        self._schedule(device, state)
        return episodes

    def count_silent(self) -> "SilenceCount":
        """Return the present counter of silent devices of the inventory, each after its maintenance."""
        return SilenceCount(
            interval
            for device, state in self._state.devices.items()
            if device in self._topology.devices
            for until_ns in (self._topology.maintenance_until_ns((device,)),)
            for interval in merge_intervals(
                (max(silence.since_ns, until_ns), silence.resumed_ns)
                for silences in state.silences.values()
                for silence in silences
                if not silence.live_sources and silence.resumed_ns > until_ns
            )
        )

    def _schedule(self, device: str, state: DeviceState) -> None:
        if state.due_ns != FOREVER:
            self._deadlines.schedule(device, state.due_ns)

    def _neighbor_silences(self, device: str) -> tuple[dict[str, list[Silence]], ...]:
        """Return the silences of the devices at the other ends of the links, one for each link."""
        links = self._topology.links_of.get(device, ())
        ends = (link.upper.device if link.lower.device == device else link.lower.device for link in links)
        return tuple(self._state.devices[end].silences for end in ends if end in self._state.devices)

    def _lost_links(self, device: str) -> list[LostLink]:
        """Return the links of a device that are lost or intermittent according to their other ends."""
        return [
            LostLink(
                finding.subject.id,
                finding.started_at_ns,
                FOREVER if finding.resolved_at_ns is None else finding.resolved_at_ns,
                finding.detected_at_ns or finding.started_at_ns,
                is_intermittent=loss is Loss.LINK_INTERMITTENT,
            )
            for finding in self._cases.findings_at(device)
            if (loss := fabric_side(finding).loss) in LINK_LOSS and has_evidence_from_other(finding, device)
        ]


class SilenceCount:
    """Counts, at any time, intervals of silence, each of one device."""

    def __init__(self, intervals: Iterable[tuple[int, int]]) -> None:
        known = list(intervals)
        self._begins = sorted(begin for begin, _ in known)
        self._ends = sorted(end for _, end in known)

    def at(self, at_ns: int) -> int:
        return bisect_right(self._begins, at_ns) - bisect_right(self._ends, at_ns)
