"""The topics that each stage reads and writes: the whole of the wiring, in one table.

A stage owns one partition of its inputs at a time; where it has several inputs, they have equally many partitions.
"""

from dataclasses import dataclass

from streams.wire import topics
from streams.wire.topics import Access, Partitions, Topic


@dataclass(frozen=True, slots=True)
class Upstream:
    """The stage before, and the topics in which its Progress comes."""

    stage: str
    inputs: Topic
    """One of the sender's inputs: it has one watermark a partition of that."""
    topics: tuple[Topic, ...]
    """Its Progress must have come in each: in one topic it does not cover what is under way in another."""
    barrier: Topic | None = None
    """The topic whose offsets a Progress elsewhere covers; it holds once `after_offset` of it has been read."""


@dataclass(frozen=True, slots=True)
class Binding:
    """One stage's place in the flow."""

    stage: str
    inputs: tuple[Topic, ...]
    snapshots: Topic
    upstream: Upstream | None
    """None: its upstream are devices; then Progress is an ordinary message to it, and the clock makes it advance."""
    progress_in_band: tuple[Topic, ...]
    """Topics between stages that carry its Progress, behind what it covers."""
    progress_topic: Topic
    """The topic of its Progress for monitoring."""
    bulk: tuple[Topic, ...] = ()
    """Busy inputs whose messages may wait for a batch of them; the others are delivered as they come."""
    repeated: tuple[Topic, ...] = ()
    """Compacted inputs whose senders repeat the state: alone, without an output, they need no prompt snapshot."""
    recovered: tuple[Topic, ...] = ()
    """Inputs that an owner reads to their end before anything else."""
    history: tuple[Topic, ...] = ()
    """Own outputs that an owner without a state reads as well."""
    present: tuple[Topic, ...] = ()
    """Compacted topics of the present states, which an owner reads after records of its input were deleted unread."""
    covers: Topic | None = None
    """The topic whose offsets its Progress beside covers, for a stage without Progress in band."""
    outputs: tuple[Topic, ...] = ()
    """The topics of its results that have no Progress in band."""

    def partitions(self, partitions: Partitions) -> int:
        """Return the number of partitions of its inputs."""
        return partitions.count(self.inputs[0])

    def group(self, cluster: str) -> str:
        """Return the name of its consumer group."""
        return f"railsight.{cluster}.{self.stage}"

    def access(self, cluster: str) -> Access:
        """Return what the stage does on Kafka; an owner without a snapshot reads its own outputs (snapshots.py)."""
        own = (*self.outputs, *self.progress_in_band, self.progress_topic)
        return Access(
            reads=tuple(
                dict.fromkeys((*self.inputs, self.snapshots, *own, *self.present, topics.INVENTORY, topics.JOBS))
            ),
            writes=tuple(dict.fromkeys((*own, self.snapshots, topics.REJECTED, topics.INPUT_LOSSES))),
            groups=(self.group(cluster),),
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
            # One of each a device and cadence; what must not wait is an Event.
            bulk=(topics.SAMPLES, topics.FACTS, topics.COLLECTOR_STATUS, topics.PROBES),
        ),
        Binding(
            "correlate",
            inputs=(topics.SYMPTOMS, topics.SUMMARIES),
            snapshots=topics.SNAPSHOTS["correlate"],
            upstream=Upstream("measure", topics.SAMPLES, (topics.SYMPTOMS, topics.SUMMARIES)),
            progress_in_band=(topics.EPISODES,),
            progress_topic=topics.PROGRESS,
            # The state of links whose pod changes, for another partition.
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
                topics.PROGRESS,
            ),
            snapshots=topics.SNAPSHOTS["decide"],
            upstream=Upstream("attribute", topics.EPISODES, (topics.PROGRESS,), barrier=topics.FINDINGS),
            progress_in_band=(),
            progress_topic=topics.PROGRESS,
            repeated=(topics.PORT_STATES,),
            recovered=(topics.CONTROLS,),
            history=(topics.REMEDIATIONS,),
            outputs=(topics.REMEDIATIONS, topics.REMEDIATIONS_OPEN),
        ),
    )
}
