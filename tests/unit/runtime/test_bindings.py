"""The table of bindings matches the registry of topics, and its stages match each other."""

import pytest

from streams.runtime.bindings import BINDINGS, Binding
from streams.wire import topics
from streams.wire.models import Progress
from streams.wire.topics import Partitions

ALL = tuple(BINDINGS.values())


def test_every_stage_is_bound_once_in_the_order_of_the_pipeline() -> None:
    """The table names the stages of the registry, each with its own snapshot topic."""
    assert tuple(BINDINGS) == topics.STAGES
    assert all(binding.snapshots is topics.SNAPSHOTS[binding.stage] for binding in ALL)


@pytest.mark.parametrize("binding", ALL, ids=lambda binding: binding.stage)
def test_the_inputs_and_the_snapshot_topic_of_a_stage_have_the_same_number_of_partitions(binding: Binding) -> None:
    """The owner of a partition owns it in every input, so the numbers are equal in any configuration."""
    partitions = Partitions(telemetry=7, pod=3)
    assert {partitions.count(topic) for topic in (*binding.inputs, binding.snapshots)} == {
        binding.partitions(partitions)
    }


@pytest.mark.parametrize("binding", ALL, ids=lambda binding: binding.stage)
def test_a_stage_expects_the_progress_that_the_previous_stage_sends(binding: Binding) -> None:
    """It expects Progress in topics that it reads, from a stage that writes it there, one watermark per partition."""
    upstream = binding.upstream
    if upstream is None:
        assert binding.stage == "measure"
        return
    previous = BINDINGS[upstream.stage]
    sent_to = previous.progress_in_band or (previous.progress_topic,)
    assert set(upstream.topics) == set(sent_to) <= set(binding.inputs)
    assert upstream.inputs in previous.inputs
    assert upstream.barrier is previous.covers


@pytest.mark.parametrize("binding", ALL, ids=lambda binding: binding.stage)
def test_progress_is_readable_in_every_topic_that_receives_it(binding: Binding) -> None:
    """A Progress sent to any topic of the table is decoded to an equal Progress."""
    progress = Progress(binding.stage, 3, 2, 99, 7, 8, 9)
    for topic in (*binding.progress_in_band, binding.progress_topic):
        record = topics.encode(topic, progress, key="k")
        assert topics.decode(topic, record.value, record.headers) == progress


@pytest.mark.parametrize("binding", [one for one in ALL if one.is_transactional], ids=lambda one: one.stage)
def test_no_stage_counts_the_markers_of_transactions_as_lost_records(binding: Binding) -> None:
    """Other stages read only compacted outputs of a transaction; what they count by offset is sent outside of it."""
    counted = {topic for other in ALL for topic in other.inputs if topic.retention_s is not None}
    assert not counted & {*binding.outputs}
    assert {*binding.requests} <= counted
