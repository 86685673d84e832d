"""telemetry/stale of the pipeline itself: a consumer lost records that the brokers deleted before it read them.

One finding for a consumer and a topic. It opens at the report of a loss, and resolves when none followed for `loss_s`:
the records themselves never come back. Two owners of one partition may report the same records, which count once.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from streams.detect.detectors.telemetry_stale.evaluate import SLUG, VERSION
from streams.detect.detectors.telemetry_stale.params import StaleParams
from streams.detect.evidence.episodes import Conclusion, PublishedEpisodes, finding_defaults, has_open, reconcile
from streams.detect.evidence.link_history import FOREVER
from streams.detect.evidence.params import SharedSettings
from streams.detect.evidence.subjects import input_subject
from streams.detect.thresholds import ns
from streams.fabric.intervals import merge_intervals
from streams.fabric.topology import Topology
from streams.wire.models import Cause, Condition, Coverage, Episode, Evidence, Finding, InputLoss, Message, Severity

_MAX_LOSSES = 1024
"""Of one consumer and topic: a consumer that retention overtakes all the time reports one each fetch."""


@dataclass(slots=True)
class InputState:
    """The losses of one consumer and topic, and the episodes that were published for it."""

    losses: list[InputLoss] = field(default_factory=list)
    published: PublishedEpisodes = ()


@dataclass(slots=True)
class LossState:
    """Mutable, as the state of every fabric-wide detector."""

    inputs: dict[str, InputState] = field(default_factory=dict)
    """By subject id."""
    due_ns: int = FOREVER
    """The watermark at which to evaluate without new input."""


def add_message(state: LossState, message: Message) -> None:
    """Add a loss; a repeated one changes nothing."""
    if not isinstance(message, InputLoss):
        return
    known = state.inputs.setdefault(input_subject(message.consumer, message.topic).id, InputState())
    if message not in known.losses:
        known.losses = [*known.losses, message][-_MAX_LOSSES:]
        state.due_ns = 0


def add_published(_state: LossState, _finding: Finding) -> None:
    """Ignore the findings of others."""


def evaluate(
    params: StaleParams, settings: SharedSettings, state: LossState, _topology: Topology, watermark_ns: int
) -> list[Episode]:
    """Conclude on every input with a loss; return the episodes that changed."""
    if watermark_ns < state.due_ns:
        return []
    state.due_ns = FOREVER
    episodes: list[Episode] = []
    for identity, known in list(state.inputs.items()):
        conclusions = [
            _conclusion(params, settings, cluster, watermark_ns) for cluster in _clusters(params, known.losses)
        ]
        known.published, changed = reconcile(known.published, conclusions, watermark_ns)
        episodes += changed
        times = (at_ns for one in conclusions for at_ns in (one.end_ns, one.final_at_ns or FOREVER))
        state.due_ns = min([state.due_ns, *(at_ns for at_ns in times if at_ns > watermark_ns)])
        if not has_open(known.published):
            del state.inputs[identity]
    return episodes


def _clusters(params: StaleParams, losses: Iterable[InputLoss]) -> Iterator[list[InputLoss]]:
    """Yield the losses that follow each other within `loss_s`."""
    cluster: list[InputLoss] = []
    for loss in sorted(losses, key=lambda loss: loss.at_ns):
        if cluster and loss.at_ns > cluster[-1].at_ns + ns(params.loss_s):
            yield cluster
            cluster = []
        cluster.append(loss)
    if cluster:
        yield cluster


def _conclusion(
    params: StaleParams, settings: SharedSettings, losses: list[InputLoss], watermark_ns: int
) -> Conclusion:
    first, last = losses[0], losses[-1]
    clear_ns = last.at_ns + ns(params.loss_s)
    is_over = clear_ns <= watermark_ns
    evidence = tuple(_evidence(losses))
    lost = round(sum(one.observed or 0 for one in evidence))
    finding = Finding(
        **finding_defaults(settings, SLUG, VERSION),
        condition=Condition.TELEMETRY_STALE,
        severity=Severity.WARNING,
        subject=input_subject(first.consumer, first.topic),
        started_at_ns=first.at_ns,
        observed_at_ns=last.at_ns,
        resolved_at_ns=clear_ns if is_over else None,
        detected_at_ns=first.at_ns,
        summary=f"{first.consumer} lost {lost} records of {first.topic}: they were deleted before they were read",
        cause=Cause.RETENTION,
        evidence=evidence,
        confidence=1.0,
        coverage=Coverage(0, 1, missing=(f"{first.consumer}/{first.topic}",)),
    )
    return Conclusion(first.at_ns, clear_ns, finding, str(first.at_ns), clear_ns + ns(settings.lateness_s))


def _evidence(losses: list[InputLoss]) -> Iterator[Evidence]:
    """Yield the number of records of each partition; of a topic that was created again, only of the new one."""
    for partition in sorted({loss.partition for loss in losses}):
        own = [loss for loss in losses if loss.partition == partition]
        ranges = merge_intervals((loss.first_offset, loss.first_offset + loss.records) for loss in own)
        count = sum(end - begin for begin, end in ranges)
        where = f"{own[0].topic}/{partition}"
        statement = f"{count} records of {where} from offset {ranges[0][0]} on were deleted before they were read"
        if any(loss.is_recreated for loss in own):
            statement += "; the topic was created again, and what was unread of the former one is not counted"
        yield Evidence(
            statement=statement,
            metric="input_lost_records",
            observed=float(count),
            expected=0.0,
            comparison="threshold",
            window_start_ns=own[0].at_ns,
            window_end_ns=own[-1].at_ns,
        )
