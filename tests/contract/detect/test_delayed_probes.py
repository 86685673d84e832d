"""congestion/incast by a full link and delayed probes: what is none and what is; order and restarts change nothing.

The counters of these cases show neither marks, nor drops, nor pause.
"""

import random
from dataclasses import replace
from functools import cache

import pytest

from lab.world import demo_fabric
from lab.world.demo_fabric import DemoShape
from streams.fabric.topology import Topology
from streams.replay.score import Truth, score
from streams.wire.models import Cause, Condition, Finding, Message, ProbeReport
from tests.contract.detect.cases import PROBED, PROBED_INVENTORY
from tests.worlds.live_stages import final_findings, histories, in_order, run, shuffled
from tests.worlds.observations import after, at, last
from tests.worlds.probe_world import ProbeWorld, probed
from tests.worlds.small_world import play, recorded

RAIL = "pod1-host2/mlx5_3"
HOST, PORT = RAIL.split("/")
PLAIN = demo_fabric.inventory(DemoShape(pods=1, hosts=5, planes=1, spines=2, uplinks=1), at(0))
SPANS = [(100.0, 400.0)]
UNTIL_S, LATE_S = 900, 18


def world(**faults: object) -> ProbeWorld:
    return ProbeWorld(topology=PROBED, inventory=PROBED_INVENTORY, **faults)  # type: ignore[arg-type]


def incasts(own: ProbeWorld) -> list[Finding]:
    """Return the last revisions of the incasts of a world."""
    return incasts_of(in_order(recorded(own, UNTIL_S)), own.topology)


def incasts_of(messages: list[Message], topology: Topology = PROBED) -> list[Finding]:
    published = [one for one in play(messages, topology) if isinstance(one, Finding)]
    return [one for one in last(published) if one.condition is Condition.CONGESTION_INCAST]


QUEUED = world(full={RAIL: SPANS}, queues={RAIL: (800, SPANS)})
NONE: dict[str, ProbeWorld] = {
    "a full link whose probes take as long as ever": world(full={RAIL: SPANS}),
    "delayed probes of a link that is not full": world(full={"pod1-host4/mlx5_5": SPANS}, queues={RAIL: (800, SPANS)}),
    "a queue within the bounds of congestion control": world(full={RAIL: SPANS}, queues={RAIL: (40, SPANS)}),
    "a host whose own probes are all slow": world(full={RAIL: SPANS}, slow_hosts={HOST: (900, SPANS)}),
    "all other hosts slow to send": world(
        full={RAIL: SPANS}, slow_hosts={f"pod1-host{n}": (900, SPANS) for n in (1, 3, 4, 5)}
    ),
    "one source with a queue before its own port": world(
        full={RAIL: SPANS}, queues={"pod1-host4/mlx5_3": (900, SPANS)}
    ),
    "a queue before one uplink of the leaf": world(full={RAIL: SPANS}, queues={"pod1-leaf4/Ethernet6/1": (900, SPANS)}),
    "queues before all uplinks of the leaf": world(
        full={RAIL: SPANS}, queues={f"pod1-leaf4/Ethernet{n}/1": (900, SPANS) for n in (6, 7)}
    ),
    "a burst of four windows": world(full={RAIL: SPANS}, queues={RAIL: (800, [(200, 240)])}),
    "a full link and delayed probes, one after the other": world(
        full={RAIL: [(100, 300)]}, queues={RAIL: (800, [(310, 500)])}
    ),
    "a load of half of the rail's hosts": world(
        full={f"pod1-host{n}/mlx5_3": SPANS for n in (1, 2, 3)},
        queues={f"pod1-host{n}/mlx5_3": (800, SPANS) for n in (1, 2, 3)},
    ),
}


@pytest.mark.parametrize("case", NONE)
def test_it_is_none(case: str) -> None:
    """A full link alone is load; delayed probes alone are a slow host or a queue elsewhere."""
    assert incasts(NONE[case]) == []


@cache
def queued() -> list[Message]:
    return in_order(recorded(QUEUED, UNTIL_S))


def test_a_full_link_with_delayed_probes_is_one() -> None:
    """It is found after a minute without marks, drops and pause, with the times of probes as its evidence."""
    (found,) = incasts_of(queued())
    truth = Truth(at(100), at(400), Condition.CONGESTION_INCAST, HOST, PORT, 10)
    scored = score([found], [truth])
    assert (scored.precision, scored.recall) == (1.0, 1.0)
    assert (found.cause, found.final) == (Cause.CONGESTION, True)
    assert (after(found.started_at_ns), after(found.resolved_at_ns)) == (100, 400)
    assert at(160) <= (found.detected_at_ns or 0) <= at(170)
    assert found.summary == (
        f"more traffic arrives for {RAIL} than it drains: its link is full, and probes of and to it are delayed"
    )
    (line,) = [one for one in found.evidence if one.metric == "rtt_us"]
    assert line.observed == pytest.approx(800, rel=0.3)
    assert (line.expected, line.peers) == (100, 4)
    assert line.statement.startswith(f"13 of 13 flows of probes from {RAIL}, and those of 4 other hosts to it, take ")


