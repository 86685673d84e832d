"""The shards that a member of a group reads while it cannot be certain of its assignment."""

from collectors.core.shard_assignment import Membership

SHARDS = frozenset({1, 2})


def member() -> Membership:
    one = Membership(session_s=10)
    one.assigned(SHARDS, 100)
    return one


def test_a_kafka_that_does_not_answer_removes_no_shard() -> None:
    """For any number of requests without an answer."""
    one = member()
    for at_s in range(102, 200, 2):
        one.on_wakeup(at_s)
        one.unanswered(at_s)
        assert one.shards == SHARDS


def test_a_member_paused_for_longer_than_the_session_reads_nothing_until_kafka_answers() -> None:
    """Not even after requests without an answer."""
    one = member()
    one.on_wakeup(111)
    assert one.shards == frozenset()
    one.unanswered(111)
    one.on_wakeup(113)
    one.unanswered(113)
    assert one.shards == frozenset()
    one.confirmed(115)
    assert one.shards == SHARDS


def test_a_shorter_pause_changes_nothing() -> None:
    """Kafka has not assigned the shards to others meanwhile."""
    one = member()
    one.on_wakeup(109.9)
    assert one.shards == SHARDS


def test_a_member_that_is_refused_for_a_session_reads_nothing() -> None:
    """Another generation exists without it; it reads what it is assigned in the next one."""
    one = member()
    one.on_wakeup(105)
    assert one.shards == SHARDS
    one.on_wakeup(110.1)
    assert one.shards == frozenset()
    one.assigned(frozenset({7}), 111)
    assert one.shards == frozenset({7})


def test_a_new_assignment_replaces_the_old_one() -> None:
    """Also if the new one is empty."""
    one = member()
    one.assigned(frozenset(), 101)
    one.confirmed(102)
    assert one.shards == frozenset()
