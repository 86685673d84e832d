"""Tests that the private names of aiokafka that the fence uses exist and behave as it assumes."""

import inspect

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.errors import IllegalGenerationError, UnknownMemberIdError
from aiokafka.protocol.commit import OffsetCommitRequest

from streams.store.persist.partition_offsets import CommitFence, PartitionLost
from streams.wire.errors import Retry

AT = TopicPartition("t", 0)


class _Response:
    def __init__(self, code: int) -> None:
        self.topics = [("t", [(0, code)])]


class _Coordinator:
    """A coordinator that responds to every commit with one code."""

    def __init__(self, code: int) -> None:
        self.code = code
        self.generation, self.member_id = 4, "me"
        self.sent: list[OffsetCommitRequest] = []
        self.lost_count = 0

    async def ensure_coordinator_known(self) -> None:
        return

    def coordinator_dead(self) -> None:
        self.lost_count += 1

    async def _send_req(self, request: OffsetCommitRequest) -> _Response:
        self.sent.append(request)
        return _Response(self.code)


class _Consumer:
    def __init__(self, code: int) -> None:
        self._coordinator = _Coordinator(code)


def test_the_driver_has_the_private_names() -> None:
    """A later aiokafka may rename them; this test fails before a sink does."""
    source = inspect.getsource(GroupCoordinator.__init__)
    assert "self.generation" in source and "self.member_id" in source
    assert list(inspect.signature(GroupCoordinator._send_req).parameters) == ["self", "request"]
    assert inspect.iscoroutinefunction(GroupCoordinator.fetch_committed_offsets)
    assert inspect.iscoroutinefunction(GroupCoordinator.ensure_coordinator_known)
    assert callable(GroupCoordinator.coordinator_dead)
    assert "self._coordinator" in inspect.getsource(AIOKafkaConsumer.start)


async def test_a_commit_has_the_generation_and_member_of_its_assignment() -> None:
    """Later changes of the consumer's membership do not matter."""
    consumer = _Consumer(0)
    fence = CommitFence.from_assignment(consumer, "g")
    consumer._coordinator.generation, consumer._coordinator.member_id = -1, ""
    await fence.commit(AT, 5, "metadata")
    sent = consumer._coordinator.sent[0]
    assert (sent._consumer_group_generation_id, sent._consumer_id) == (4, "me")
    assert sent._topics == [("t", [(0, 5, "metadata")])]


@pytest.mark.parametrize("code", [UnknownMemberIdError.errno, IllegalGenerationError.errno, 27, 82])
async def test_a_commit_without_ownership_raises_partition_lost(code: int) -> None:
    """The codes are unknown member, old generation, rebalance in progress, fenced instance."""
    with pytest.raises(PartitionLost):
        await CommitFence.from_assignment(_Consumer(code), "g").commit(AT, 5, "")


@pytest.mark.parametrize("code", [14, 15, 16])
async def test_an_unavailable_coordinator_raises_retry(code: int) -> None:
    """The codes are loading, not available, not the coordinator."""
    consumer = _Consumer(code)
    with pytest.raises(Retry):
        await CommitFence.from_assignment(consumer, "g").commit(AT, 5, "")
    assert consumer._coordinator.lost_count == (code == 16)
