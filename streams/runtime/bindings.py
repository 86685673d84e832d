"""Defines the topics that each stage reads and writes, in one table.

An owner of a stage has one partition number; all inputs of a stage have the same number of partitions.
"""

from dataclasses import dataclass

from streams.wire import topics
from streams.wire.topics import Access, Partitions, Topic


@dataclass(frozen=True, slots=True)
class Upstream:
    """The previous stage, and the topics with its Progress."""

    stage: str
    inputs: Topic
    """One of the previous stage's inputs; that stage has one watermark per partition of it."""
    topics: tuple[Topic, ...]
    """The topics that must all have its Progress, because Progress in one topic does not cover records in another."""
    barrier: Topic | None = None
    """A topic that Progress in other topics covers: such Progress is valid after `after_offset` of it was read."""


@dataclass(frozen=True, slots=True)
class Binding:
    """The topics of one stage."""

    stage: str
    inputs: tuple[Topic, ...]
    snapshots: Topic
    upstream: Upstream | None
    """The previous stage. None for input from devices: the clock advances it; Progress is an ordinary message."""
    progress_in_band: tuple[Topic, ...]
    """Topics between stages that contain its Progress, after the records that it covers."""
    progress_topic: Topic
    """The topic for its Progress for monitoring."""
    bulk: tuple[Topic, ...] = ()
    """Busy inputs, delivered in batches with a delay; the other inputs are delivered at once."""
    repeated: tuple[Topic, ...] = ()
    """Compacted inputs whose senders repeat the state; without other input or outputs they need no early snapshot."""
    recovered: tuple[Topic, ...] = ()
    """Inputs, and own outputs, that an owner reads to their end first."""
    history: tuple[Topic, ...] = ()
    """Own outputs that an owner without a state also reads."""
    present: tuple[Topic, ...] = ()
    """Compacted topics with the present states, which an owner reads if unread input was deleted."""
    covers: Topic | None = None
    """For a stage without Progress in band: the topic with offsets that its Progress covers."""
    outputs: tuple[Topic, ...] = ()
    """The topics for results without Progress in band."""
    requests: tuple[Topic, ...] = ()
    """Inputs of other stages to which it sends repeatable requests: outside of its transactions, because the end of one
    is an offset without a record, which their readers would count as unread or lost."""
    is_transactional: bool = False
    """True if its outputs and the snapshot that covers them are one transaction (transactions.py)."""

    def partitions(self, partitions: Partitions) -> int:
        """Return the number of partitions of its inputs."""
        return partitions.count(self.inputs[0])

    def group(self, cluster: str) -> str:
        """Return the name of its consumer group."""
        return f"railsight.{cluster}.{self.stage}"

    def access(self, cluster: str) -> Access:
        """Return the access of the stage to Kafka; an owner without a snapshot reads its own outputs (snapshots.py)."""
        own = (*self.outputs, *self.progress_in_band, self.progress_topic)
        writes = (*own, *self.requests, self.snapshots, topics.REJECTED, topics.INPUT_LOSSES)
        return Access(
            reads=tuple(
                dict.fromkeys((*self.inputs, self.snapshots, *own, *self.present, topics.INVENTORY, topics.JOBS))
            ),
            writes=tuple(dict.fromkeys(writes)),
            groups=(self.group(cluster),),
            transactions=(self.group(cluster),) if self.is_transactional else (),
            checks_topics=True,
        )


BINDINGS: dict[str, Binding] = {
    binding.stage: binding
    for binding in (
        Binding(
            "measure",
            inputs=(topics.SAMPLES, topics.EVENTS, topics.FACTS, topics.COLLECTOR_STATUS, topics.PROBES),
            snapshots=topics.SNAPSHOTS["measure"],
            upstream=None,
            progress_in_band=(topics.SYMPTOMS, topics.SUMMARIES),
            progress_topic=topics.PROGRESS,
            outputs=(topics.PORT_STATES,),
            # Each device sends one of these per cadence; urgent messages are Events.
            bulk=(topics.SAMPLES, topics.FACTS, topics.COLLECTOR_STATUS, topics.PROBES),
        ),
        Binding(
            "correlate",
            inputs=(topics.SYMPTOMS, topics.SUMMARIES),
            snapshots=topics.SNAPSHOTS["correlate"],
            upstream=Upstream("measure", topics.SAMPLES, (topics.SYMPTOMS, topics.SUMMARIES)),
            progress_in_band=(topics.EPISODES,),
            progress_topic=topics.PROGRESS,
            # Has the state of links with a changed pod, for another partition.
            outputs=(topics.SYMPTOMS,),
            present=(topics.PORT_STATES,),
        ),
        Binding(
            "attribute",
            inputs=(topics.EPISODES, topics.INPUT_LOSSES),
            snapshots=topics.SNAPSHOTS["attribute"],
            upstream=Upstream("correlate", topics.SYMPTOMS, (topics.EPISODES,)),
            progress_in_band=(),
            progress_topic=topics.PROGRESS,
            covers=topics.FINDINGS,
            outputs=(topics.FINDINGS, topics.FINDINGS_OPEN),
        ),
        Binding(
            "decide",
            inputs=(
                topics.FINDINGS,
                topics.REMEDIATION_RESULTS,
                topics.CONTROLS,
                topics.PORT_STATES,
                topics.SCHEDULERS,
                topics.PROGRESS,
            ),
            snapshots=topics.SNAPSHOTS["decide"],
            upstream=Upstream("attribute", topics.EPISODES, (topics.PROGRESS,), barrier=topics.FINDINGS),
            progress_in_band=(),
            progress_topic=topics.PROGRESS,
            repeated=(topics.PORT_STATES, topics.SCHEDULERS),
            recovered=(topics.CONTROLS, topics.CONTROL_ANSWERS),
            history=(topics.REMEDIATIONS,),
            outputs=(
                topics.REMEDIATIONS,
                topics.REMEDIATIONS_OPEN,
                topics.CONTROL_ANSWERS,
                topics.CONTROLS,
            ),
            requests=(topics.EVENTS,),
            is_transactional=True,
        ),
    )
}
