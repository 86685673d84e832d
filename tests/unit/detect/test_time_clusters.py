"""Clusters by start time: incremental updates give the same clusters as building them from all members."""

import random

from streams.detect.attribute.grouping import ClusterIndex, Member

MAX_GAP_NS = 10


def member(number: int, started_ns: int, rng: random.Random) -> Member:
    """Return a member with one of few subjects and devices, of either tier."""
    device = rng.randrange(6)
    subject = f"s{rng.randrange(8)}"
    rank = (rng.random() < 0.5, rng.randrange(50), started_ns, subject, str(number))
    return Member(started_ns, str(number), rank, subject, f"d{device}", f"T{device % 2}")


def built(members: dict[str, Member]) -> list[list[Member]]:
    """Return the clusters of all these members, built at once."""
    clusters: list[list[Member]] = []
    for one in sorted(members.values()):
        if clusters and one.started_at_ns - clusters[-1][-1].started_at_ns <= MAX_GAP_NS:
            clusters[-1].append(one)
        else:
            clusters.append([one])
    return clusters


def check(clusters: ClusterIndex, members: dict[str, Member]) -> None:
    """Assert that each member is in its cluster, and that the counts of the clusters are right."""
    assert len(clusters) == len(members)
    for expected in built(members):
        found = {id(clusters.cluster_of(one.id)) for one in expected}
        cluster = clusters.cluster_of(expected[0].id)
        assert cluster is not None
        assert len(found) == 1
        assert cluster.ordered() == expected
        assert cluster.root_id == min(one.rank for one in expected)[-1]
        assert cluster.subject_count == len({one.subject for one in expected})
        tiers = [tier for _, tier in {(one.device, one.tier) for one in expected}]
        assert cluster.tiers == {tier: tiers.count(tier) for tier in set(tiers)}


def test_clusters_do_not_depend_on_the_order_of_updates() -> None:
    """Members are added, removed and moved randomly, sparse and dense; clusters merge and split as if built at once."""
    for seed in range(30):
        rng = random.Random(seed)
        clusters, members = ClusterIndex(MAX_GAP_NS), dict[str, Member]()
        for _ in range(120):
            number = rng.randrange(40)
            if str(number) in members and rng.random() < 0.5:
                clusters.remove(str(number))
                del members[str(number)]
            else:
                one = member(number, rng.randrange(40 * (1 + seed % 10)), rng)
                clusters.add(one)
                members[one.id] = one
            check(clusters, members)


def test_an_unchanged_member_stays_in_its_cluster() -> None:
    """A new revision of the same finding creates no cluster."""
    one = member(1, 5, random.Random(1))
    clusters = ClusterIndex(MAX_GAP_NS)
    clusters.add(one)
    cluster = clusters.cluster_of("1")
    clusters.add(one)
    assert clusters.cluster_of("1") is cluster
    assert clusters.cluster_of("2") is None


def test_the_smaller_part_leaves_a_cluster_that_splits() -> None:
    """Removing the member that connects two parts leaves the larger part in the old cluster."""
    clusters, rng = ClusterIndex(MAX_GAP_NS), random.Random(1)
    for number, started_ns in enumerate((0, 10, 20, 30, 40)):
        clusters.add(member(number, started_ns, rng))
    cluster = clusters.cluster_of("0")
    clusters.remove("3")
    assert clusters.cluster_of("0") is cluster
    assert clusters.cluster_of("4") is not cluster
