"""Runs of findings that began together: as they come and go one by one, they are those of all that are there."""

import random

from streams.detect.attribute.time_clusters import ClusterIndex, Member

APART_NS = 10


def member(number: int, begin_ns: int, chance: random.Random) -> Member:
    """One of few subjects and devices, of either tier."""
    device = chance.randrange(6)
    subject = f"s{chance.randrange(8)}"
    rank = (chance.random() < 0.5, chance.randrange(50), begin_ns, subject, str(number))
    return Member(begin_ns, str(number), rank, subject, f"d{device}", f"T{device % 2}")


def made(members: dict[str, Member]) -> list[list[Member]]:
    """The runs of all these, made at once."""
    runs: list[list[Member]] = []
    for one in sorted(members.values()):
        if runs and one.started_at_ns - runs[-1][-1].started_at_ns <= APART_NS:
            runs[-1].append(one)
        else:
            runs.append([one])
    return runs


def check(runs: ClusterIndex, members: dict[str, Member]) -> None:
    """Each is in the run that it would be in, and what a run counts is so."""
    assert len(runs) == len(members)
    for wanted in made(members):
        found = {id(runs.cluster_of(one.id)) for one in wanted}
        run = runs.cluster_of(wanted[0].id)
        assert run is not None
        assert len(found) == 1
        assert run.ordered() == wanted
        assert run.root_id == min(one.rank for one in wanted)[-1]
        assert run.subject_count == len({one.subject for one in wanted})
        tiers = [tier for _, tier in {(one.device, one.tier) for one in wanted}]
        assert run.tiers == {tier: tiers.count(tier) for tier in set(tiers)}


def test_runs_are_those_of_all_members_in_whatever_order_they_came() -> None:
    """Coming, going and dated anew at random, sparse and dense, runs join, grow and fall apart as if made at once."""
    for seed in range(30):
        chance = random.Random(seed)
        runs, members = ClusterIndex(APART_NS), dict[str, Member]()
        for _ in range(120):
            number = chance.randrange(40)
            if str(number) in members and chance.random() < 0.5:
                runs.remove(str(number))
                del members[str(number)]
            else:
                one = member(number, chance.randrange(40 * (1 + seed % 10)), chance)
                runs.add(one)
                members[one.id] = one
            check(runs, members)


def test_a_member_of_which_nothing_changed_stays_where_it_is() -> None:
    """A new revision of the same finding makes no run anew."""
    one = member(1, 5, random.Random(1))
    runs = ClusterIndex(APART_NS)
    runs.add(one)
    run = runs.cluster_of("1")
    runs.add(one)
    assert runs.cluster_of("1") is run
    assert runs.cluster_of("2") is None


def test_the_smaller_part_leaves_a_run_that_falls_apart() -> None:
    """Where the one goes that held two parts together, the larger stays the run that it was."""
    runs, chance = ClusterIndex(APART_NS), random.Random(1)
    for number, begin_ns in enumerate((0, 10, 20, 30, 40)):
        runs.add(member(number, begin_ns, chance))
    whole = runs.cluster_of("0")
    runs.remove("3")
    assert runs.cluster_of("0") is whole
    assert runs.cluster_of("4") is not whole
