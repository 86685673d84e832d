"""congestion/incast: senders and victims in other pods, which are named and which are not; what is forwarded for it."""

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache

import orjson
import pytest

from lab.world import demo_fabric
from lab.world.demo_fabric import DemoShape
from streams.detect.attribute.stage import Attribute
from streams.detect.correlate.stage import Correlate
from streams.detect.params import DetectParams
from streams.fabric.inventory import Inventory
from streams.fabric.topology import Topology
from streams.wire.models import Condition, Finding, Message, Symptom, SymptomsReplaced
from streams.wire.symptoms import CongestionEnded, CongestionState
from streams.wire.topics import EPISODES
from tests.fixtures.call_counting import counting
from tests.worlds.live_stages import LiveStages, final_findings, histories, in_order, run, shuffled
from tests.worlds.observations import NIC, at, last
from tests.worlds.slowed_hosts import CNP_THROTTLED, Does, readings
from tests.worlds.small_world import measured

SHAPE = DemoShape(pods=4, hosts=6, planes=1, spines=1, uplinks=1)
FABRIC = demo_fabric.inventory(SHAPE, at(0))
HOSTS = tuple(f"pod{pod}-host{n}" for pod in range(1, 5) for n in range(1, 7))
RECEIVER, SENDER, OTHER_SENDER = HOSTS[0], "pod2-host1", "pod3-host2"
VICTIM, UNRELATED = "pod2-host3", "pod2-host4"
JOBS = {
    "train": [*HOSTS[:4], SENDER, "pod2-host2", "pod3-host1", OTHER_SENDER],
    "other": [*HOSTS[4:6], VICTIM],
    "elsewhere": [UNRELATED, "pod3-host3"],
    "alone": ["pod4-host1", "pod4-host2"],
}
SLOWED = Does(throttled=True)


def placed(inventory: Inventory, jobs: Mapping[str, Iterable[str]]) -> Topology:
    (row, *_) = inventory.jobs
    rows = tuple(row._replace(job=job, device=host) for job, own in jobs.items() for host in own)
    return Topology(inventory).with_jobs(rows)


TOP = placed(FABRIC, JOBS)


def incast(states: Mapping[str, Does], top: Topology = TOP) -> Finding:
    """Return the incast at the receiver, while other hosts have these states."""
    (found,) = incasts(run(in_order(readings(HOSTS, {RECEIVER: Does(incast=True), **states})), top))
    assert found.final
    return found


def incasts(published: Iterable[object]) -> list[Finding]:
    findings = [one for one in published if isinstance(one, Finding)]
    return [one for one in last(findings) if one.condition is Condition.CONGESTION_INCAST]


def text_of(finding: Finding) -> str:
    return "\n".join(evidence.statement for evidence in finding.evidence)


def victims_of(finding: Finding) -> tuple[str, ...]:
    assert finding.blast_radius is not None
    return tuple(host for host in finding.blast_radius.hosts if host != RECEIVER)


def test_the_throttled_hosts_of_the_job_in_two_other_pods_are_named_as_senders() -> None:
    """With their rate of congestion notifications, out of the job's hosts in other pods; none is a victim."""
    found = incast({SENDER: CNP_THROTTLED, OTHER_SENDER: Does(cnp_throttled=8000, throttled=True, paused=False)})
    assert (
        f"most likely senders in other pods: {SENDER}, {OTHER_SENDER}, throttled by up to 8020 congestion notifications"
        " a second meanwhile" in text_of(found)
    )
    (line,) = (one for one in found.evidence if one.metric == "cnp_handled")
    assert (line.observed, line.peers) == (2.0, 4)
    assert victims_of(found) == ()


def test_senders_of_its_own_pod_are_named_apart() -> None:
    """Each line has the number of hosts that it compares."""
    found = incast({HOSTS[1]: CNP_THROTTLED, SENDER: CNP_THROTTLED})
    assert f"job train receives on {RECEIVER}; most likely senders: {HOSTS[1]}, throttled" in text_of(found)
    assert f"most likely senders in other pods: {SENDER}, throttled" in text_of(found)
    assert [one.peers for one in found.evidence if one.metric == "cnp_handled"] == [3, 4]


def test_hosts_that_lose_packets_are_senders_without_notifications() -> None:
    """As within a pod, in a fabric without flow and congestion control."""
    found = incast({SENDER: Does(throttled=True, paused=False, repeated=900)})
    assert f"most likely senders in other pods: {SENDER}, slowed by losses meanwhile" in text_of(found)
    assert f"{SENDER} repeat up to 900 lost packets a second" in text_of(found)


def test_a_sentence_names_the_first_hosts_and_counts_the_rest() -> None:
    """Of twelve senders eight are named."""
    many = [host for host in HOSTS if host.startswith(("pod2", "pod3"))]
    found = incast(dict.fromkeys(many, CNP_THROTTLED), placed(FABRIC, {"train": [RECEIVER, *many]}))
    assert f"senders in other pods: {', '.join(many[:8])} and 4 more, throttled" in text_of(found)


