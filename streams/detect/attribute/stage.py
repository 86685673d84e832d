"""attribute: episodes of all pods to findings, each with its cause, its severity and who is hit.

The only place that sees the fabric: decides that a device restarted or is gone, that telemetry is missing, and which
finding explains which. What to do about it is for `decide`.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace

import orjson
from pydantic import TypeAdapter, ValidationError

from streams.detect import device_down, telemetry_stale
from streams.detect.attribute import impact, storms, swaps
from streams.detect.attribute.kept import Case, DeviceState, Kept, devices_of, lasts, told_by_other
from streams.detect.attribute.parents import cause_of, parent_of
from streams.detect.device_down import LostLink, Restart, Signs
from streams.detect.link import FOREVER
from streams.detect.params import DetectParams, ns
from streams.fabric.ids import device_id
from streams.fabric.inventory import Inventory
from streams.fabric.topology import Topology
from streams.wire.errors import Reject
from streams.wire.models import (
    Condition,
    Endpoint,
    Episode,
    Finding,
    Message,
    Status,
    Subject,
    Symptom,
    SymptomKind,
)
from streams.wire.stage import Output
from streams.wire.topics import FINDINGS, FINDINGS_OPEN

_REMEMBER_NS = ns(28 * 86_400)
"""Occurrences are counted over 28 days: Meta's lemon nodes were told apart over that time (reported)."""

_CLOSED_NS = ns(3600)
"""A closed episode is kept for an hour: others of the same moment may still need it for their severity."""

_KEPT = TypeAdapter(Kept)


