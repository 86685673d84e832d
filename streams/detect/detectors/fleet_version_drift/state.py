"""The state of fleet/version-drift: the newest census of each partition, the links that failed, and the open drifts."""

from dataclasses import dataclass, field

from streams.detect.detectors.fleet_version_drift.cohorts import Fault
from streams.detect.evidence.episodes import PublishedEpisodes
from streams.detect.evidence.link_history import FOREVER
from streams.detect.fabric_side import devices_of
from streams.wire.models import Condition, Finding, Message, Status, Subject, VersionCensus

_MAX_FAULTS = 4096
"""A fabric in which more links fail within 28 days has more urgent faults."""

_LINK_FAULTS = (Condition.LINK_FLAP, Condition.LINK_DOWN, Condition.LINK_DEGRADING)


@dataclass(slots=True)
class Drift:
    """One version of a cohort that should not run, and the episodes that were published for it."""

    subject: Subject
    begin_ns: int
    detected_ns: int
    finding: Finding | None = None
    end_ns: int = FOREVER
    published: PublishedEpisodes = ()


@dataclass(slots=True)
class FleetState:
    """Mutable: thousands of findings of one burst are each recorded here."""

    shards: dict[str, VersionCensus] = field(default_factory=dict)
    """The newest census by partition."""
    first_ns: dict[str, int] = field(default_factory=dict)
    """The time of the first census of each cohort."""
    faults: dict[str, Fault] = field(default_factory=dict)
    drifts: dict[str, Drift] = field(default_factory=dict)
    due_ns: int = FOREVER
    """The time at which to evaluate without new input."""
    pending: list[VersionCensus] = field(default_factory=list)

    @property
    def next_ns(self) -> int:
        """Return the next time of event time to evaluate; FOREVER where there is none."""
        return min([self.due_ns, *(census.at_ns for census in self.pending)])


def add_message(state: FleetState, message: Message) -> None:
    """Add the newest census of a partition; it is evaluated with those of the same minute of all others."""
    if isinstance(message, VersionCensus):
        known = state.shards.get(str(message.shard))
        if (known is None or known.at_ns < message.at_ns) and message not in state.pending:
            state.pending.append(message)


def add_published(state: FleetState, finding: Finding) -> None:
    """Count a failed link for the versions at its ends, unless another finding is its root cause."""
    if finding.condition not in _LINK_FAULTS:
        return
    if finding.parent_id or finding.status is Status.RETRACTED:
        state.faults.pop(finding.id, None)
        return
    state.faults[finding.id] = Fault(finding.subject.id, finding.started_at_ns, tuple(devices_of(finding)))
    while len(state.faults) > _MAX_FAULTS:
        del state.faults[next(iter(state.faults))]
