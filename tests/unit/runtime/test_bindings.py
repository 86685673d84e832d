"""The wiring table fits the registry, and its ends fit each other."""

import pytest

from streams.runtime.bindings import BINDINGS, Binding
from streams.wire import topics
from streams.wire.models import Progress
from streams.wire.topics import Partitions

ALL = tuple(BINDINGS.values())


def test_every_stage_is_bound_once_in_the_order_of_the_flow() -> None:
    """The table names the stages of the registry, each with its own snapshot topic."""
    assert tuple(BINDINGS) == topics.STAGES
    assert all(binding.snapshots is topics.SNAPSHOTS[binding.stage] for binding in ALL)


@pytest.mark.parametrize("binding", ALL, ids=lambda binding: binding.stage)
def test_the_inputs_of_a_stage_and_its_snapshots_have_equally_many_partitions(binding: Binding) -> None:
    """Owning a partition is owning it of every input, so their numbers are the same whatever is configured."""
    partitions = Partitions(telemetry=7, pod=3)
    assert {partitions.count(topic) for topic in (*binding.inputs, binding.snapshots)} == {
        binding.partitions(partitions)
    }


@pytest.mark.parametrize("binding", ALL, ids=lambda binding: binding.stage)
def test_what_a_stage_waits_for_is_what_the_stage_before_it_sends(binding: Binding) -> None:
    """Progress is expected in topics that are read, from a stage that writes it there, a watermark a partition."""
    upstream = binding.upstream
    if upstream is None:
        assert binding.stage == "measure"
        return
    before = BINDINGS[upstream.stage]
    sends = before.progress_in_band or (before.progress_topic,)
    assert set(upstream.topics) == set(sends) <= set(binding.inputs)
    assert upstream.inputs in before.inputs
    assert upstream.barrier is before.covers


@pytest.mark.parametrize("binding", ALL, ids=lambda binding: binding.stage)
def test_progress_is_readable_wherever_it_goes(binding: Binding) -> None:
    """A Progress sent to any topic of the table is read back from it as what it was."""
    progress = Progress(binding.stage, 3, 2, 99, 7, 8, 9)
    for topic in (*binding.progress_in_band, binding.progress_topic):
        record = topics.encode(topic, progress, key="k")
        assert topics.decode(topic, record.value, record.headers) == progress
