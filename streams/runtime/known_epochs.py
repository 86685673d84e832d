"""The highest epoch of a partition's former owners, as their outputs show it, for when their snapshots are lost.

An owner whose epoch is lower than that of an earlier one is taken for a replaced owner: readers ignore its Progress, so
that time stands still, and its revisions, which contain the epoch.
"""

from typing import Any

from streams.runtime.bindings import Binding
from streams.runtime.standalone_consumer import records, start_and_end_offsets
from streams.wire import topics
from streams.wire.errors import Reject
from streams.wire.models import Episode, Finding, Progress, Remediation
from streams.wire.topics import PartitionScheme

TAIL_RECORDS = 5000
"""Records that are read from the end of each topic of outputs. Progress, which is read whole, is retained an hour."""


async def highest_known_epoch(consumer: Any, binding: Binding, partition: int) -> int:
    """Return the highest epoch in the Progress and the revisions of a stage; 0 if none is known.

    Revisions of other partitions of the stage count too: an epoch that is too high harms nothing.
    """
    highest = 0
    outputs = (*binding.progress_in_band, *binding.history, *((binding.covers,) if binding.covers else ()))
    revisions = (topic for topic in outputs if topic.scheme is PartitionScheme.SINGLE)
    for topic in (binding.progress_topic, *revisions):
        start = 0
        if topic is not binding.progress_topic:
            _, end = await start_and_end_offsets(consumer, [(topic.name, 0)])
            start = max(0, end[topic.name] - TAIL_RECORDS)
        async for record in records(consumer, topic.name, 0, start):
            try:
                message = topics.decode(topic, record.value, record.headers)
            except Reject:
                continue
            highest = max(highest, _epoch_of(message, binding.stage, partition))
    return highest


def _epoch_of(message: object, stage: str, partition: int) -> int:
    match message:
        case Progress(stage=sender, partition=own, epoch=epoch) if (sender, own) == (stage, partition):
            return epoch
        case Finding(revision=revision) | Episode(finding=Finding(revision=revision)) | Remediation(revision=revision):
            return revision >> 32
        case _:
            return 0
