"""The private names of aiokafka that the fence stands on are there, and mean what it takes them for."""

import inspect

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.errors import IllegalGenerationError, UnknownMemberIdError
from aiokafka.protocol.commit import OffsetCommitRequest

from streams.store.persist.commit_fence import CommitFence, PartitionLost
from streams.wire.errors import Retry

AT = TopicPartition("t", 0)


class _Response:
    def __init__(self, code: int) -> None:
        self.topics = [("t", [(0, code)])]


class _Coordinator:
    """A coordinator that answers every commit with one code."""

    def __init__(self, code: int) -> None:
        self.code = code
        self.generation, self.member_id = 4, "me"
        self.sent: list[OffsetCommitRequest] = []
        self.deaths = 0

    async def ensure_coordinator_known(self) -> None:
        return

    def coordinator_dead(self) -> None:
        self.deaths += 1

    async def _send_req(self, request: OffsetCommitRequest) -> _Response:
        self.sent.append(request)
        return _Response(self.code)


class _Consumer:
    def __init__(self, code: int) -> None:
        self._coordinator = _Coordinator(code)


def test_the_driver_has_the_names() -> None:
    """The pinned aiokafka: a later one may rename them, and this says so before a sink does."""
    source = inspect.getsource(GroupCoordinator.__init__)
    assert "self.generation" in source and "self.member_id" in source
    assert list(inspect.signature(GroupCoordinator._send_req).parameters) == ["self", "request"]
    assert inspect.iscoroutinefunction(GroupCoordinator.fetch_committed_offsets)
    assert inspect.iscoroutinefunction(GroupCoordinator.ensure_coordinator_known)
    assert callable(GroupCoordinator.coordinator_dead)
    assert "self._coordinator" in inspect.getsource(AIOKafkaConsumer.start)


async def test_a_commit_names_the_owner_of_its_assignment() -> None:
    """What the consumer has become since does not matter."""
    consumer = _Consumer(0)
    fence = CommitFence.from_assignment(consumer, "g")
    consumer._coordinator.generation, consumer._coordinator.member_id = -1, ""
    await fence.commit(AT, 5, "said")
    sent = consumer._coordinator.sent[0]
    assert (sent._consumer_group_generation_id, sent._consumer_id) == (4, "me")
    assert sent._topics == [("t", [(0, 5, "said")])]


@pytest.mark.parametrize("code", [UnknownMemberIdError.errno, IllegalGenerationError.errno, 27, 82])
async def test_who_is_not_the_owner_has_lost(code: int) -> None:
    """Unknown member, old generation, a rebalance that goes on, an instance that another has taken."""
    with pytest.raises(PartitionLost):
        await CommitFence.from_assignment(_Consumer(code), "g").commit(AT, 5, "")


@pytest.mark.parametrize("code", [14, 15, 16])
async def test_a_coordinator_that_is_away_is_asked_again(code: int) -> None:
    """Loading, not available, elsewhere."""
    consumer = _Consumer(code)
    with pytest.raises(Retry):
        await CommitFence.from_assignment(consumer, "g").commit(AT, 5, "")
    assert consumer._coordinator.deaths == (code == 16)
