"""Tests the history of isolations; the safety machine shows that no history exceeds a cap, rate, budget or floor."""

import orjson
from pydantic import TypeAdapter

from streams.decide.state import WEEK_S, Isolations, TargetKind
from tests.worlds.observations import at


def test_a_target_is_active_from_the_decision_to_the_restore() -> None:
    """A second isolation of an active target starts nothing; a restore leaves the history."""
    isolations = Isolations()
    for t in (10, 20):
        isolations.isolate("link", TargetKind.LINK, "p", at(t))
    assert (isolations.count(), isolations.count_started(at(0)), isolations.changed_ns["link"]) == (1, 1, at(20))
    isolations.restored("link", at(30))
    assert (isolations.count(), isolations.count_started(at(0)), isolations.changed_ns["link"]) == (0, 1, at(30))


def test_an_answer_for_another_target_changes_nothing() -> None:
    """A restore of a target that is in service starts no cool-down, and no earlier time shortens one."""
    isolations = Isolations()
    isolations.restored("link", at(30))
    assert isolations.changed_ns == {}
    isolations.isolate("link", TargetKind.LINK, "p", at(50))
    isolations.restored("link", at(40))
    assert isolations.changed_ns == {"link": at(50)}


def test_counts_by_kind_pod_and_target() -> None:
    """Each count selects what it names."""
    isolations = Isolations()
    isolations.isolate("a", TargetKind.LINK, "p", at(1))
    isolations.isolate("b", TargetKind.LINK, "q", at(2))
    isolations.isolate("h", TargetKind.HOST, "p", at(3))
    assert isolations.count() == 3
    assert isolations.count(TargetKind.LINK) == 2
    assert isolations.count(pod="p") == 2
    assert isolations.count(TargetKind.LINK, pod="p") == 1
    assert isolations.count_started(at(1)) == 2
    assert isolations.count_started(at(1), "b") == 1


def test_history_older_than_a_week_is_evicted() -> None:
    """Active isolations remain; a week is the longest interval of a budget."""
    isolations = Isolations()
    isolations.isolate("old", TargetKind.LINK, "p", at(0))
    isolations.isolate("new", TargetKind.LINK, "p", at(1))
    isolations.reset("nic", at(0))
    isolations.prune(at(WEEK_S))
    assert isolations.started_ns == {"new": [at(1)]}
    assert (isolations.resets_ns, set(isolations.changed_ns), set(isolations.active)) == ({}, {"new"}, {"old", "new"})


def test_isolations_are_plain_values() -> None:
    """A snapshot has all of them."""
    isolations = Isolations()
    isolations.isolate("a", TargetKind.LINK, "p", at(1))
    isolations.reset("nic", at(0))
    assert TypeAdapter(Isolations).validate_json(orjson.dumps(isolations)) == isolations