def test_the_time_at_the_responder_does_not_count() -> None:
    """A host that answers late delays no packet: its reports and those of its peers have the time apart."""
    slow = [
        replace(one, flow_responder_p50_ns=(900_000_000,) * len(one.flow_sent)) if isinstance(one, ProbeReport) else one
        for one in in_order(recorded(world(full={RAIL: SPANS}), UNTIL_S))
    ]
    assert incasts_of(slow) == []


def test_a_single_late_probe_changes_no_median() -> None:
    """The slowest of each flow's probes takes a second, and nothing is found."""
    late = [
        replace(one, flow_rtt_p99_ns=(1_000_000_000,) * len(one.flow_sent)) if isinstance(one, ProbeReport) else one
        for one in in_order(recorded(world(full={RAIL: SPANS}), UNTIL_S))
    ]
    assert incasts_of(late) == []


def test_a_marked_incast_has_the_delays_as_evidence() -> None:
    """The counter stays the headline."""
    (found,) = incasts(world(incast={RAIL: SPANS}, queues={RAIL: (800, SPANS)}))
    assert found.summary.endswith("its link is full, 40% of packets marked")
    assert [one.metric for one in found.evidence if one.comparison == "peers"] == ["rtt_us"]


def test_probes_of_a_host_with_one_other_rail_show_it_as_well() -> None:
    """A queue before one of two rails delays half of the host's flows."""
    left = tuple(one for one in PLAIN.links if "host" not in one.a_device or one.a_port in ("mlx5_3", "mlx5_4"))
    inventory, topology = probed(replace(PLAIN, links=left))
    own = ProbeWorld(topology=topology, inventory=inventory, full={RAIL: SPANS}, queues={RAIL: (800, SPANS)})
    assert len(incasts(own)) == 1


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_order_and_repetition_within_the_lateness_change_no_final_revision(seed: int) -> None:
    expected = final_findings(run(queued(), PROBED))
    assert expected != []
    for keep_order in (True, False):
        arrived = shuffled(queued(), LATE_S, random.Random(seed), keep_order=keep_order)
        assert final_findings(run(arrived, PROBED)) == expected


def test_killed_stages_and_takeovers_change_nothing() -> None:
    """A stage resumes twelve times from a snapshot: each finding has the same revisions, ids included."""
    chance = random.Random(5)
    killed = {(chance.randrange(len(queued())), chance.randrange(4)) for _ in range(12)}
    assert histories(run(queued(), PROBED, killed)) == histories(run(queued(), PROBED)) != {}


def test_the_finding_has_few_revisions_while_it_is_open() -> None:
    """A window of probes alone changes nothing that a reader needs."""
    published = [one for one in play(queued(), PROBED) if isinstance(one, Finding)]
    assert len([one for one in published if one.condition is Condition.CONGESTION_INCAST]) <= 8


COLLAPSED = {f"pod1-host{n}/mlx5_3": [(100.0, 400.0)] for n in range(1, 6)}
"""One rail of all hosts, which the leaf pauses: what the NICs send waits."""


def collapses(own: ProbeWorld) -> list[Finding]:
    """Return the last revisions of the collapses of a world."""
    published = [one for one in play(in_order(recorded(own, UNTIL_S)), PROBED) if isinstance(one, Finding)]
    return [one for one in last(published) if one.condition is Condition.CONGESTION_COLLAPSE]


def test_delayed_probes_of_the_throttled_rail_are_evidence_of_a_collapse() -> None:
    """Those of the hosts' other rails are not delayed."""
    queues = {f"pod1-leaf4/Ethernet{n}/1": (900, SPANS) for n in range(1, 6)}
    (found,) = collapses(world(throttled=COLLAPSED, queues=queues))
    (line,) = [one for one in found.evidence if one.metric == "rtt_us"]
    assert line.statement.startswith("probes of 5 of these 5 ports take up to ")
    assert line.observed == pytest.approx(1000, rel=0.5)


@pytest.mark.parametrize("slow", [{}, {f"pod1-host{n}": (900, SPANS) for n in range(1, 6)}])
def test_hosts_that_are_slow_themselves_are_no_evidence_of_a_collapse(slow: dict[str, object]) -> None:
    """All rails of a slow host take longer: the collapse stands without such a line."""
    (found,) = collapses(world(throttled=COLLAPSED, slow_hosts=slow))
    assert [one for one in found.evidence if one.metric == "rtt_us" and (one.peers or 0) > 1] == []


def test_delayed_probes_alone_are_no_collapse() -> None:
    """A rail whose ports send as much as before has not collapsed."""
    queues = {f"pod1-leaf4/Ethernet{n}/1": (900, SPANS) for n in range(1, 6)}
    assert collapses(world(slow={"pod1-host1/mlx5_1": SPANS}, queues=queues)) == []