NOT_NAMED: dict[str, dict[str, Does]] = {
    "a host of a job without hosts in the receiver's pod": {UNRELATED: CNP_THROTTLED},
    "a host of another job that is throttled and sends as much as ever": {VICTIM: CNP_THROTTLED},
    "a host that sends far less and runs a job without hosts in the receiver's pod": {UNRELATED: SLOWED},
    "a host of the job that pause slows": {SENDER: SLOWED},
    "a host of the job that is throttled after the incast": {SENDER: replace(CNP_THROTTLED, span_s=(560, 860))},
    "a host of the job that was throttled before the incast": {SENDER: replace(CNP_THROTTLED, span_s=(20, 100))},
    "a host of the job that is throttled on another rail": {SENDER: replace(CNP_THROTTLED, port="mlx5_2")},
    "a victim on another rail": {VICTIM: replace(SLOWED, port="mlx5_2")},
    "a victim at another time": {VICTIM: replace(SLOWED, span_s=(560, 860))},
    "a host without a job": {"pod2-host6": SLOWED},
    "a host of a job in one pod": {"pod4-host1": CNP_THROTTLED},
}


@pytest.mark.parametrize("case", NOT_NAMED)
def test_it_is_not_named(case: str) -> None:
    """The evidence states that none of the job's hosts in other pods is a sender."""
    (name,) = NOT_NAMED[case]
    found = incast(NOT_NAMED[case])
    assert name not in text_of(found)
    assert "none of the 4 hosts of job train in other pods is throttled on this rail" in text_of(found)
    assert victims_of(found) == ()


def test_a_host_on_another_plane_is_not_named() -> None:
    """Planes share no link."""
    links = tuple(
        one._replace(plane=2) if one.a == (SENDER, "mlx5_3") or one.z == (SENDER, "mlx5_3") else one
        for one in FABRIC.links
    )
    assert links != FABRIC.links
    assert SENDER not in text_of(incast({SENDER: CNP_THROTTLED}, placed(replace(FABRIC, links=links), JOBS)))


def test_victims_are_hosts_of_a_job_that_shares_paths_with_the_incast() -> None:
    """They send half of their rate or less, and their job has hosts in the receiver's pod: it is affected as well."""
    found = incast({VICTIM: SLOWED, SENDER: CNP_THROTTLED})
    assert f"victims: {VICTIM} of job other in other pods on the same rail, throttled and" in text_of(found)
    assert victims_of(found) == (VICTIM,)
    assert found.blast_radius is not None
    assert (found.blast_radius.jobs, found.blast_radius.gpus) == (("other", "train"), 16)


def test_an_open_incast_gets_its_senders_when_they_are_throttled() -> None:
    """Within a batch of 10 s of their symptom, not only with its end; one revision for all of a batch."""
    late = replace(CNP_THROTTLED, span_s=(250, 420))
    states = {RECEIVER: Does(incast=True), SENDER: late, "pod2-host2": late}
    published = run(in_order(readings(HOSTS, states, 400)), TOP)
    first, second = (one for one in published if isinstance(one, Finding))
    assert SENDER not in text_of(first)
    assert f"senders in other pods: {SENDER}, pod2-host2, throttled" in text_of(second)
    assert second.resolved_at_ns is None


def test_without_a_job_at_the_receiver_no_sender_is_named() -> None:
    """Nothing connects a host in another pod with it."""
    text = text_of(incast({SENDER: CNP_THROTTLED}, placed(FABRIC, {"train": [SENDER, OTHER_SENDER]})))
    assert "its senders are not known" in text
    assert SENDER not in text


def test_without_an_incast_nothing_is_published() -> None:
    """Throttled hosts alone are no incast."""
    states = dict.fromkeys((SENDER, OTHER_SENDER), CNP_THROTTLED) | {VICTIM: SLOWED}
    assert incasts(run(in_order(readings(HOSTS, states)), TOP)) == []


MIXED = {
    RECEIVER: Does(incast=True), HOSTS[1]: CNP_THROTTLED, SENDER: CNP_THROTTLED,
    OTHER_SENDER: Does(cnp_throttled=3000, throttled=True), VICTIM: SLOWED, UNRELATED: CNP_THROTTLED,
    "pod4-host1": SLOWED,
}  # fmt: skip


@cache
def mixed() -> list[Message]:
    return in_order(readings(HOSTS, MIXED, 800))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_order_repetition_and_restarts_change_nothing(seed: int) -> None:
    """Neither the order of the devices nor a takeover changes the last revisions, nor a takeover any revision."""
    chance = random.Random(seed)
    arrived = shuffled(mixed(), 18, chance)
    expected = final_findings(run(mixed(), TOP))
    assert final_findings(run(arrived, TOP)) == expected != []
    killed = {(chance.randrange(len(arrived)), chance.randrange(4)) for _ in range(12)}
    assert histories(run(arrived, TOP, killed)) == histories(run(arrived, TOP))


