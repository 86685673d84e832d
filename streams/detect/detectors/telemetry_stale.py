"""telemetry/stale: detects a source that no longer delivers data although it did or should.

Opens when `measure` finds it silent beyond its limit; resolves when it resumes. A gap that only the next sample reveals
is a finding too, already resolved. The cause names the silent part: a collector, a device, or one path. For a device
that its neighbors lost too, device/down is the parent of this finding.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Annotated, ClassVar

from pydantic import Field

from streams.detect.detector import Detector, JobDomain, Placement
from streams.detect.evidence.device_evidence import DeviceEvidence, Silence
from streams.detect.evidence.episodes import Conclusion, Ledger, PublishedEpisodes, evidence_of, has_open
from streams.detect.evidence.link_history import FOREVER
from streams.detect.evidence.subjects import input_subject
from streams.detect.fabric_side import (
    CapacityEffect,
    DeviceEvaluation,
    FabricEvaluator,
    FabricSide,
    GroupKey,
    GroupKind,
    SeverityContext,
    device_at,
    location_keys,
)
from streams.detect.thresholds import Seconds, Thresholds, ns
from streams.fabric.intervals import merge_intervals, split_at_gaps
from streams.fabric.topology import Topology
from streams.wire.models import (
    Cause,
    Condition,
    Coverage,
    Endpoint,
    Episode,
    Evidence,
    Finding,
    InputLoss,
    Message,
    Subject,
)


class StaleParams(Thresholds):
    """`[detect.stale]`: DESIGN 2, silent for longer than max(3 x cadence, 30 s)."""

    cadences: Annotated[float, Field(ge=1)] = 3
    """A source is silent after this number of its usual intervals."""
    at_least_s: Seconds = 30
    """And after at least this time."""
    unseen_ratio: ClassVar[float] = 0.05
    """This share of the fabric unseen is CRITICAL (DETECTION 3a)."""
    unseen_devices: ClassVar[int] = 3
    """And at least this number of devices, because one switch is a large share of a small inventory."""
    unseen_after_s: ClassVar[float] = 60
    """And it lasts this long after its report: by then neighbors have reported (30 s) whether devices are down."""
    unlearned_s: ClassVar[float] = 300
    """The limit of a source whose cadence is neither configured nor learned."""
    loss_s: ClassVar[float] = 300
    """A loss of input ends when its consumer lost none for this long. As `clock.clear_s` (choice)."""

    def limit_ns(self, cadence_ns: int) -> int:
        """Return the longest permitted silence of a source with this cadence; 0 is an unknown cadence."""
        return max(round(self.cadences * cadence_ns), ns(self.at_least_s)) if cadence_ns else ns(self.unlearned_s)


def _evaluate(
    _: StaleParams, ledger: Ledger, published: Mapping[str, PublishedEpisodes], evidence: DeviceEvidence
) -> DeviceEvaluation:
    """Conclude on each source of a device."""
    current: dict[str, PublishedEpisodes] = {}
    episodes: list[Episode] = []
    due_ns = FOREVER
    for source, silences in evidence.silences.items():
        conclusions = [_conclusion(evidence.subject, silence) for silence in silences]
        current[source], changed, source_due_ns = ledger.reconcile(published.get(source, ()), conclusions)
        episodes += changed
        due_ns = min(due_ns, source_due_ns)
    return DeviceEvaluation(current, episodes, due_ns)


def _conclusion(subject: Subject, silence: Silence) -> Conclusion:
    is_over = silence.resumed_ns != FOREVER
    device, source = device_at(subject), silence.source.label
    last_ns = silence.resumed_ns if is_over else silence.detected_ns
    return Conclusion(
        subject, silence.since_ns, silence.resumed_ns - 1 if is_over else FOREVER, opened_ns=silence.detected_ns,
        seen_ns=last_ns, resolved_ns=silence.resumed_ns if is_over else None, over_ns=silence.resumed_ns,
        summary=f"{device}: no telemetry from {source}",
        cause=_cause(silence),
        evidence=(_evidence(device, silence, last_ns),),
        confidence=1.0,
        coverage=Coverage(silence.live_sources, silence.live_sources + 1, missing=(f"{device}/{source}",)),
        anchor=f"{source}/{silence.since_ns}",
    )  # fmt: skip


def _cause(silence: Silence) -> Cause:
    if silence.collector_silent:
        return Cause.COLLECTOR
    return Cause.PATH if silence.live_sources else Cause.UNKNOWN


def _evidence(device: str, silence: Silence, last_ns: int) -> Evidence:
    reason = ""
    if silence.collector_silent:
        reason = f"; its collector {silence.collector} is silent too"
    elif silence.collector_error:
        reason = f"; collector {silence.collector} reports: {silence.collector_error}"
    line = evidence_of(
        f"{silence.source.label} of {device} delivered no data{reason}", "", Endpoint(device),
        (silence.since_ns, last_ns), (last_ns - silence.since_ns) / 1e9,
        (silence.detected_ns - silence.since_ns) / 1e9,
    )  # fmt: skip
    return replace(line, collector=silence.collector, source=silence.source, error=silence.collector_error)


# Losses of the pipeline itself: the brokers deleted records before a consumer read them, records without a valid MAC
# went on for a minute, or records waited for a minute. Each consumer and topic has one finding of each. It opens at the
# first report, and resolves when none followed for `loss_s`. Two owners of one partition may report the same records,
# which count once.

BEHIND_METRIC = "input_behind_s"
"""The metric of the evidence that a consumer is behind."""
_MAX_LOSSES = 1024
"""The most losses of one consumer and topic: a consumer that is always behind retention reports one in each fetch. The
older ones are counted by partition."""


@dataclass(slots=True)
class CountedLosses:
    """The records of one partition in [first_offset, end_offset) that were lost, whose reports were dropped."""

    first_offset: int
    end_offset: int
    first_ns: int
    last_ns: int
    records: int = 0
    is_recreated: bool = False

    def add(self, loss: InputLoss) -> None:
        """Add the next report; records that two reports name count once."""
        end_offset = loss.first_offset + loss.records
        if loss.is_recreated:
            self.first_offset, self.end_offset, self.records, self.is_recreated = loss.first_offset, 0, 0, True
        self.records += max(0, end_offset - max(loss.first_offset, self.end_offset))
        self.end_offset, self.last_ns = max(self.end_offset, end_offset), loss.at_ns


@dataclass(slots=True)
class InputState:
    """The losses of one consumer and topic, and its published episodes."""

    losses: list[InputLoss] = field(default_factory=list)
    published: PublishedEpisodes = ()
    counted: dict[str, CountedLosses] = field(default_factory=dict)
    """Partition -> its losses before `losses`, of the same episode."""

    def add(self, loss: InputLoss) -> bool:
        """Add a loss; return False for one that is known, or as old as those that were dropped."""
        counted = self.counted.get(str(loss.partition))
        if loss in self.losses or (counted is not None and loss.at_ns <= counted.last_ns):
            return False
        self.losses = [*self.losses, loss]
        for gone in sorted(self.losses, key=lambda one: one.at_ns)[:-_MAX_LOSSES]:
            self.losses.remove(gone)
            fresh = CountedLosses(gone.first_offset, 0, gone.at_ns, gone.at_ns)
            self.counted.setdefault(str(gone.partition), fresh).add(gone)
        return True


@dataclass(slots=True)
class LossState:
    """The state of the losses; mutable, like the state of every fabric-wide detector."""

    inputs: dict[str, InputState] = field(default_factory=dict)
    """Subject id -> the state of the input."""
    due_ns: int = FOREVER
    """The watermark of the next evaluation without new input."""


def add_message(state: LossState, message: Message) -> None:
    """Add a loss; a repeated loss changes nothing."""
    if not isinstance(message, InputLoss):
        return
    identity = input_subject(message.consumer, message.topic).id
    kind = "/refused" if message.refused else "/behind" if message.behind_ns else ""
    known = state.inputs.setdefault(f"{identity}{kind}", InputState())
    if known.add(message):
        state.due_ns = 0


def evaluate_losses(params: StaleParams, ledger: Ledger, state: LossState, _topology: Topology) -> list[Episode]:
    """Conclude on every input with a loss; return the episodes that changed."""
    if ledger.watermark_ns < state.due_ns:
        return []
    state.due_ns = FOREVER
    episodes: list[Episode] = []
    for identity, known in list(state.inputs.items()):
        losses = sorted(known.losses, key=lambda loss: loss.at_ns)
        clusters = list(split_at_gaps(losses, lambda loss: (loss.at_ns, loss.at_ns), ns(params.loss_s)))
        since_ns = clusters[0][0].at_ns - ns(params.loss_s)
        known.counted = {key: one for key, one in known.counted.items() if one.last_ns >= since_ns}
        conclusions = [
            _loss_conclusion(params, ledger.watermark_ns, cluster, {} if place else known.counted)
            for place, cluster in enumerate(clusters)
        ]
        known.published, changed, due_ns = ledger.reconcile(known.published, conclusions)
        episodes += changed
        state.due_ns = min(state.due_ns, due_ns)
        if not has_open(known.published):
            del state.inputs[identity]
    return episodes


def _loss_conclusion(
    params: StaleParams, watermark_ns: int, losses: list[InputLoss], counted: Mapping[str, CountedLosses]
) -> Conclusion:
    first, last = losses[0], losses[-1]
    first_ns = min([first.at_ns, *(one.first_ns for one in counted.values())])
    clear_ns = last.at_ns + ns(params.loss_s)
    kind = "refused" if last.refused else "behind" if last.behind_ns else ""
    evidence = tuple(_behind_evidence(losses) if kind == "behind" else _loss_evidence(losses, counted))
    lost = round(sum(one.observed or 0 for one in evidence))
    summary = f"{first.consumer} lost {lost} records of {first.topic}: they were deleted before they were read"
    if kind == "refused":
        summary = f"{first.consumer} received {lost} records of {first.topic} without a valid MAC, last: {last.refused}"
    elif kind == "behind":
        summary = f"{first.consumer} is {evidence[0].observed:.0f} s behind in {first.topic}"
    return Conclusion(
        input_subject(first.consumer, first.topic), first_ns, clear_ns, opened_ns=first_ns, seen_ns=last.at_ns,
        resolved_ns=clear_ns if clear_ns <= watermark_ns else None, over_ns=clear_ns,
        summary=summary,
        cause=Cause.UNKNOWN if kind else Cause.RETENTION,
        evidence=evidence,
        confidence=1.0,
        coverage=Coverage(0, 1, missing=(f"{first.consumer}/{first.topic}",)),
        anchor=f"{kind}/{first_ns}" if kind else "",
    )  # fmt: skip


def _behind_evidence(losses: list[InputLoss]) -> Iterator[Evidence]:
    """Yield the newest report of each partition that is behind, the furthest first."""
    newest = {loss.partition: loss for loss in losses}
    for loss in sorted(newest.values(), key=lambda loss: -loss.behind_ns):
        behind_s = loss.behind_ns / 1e9
        statement = f"{loss.topic}/{loss.partition} is read up to what arrived {behind_s:.0f} s ago"
        yield evidence_of(statement, BEHIND_METRIC, None, (loss.at_ns - loss.behind_ns, loss.at_ns), behind_s, 0.0)


def _loss_evidence(losses: list[InputLoss], counted: Mapping[str, CountedLosses]) -> Iterator[Evidence]:
    """Yield the number of lost records of each partition; only of the new topic if it was created again."""
    for partition in sorted({*map(int, counted), *(loss.partition for loss in losses)}):
        own = [loss for loss in losses if loss.partition == partition]
        before = counted.get(str(partition))
        if before is not None and any(loss.is_recreated for loss in own):
            before = None
        offset = 0 if before is None else before.end_offset
        ranges = merge_intervals((loss.first_offset, loss.first_offset + loss.records) for loss in own)
        count = sum(max(0, end - max(begin, offset)) for begin, end in ranges)
        first_ns, last_ns = (own[0].at_ns, own[-1].at_ns) if own else (FOREVER, 0)
        first_offset = ranges[0][0] if ranges else offset
        if before is not None:
            count += before.records
            first_ns, last_ns, first_offset = before.first_ns, max(before.last_ns, last_ns), before.first_offset
        refused = next((loss.refused for loss in reversed(own or losses) if loss.refused), "")
        fate = f"have no valid MAC, last: {refused}" if refused else "were deleted before they were read"
        statement = f"{count} records of {losses[0].topic}/{partition} from offset {first_offset} on {fate}"
        if any(loss.is_recreated for loss in own) or (before is not None and before.is_recreated):
            statement += "; the topic was created again, and what was unread of the former one is not counted"
        yield evidence_of(statement, "input_lost_records", None, (first_ns, last_ns), float(count), 0.0)


_FABRIC = GroupKey(GroupKind.FABRIC)


def _is_critical(finding: Finding, context: SeverityContext) -> bool:
    if finding.cause is Cause.COLLECTOR:
        return True
    if finding.subject.a is None:
        return False  # the alerts RailsightInputLost and RailsightRejects report it
    params: StaleParams = context.params_of(finding)
    detected_ns = finding.detected_at_ns or finding.started_at_ns
    silent = context.silent_devices_at(detected_ns)
    if silent is None:
        return context.was_critical(finding)
    until_ns = context.watermark_ns if finding.resolved_at_ns is None else finding.resolved_at_ns
    minimum = max(params.unseen_ratio * context.device_count, params.unseen_devices)
    return until_ns >= detected_ns + ns(params.unseen_after_s) and minimum <= silent


def _severity_due_ns(params: StaleParams, finding: Finding) -> int:
    return (finding.detected_at_ns or 0) + ns(params.unseen_after_s)


def _group_keys(finding: Finding, topology: Topology) -> tuple[GroupKey, ...]:
    if finding.subject.a is None:
        return ()
    silence = finding.evidence[0] if finding.evidence else Evidence("")
    if finding.cause is Cause.COLLECTOR:
        return GroupKey(GroupKind.COLLECTOR, silence.collector), _FABRIC
    known = topology.devices.get(finding.subject.a.device)
    if finding.cause is Cause.PATH and known is not None and known.pod:
        return GroupKey(GroupKind.PATH, known.pod, silence.source), _FABRIC
    return (*location_keys(known.pod, None), _FABRIC) if known is not None else ()


DETECTOR = Detector(
    Condition.TELEMETRY_STALE,
    version="1",
    opens_when="a source silent for longer than max(3 × cadence, 30 s): collector, device or one path",
    params=StaleParams,
    section="stale",
    placement=Placement.DOUBTFUL,
    job_domain=JobDomain.NEITHER,
    lemon=None,
    hidden_in={},
    fabric=FabricSide(
        is_silence=True,
        ends_with_parent=True,
        capacity=CapacityEffect.NONE,
        group_keys=_group_keys,
        is_critical=_is_critical,
        severity_due_ns=_severity_due_ns,
        evaluate_device=_evaluate,
        evaluator=FabricEvaluator(LossState, add_message, evaluate_losses),
        silence_limit_ns=StaleParams.limit_ns,
        min_silent_ratio=attrgetter("unseen_ratio"),
    ),
)