class Attribute:
    """The stage; it has one owner."""

    name = "attribute"

    def __init__(self, params: DetectParams) -> None:
        self._params = params
        self._topology = Topology(Inventory())
        self._kept = Kept()
        self._revisions = itertools.count(1)
        self._at: dict[str, set[str]] = {}  # device -> ids of cases that touch it

    @property
    def watermark_ns(self) -> int:
        return self._kept.watermark_ns

    def begin(self, epoch: int) -> None:
        self._revisions = itertools.count((epoch << 32) + 1)

    def adopt(self, topology: Topology) -> list[Output]:
        self._topology = topology
        return []

    def process(self, batch: Sequence[Message]) -> list[Output]:
        """One by one, so that how records were fetched does not decide which revisions there are."""
        outputs: list[Output] = []
        for message in batch:
            if isinstance(message, Episode):
                if self._take(message):
                    children = self._conclude(devices_of(message.finding))
                    outputs += self._publish({message.finding.id: None} | children | self._around(message.finding))
            elif isinstance(message, Symptom) and self._note(message):
                outputs += self._publish(self._conclude([message.device]))
        return outputs

    def advance(self, watermark_ns: int) -> list[Output]:
        """Time alone changes only what is over and not closed yet; a healthy fabric has none of that."""
        self._kept.watermark_ns = max(self._kept.watermark_ns, watermark_ns)
        dirty = self._conclude(device for device, state in self._kept.devices.items() if state.open)
        closing = (i for i, case in self._kept.cases.items() if case.episode.finding.over and not case.closed)
        outputs = self._publish(dirty | dict.fromkeys(closing))
        self._forget()
        return outputs

    def _around(self, finding: Finding) -> dict[str, None]:
        """The storms that a storm explains, and that which explains it; the links that changed places with a link."""
        if swaps.is_miscabled(finding):
            return dict.fromkeys(other.id for other in self._round(finding))
        if not storms.is_storm(finding):
            return {}
        root = storms.root_of(self._findings, finding)
        held = dict.fromkeys(storm.id for storm in storms.below(self._findings, finding))
        more = root is not None and storms.says_more(storms.below(self._findings, root))
        return held | ({root.id: None} if root is not None and more else {})

    def _round(self, finding: Finding) -> list[Finding]:
        return swaps.round_of(self._kept.cases, self._findings, self._ends, finding)

    def _ends(self, subject_id: str) -> list[str]:
        cable = self._topology.cables.get(subject_id)
        return [] if cable is None else [cable.lower.device, cable.upper.device]

    def _take(self, episode: Episode) -> bool:
        """An episode's revision, unless a newer one is known."""
        finding = episode.finding
        case = self._kept.cases.get(finding.id)
        if case is not None and case.episode.finding.revision >= finding.revision:
            return False
        self._keep(episode)
        return True

    def _keep(self, episode: Episode) -> None:
        finding = episode.finding
        case = self._kept.cases.get(finding.id)
        if case is None:
            self._kept.cases[finding.id] = Case(episode)
            self._index(finding)
        else:
            case.episode = episode

    def _index(self, finding: Finding) -> None:
        for device in devices_of(finding):
            self._at.setdefault(device, set()).add(finding.id)

    def _note(self, symptom: Symptom) -> bool:
        """Keep what concerns a device; False for a repetition."""
        state = self._kept.devices.setdefault(symptom.device, DeviceState())
        name = symptom.source.name
        if symptom.kind is SymptomKind.RESTARTED:
            restart = Restart(symptom.since_ns, symptom.at_ns, symptom.boot_id, symptom.by_event)
            if restart in state.restarts:
                return False
            state.restarts.append(restart)
            return True
        silences = state.silences.setdefault(name, [])
        if symptom.kind in (SymptomKind.SILENT, SymptomKind.HEARD):
            state.silences[name] = telemetry_stale.noted(self._params.stale, silences, symptom)
        return state.silences[name] != silences

    def _conclude(self, devices: Iterable[str]) -> dict[str, None]:
        """Let the device-wide detectors look; answers the cases that may have changed, children included."""
        dirty: dict[str, None] = {}
        watermark = self._kept.watermark_ns
        for device in devices:
            state = self._kept.devices.get(device)
            if state is None:
                continue
            subject = self._subject(device)
            links = len(self._topology.cables_of.get(device, ()))
            signs = Signs(subject, state.silences, state.restarts, self._lost(device), links)
            state.down, episodes = device_down.step(self._params, state.down, signs, watermark)
            if episodes:
                dirty |= dict.fromkeys(self._at.get(device, ()))
            for name, silences in state.silences.items():
                state.stale[name], stale = telemetry_stale.step(
                    self._params, state.stale.get(name, ()), subject, silences, watermark
                )
                episodes += stale
            for episode in episodes:
                self._keep(episode)
                dirty[episode.finding.id] = None
        return dirty

    def _lost(self, device: str) -> list[LostLink]:
        """The links of a device that are down as their other ends tell."""
        return [
            LostLink(f.subject.id, f.started_at_ns, f.resolved_at_ns or FOREVER, f.detected_at_ns or f.started_at_ns)
            for f in self._findings(device)
            if f.condition is Condition.LINK_DOWN and told_by_other(f, device)
        ]

    def _findings(self, device: str) -> list[Finding]:
        """The episodes that touch a device, but those that were not so."""
        episodes = (self._kept.cases[i].episode.finding for i in sorted(self._at.get(device, ())))
        return [finding for finding in episodes if finding.status is not Status.RETRACTED]

    def _subject(self, device: str) -> Subject:
        known = self._topology.devices.get(device)
        role = known.kind if known else "device"
        site, team, plane = (known.site, known.team, known.plane) if known else ("", "", None)
        pod = self._topology.pod_of(device)
        return Subject(device_id(device), Endpoint(device), role=role, plane=plane, pod=pod, site=site, team=team)

    def _publish(self, ids: Iterable[str]) -> list[Output]:
        """The findings of these cases, where they differ from what was said."""
        outputs = []
        for identity in ids:
            case = self._kept.cases[identity]
            finding = self._finding(case)
            said = case.published
            if said is not None and (said.final or finding == replace(said, revision=0)):
                continue
            if said is None and finding.status is Status.RETRACTED:
                continue
            if said is not None and finding.status is Status.OPEN:
                finding = replace(finding, status=Status.UPDATED)
                if finding == replace(said, revision=0):
                    continue
            finding = replace(finding, revision=next(self._revisions))
            case.published = finding
            outputs.append(Output(FINDINGS, finding))
            outputs.append(Output(FINDINGS_OPEN, None if finding.over else finding, key=finding.id))
        return outputs

    def _finding(self, case: Case) -> Finding:
        """The episode with its fabric-wide context; a pure function of all cases and the topology."""
        own = case.episode.finding
        parent = parent_of(self._params, self._kept, self._findings, case.episode)
        if swaps.is_miscabled(own) and own.status is not Status.RETRACTED:
            own, parent = swaps.in_its_round(self._kept.cases, self._round(own), own)
        at_ns = own.detected_at_ns or own.started_at_ns
        radius = impact.blast_radius(self._topology, own)
        if storms.is_storm(own) and parent is None:
            own = storms.with_victims(self._topology, own, storms.below(self._findings, own), radius)
            radius = own.blast_radius
        unseen = self._unseen(at_ns) >= self._params.stale.unseen_ratio
        floor = self._params.capacity_floor
        return replace(
            own,
            revision=0,
            final=own.final and self._kept.watermark_ns >= self._settled_ns(own),
            severity=impact.severity(self._topology, own, self._broken(at_ns), floor, unseen),
            cause=cause_of(own, parent),
            blast_radius=radius,
            parent_id=parent.id if parent is not None else "",
            occurrences=self._occurrences(own),
            inventory_digest=self._topology.digest[:12],
            shadow=True if self._in_maintenance(own) else None,
            runbook_url=f"docs/runbooks/{own.detector.replace('/', '-')}.md",
        )

    def _settled_ns(self, finding: Finding) -> int:
        """When what explains it has been heard as well."""
        return (finding.resolved_at_ns or 0) + ns(self._params.lateness_s + self._params.down.hold_up_s)

    def _broken(self, at_ns: int) -> frozenset[str]:
        """The links that were down at a time, those of gone devices included."""
        broken: set[str] = set()
        for finding in self._kept.standing():
            if not lasts(finding, at_ns):
                continue
            if finding.condition is Condition.LINK_DOWN:
                broken.add(finding.subject.id)
            elif finding.condition is Condition.DEVICE_DOWN and finding.subject.a is not None:
                broken |= {cable.id for cable in self._topology.cables_of.get(finding.subject.a.device, ())}
        return frozenset(broken)

    def _unseen(self, at_ns: int) -> float:
        """The share of the inventory's switches and hosts of which a source was silent at a time."""
        silent = {
            device
            for device, state in self._kept.devices.items()
            for silences in state.silences.values()
            if any(s.since_ns <= at_ns < s.heard_ns for s in silences)
        }
        return (
            len(silent & self._topology.devices.keys()) / len(self._topology.devices) if self._topology.devices else 0.0
        )

    def _occurrences(self, own: Finding) -> int:
        """How many times this began here within 28 days, this time included."""
        key = f"{own.condition}/{own.subject.id}"
        starts = self._kept.occurred.setdefault(key, {})
        since_ns = own.started_at_ns - _REMEMBER_NS
        if own.status is Status.RETRACTED:
            starts.pop(own.id, None)
        elif starts.get(own.id) != own.started_at_ns:
            starts[own.id] = own.started_at_ns
            for identity in [i for i, start in starts.items() if start < since_ns]:
                del starts[identity]
        return sum(since_ns <= start <= own.started_at_ns for start in starts.values())

    def _in_maintenance(self, own: Finding) -> bool:
        devices = (self._topology.devices.get(device) for device in devices_of(own))
        return any(
            d is not None
            and d.maintenance_until is not None
            and own.started_at_ns < d.maintenance_until.timestamp() * 1e9
            for d in devices
        )

    def _forget(self) -> None:
        """Let go of what is closed and old enough."""
        for finding in self._kept.forget(self._kept.watermark_ns - _CLOSED_NS):
            for device in devices_of(finding):
                self._at[device].discard(finding.id)

    def snapshot(self) -> bytes:
        return orjson.dumps(self._kept)

    def restore(self, data: bytes) -> None:
        try:
            self._kept = _KEPT.validate_json(data)
        except ValidationError as error:
            raise Reject(f"not a snapshot of attribute: {error}") from error
        self._at = {}
        for case in self._kept.cases.values():
            self._index(case.episode.finding)