def forwarded(states: Mapping[str, Does], top: Topology = TOP) -> Counter[str]:
    """Return how many symptoms of ports `attribute` receives, by host."""
    stage = Correlate(DetectParams())
    stage.set_topology(top)
    outputs = stage.process(list(measured(top, readings(HOSTS, states))))
    return Counter(
        one.message.device
        for one in outputs
        if one.topic is EPISODES and isinstance(one.message, Symptom | SymptomsReplaced) and one.message.port
    )


def test_only_states_of_hosts_of_jobs_in_several_pods_are_forwarded() -> None:
    """One symptom for each begin and end; a healthy fabric sends none, nor does a job in one pod."""
    assert forwarded({RECEIVER: Does(incast=True)}) == {}
    assert forwarded({"pod4-host1": CNP_THROTTLED, "pod4-host2": SLOWED}) == {}
    assert forwarded({SENDER: CNP_THROTTLED, VICTIM: SLOWED}) == {SENDER: 2, VICTIM: 2}
    assert forwarded({SENDER: Does(cnp_throttled=8000, throttled=True, paused=False)}) == {SENDER: 4}


def test_where_no_job_is_known_nothing_is_forwarded() -> None:
    """There is no finding that it could complete; a host of a job that is not published yet may be a sender."""
    assert forwarded({SENDER: CNP_THROTTLED}, placed(FABRIC, {})) == {}
    assert forwarded({SENDER: CNP_THROTTLED}, placed(FABRIC, {"alone": JOBS["alone"]})) == {SENDER: 2}


def test_the_owner_of_a_links_new_pod_forwards_the_end() -> None:
    """It does not know the begin, which the former owner forwarded; of a known spell a repeated end is not."""
    begin, end = measured(TOP, readings(HOSTS, {SENDER: CNP_THROTTLED}))
    assert isinstance(end.payload, CongestionEnded)
    stage = Correlate(DetectParams())
    stage.set_topology(TOP)
    assert [one.message for one in stage.process([end])] == [end]
    stage.process([begin, end])
    assert stage.process([begin, end]) == []


def test_a_begin_that_a_late_reading_takes_back_names_no_sender() -> None:
    """The replacement is forwarded as its symptoms are."""
    pods, fabric = Correlate(DetectParams()), Attribute(DetectParams())
    for stage in (pods, fabric):
        stage.set_topology(TOP)

    def newest(messages: list[Message], watermark_ns: int) -> Finding:
        outputs = pods.process(messages) + pods.advance_watermark(watermark_ns)
        published = fabric.process([one.message for one in outputs if one.message is not None])
        published += fabric.advance_watermark(watermark_ns)
        return [one.message for one in published if isinstance(one.message, Finding)][-1]

    states = {RECEIVER: Does(incast=True), SENDER: CNP_THROTTLED}
    symptoms = list(measured(TOP, readings(HOSTS, states, 300)))
    assert SENDER in text_of(newest([*symptoms], at(310)))
    (begin,) = (one for one in symptoms if one.device == SENDER)
    taken_back = SymptomsReplaced(SENDER, begin.port, NIC, CongestionState.CNP_THROTTLED, begin.at_ns - 1, ())
    assert SENDER not in text_of(newest([taken_back], at(330)))


def test_nothing_is_retained_long_after_the_end() -> None:
    """`remember_s` after a spell, and after the last revision of the incast, the state is empty again."""
    live = LiveStages(TOP)
    for message in in_order(readings(HOSTS, MIXED, 2000)):
        live.process(message)
    (stage,) = (one for one in live.stages if isinstance(one, Attribute))
    state = orjson.loads(stage.snapshot())["evaluators"]["congestion/incast"]
    assert (state["ports"], state["changed"], state["incasts"]) == ({}, {}, {})


def test_symptoms_of_other_states_are_ignored() -> None:
    """A full link is no throttled one."""
    stage = Attribute(DetectParams())
    stage.set_topology(TOP)
    ended = CongestionEnded(CongestionState.FULL, at(100))
    before = stage.snapshot()
    assert stage.process([Symptom(SENDER, "mlx5_3", ended, at(110), source=NIC)]) == []
    assert stage.snapshot() == before


def test_a_throttled_link_costs_as_much_beside_many_others() -> None:
    """A pod of the largest fabric has 4,096 links of hosts, which a collapse throttles at once."""

    def retained(hosts: int) -> int:
        stage = Correlate(DetectParams())
        stage.set_topology(TOP)
        symptoms = list(measured(TOP, readings(HOSTS[6 : 6 + hosts], dict.fromkeys(HOSTS, SLOWED), 300)))
        assert len(symptoms) == hosts
        with counting() as calls:
            stage.process(symptoms)
        return sum(calls.values())

    retained(6)  # fills caches that all links share
    assert retained(6) == pytest.approx(6 * retained(1), rel=0.1)
