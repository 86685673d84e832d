"""Tests which candidates are taken out together: within the floor, with the least remaining penalty."""

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from streams.decide.capacity import Capacity
from streams.decide.optimizer import Candidate, select
from tests.worlds.other_fabrics import three_tiers

TOP = three_tiers()
FABRIC = [number for number, one in enumerate(TOP.graph.links) if one.role == "fabric-link"]
FLOOR = 0.75

candidate_lists = st.lists(
    st.builds(Candidate, st.sampled_from(FABRIC), st.sampled_from([1.0, 2.0, 3.0, 5.0])),
    max_size=7,
    unique_by=lambda candidate: candidate.link,
)


def capacity(lost: set[int] | None = None) -> Capacity:
    own = Capacity(TOP)
    ids = {TOP.graph.links[number].id for number in lost or ()}
    for pod in range(len(TOP.graph.pods)):
        own.refresh(pod, ids)
    return own


def uplinks(device: str) -> list[int]:
    return [number for number in FABRIC if TOP.graph.links[number].lower.device == device]


def test_the_worst_penalty_goes_first() -> None:
    """One uplink of a leaf fits: the worst goes, the others wait in the order of their penalties."""
    first, second, third, fourth = uplinks("a-t0-0-0")
    candidates = [Candidate(first, 1), Candidate(second, 3), Candidate(third, 2), Candidate(fourth, 0.5)]
    selected, waiting = select(capacity(), candidates, FLOOR)
    assert selected == (Candidate(second, 3),)
    assert [candidate.penalty for candidate in waiting] == [2, 1, 0.5]


def test_a_combination_may_be_better_than_the_worst() -> None:
    """A leaf's uplink excludes three links of T1s that together have the higher penalty; greedy selects the worst."""
    leaf = Candidate(uplinks("a-t0-0-0")[0], 4)
    aggs = [Candidate(uplinks(f"a-t1-0-{agg}")[0], 2) for agg in (1, 2, 3)]
    assert set(select(capacity(), [leaf, *aggs], FLOOR).selected) == set(aggs)
    assert select(capacity(), [leaf, *aggs], FLOOR, max_checks=1).selected == (leaf,)


def test_isolated_links_count_as_lost() -> None:
    """One uplink of the leaf is isolated although its port is up: no other fits."""
    first, second, *_ = uplinks("a-t0-0-0")
    assert select(capacity(), [Candidate(second, 1)], FLOOR, isolated=[first]).selected == ()
    assert select(capacity(), [Candidate(second, 1)], FLOOR).selected == (Candidate(second, 1),)


def test_nothing_goes_where_capacity_is_unknown() -> None:
    """Without proof that a link carries, all candidates wait."""
    candidates = [Candidate(uplinks("a-t0-0-0")[0], 1)]
    assert select(Capacity(TOP), candidates, FLOOR) == ((), tuple(candidates))


@settings(max_examples=60, deadline=None)
@given(st.sets(st.sampled_from(FABRIC), max_size=12), candidate_lists)
def test_the_selection_keeps_every_floor_and_is_the_best(lost: set[int], candidates: list[Candidate]) -> None:
    """A complete search over all subsets finds no lower remaining penalty."""
    own = capacity(lost)
    selected, waiting = select(own, candidates, FLOOR, max_checks=10_000)
    assert sorted([*selected, *waiting]) == sorted(candidates)
    assert not own.below([candidate.link for candidate in selected], FLOOR)
    fitting = (
        sum(candidate.penalty for candidate in subset)
        for size in range(len(candidates) + 1)
        for subset in combinations(candidates, size)
        if not own.below([candidate.link for candidate in subset], FLOOR)
    )
    assert sum(candidate.penalty for candidate in selected) == max(fitting)


@settings(max_examples=60, deadline=None)
@given(st.sets(st.sampled_from(FABRIC), max_size=12), candidate_lists, st.integers(1, 5))
def test_a_limited_search_keeps_every_floor_and_wastes_nothing(
    lost: set[int], candidates: list[Candidate], max_checks: int
) -> None:
    """Whatever the limit, the selection fits, and no single candidate that waits would fit beside it."""
    own = capacity(lost)
    selected, waiting = select(own, candidates, FLOOR, max_checks=max_checks)
    links = [candidate.link for candidate in selected]
    assert not own.below(links, FLOOR)
    assert all(own.below([*links, candidate.link], FLOOR) for candidate in waiting)
