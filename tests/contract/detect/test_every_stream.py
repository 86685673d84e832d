"""Properties of every detector, by its labelled case: order, repetition, restarts and missing sources change nothing.

Every detector with a labelled case is tested here without an entry of its own.
"""

import random
from collections.abc import Callable, Iterator
from functools import cache

import pytest

from streams.detect.params import DetectParams
from streams.replay.driver import event_time
from streams.replay.publications import publications
from streams.replay.score import score
from streams.wire.models import (
    CollectorStatus,
    Condition,
    Event,
    Facts,
    Finding,
    Message,
    ProbeReport,
    Remediation,
    Samples,
)
from tests.contract.detect.cases import LABELLED, case_findings, case_messages, settled_s
from tests.worlds.host_world import HOST, HostWorld
from tests.worlds.live_stages import LiveStages, final_findings, histories, in_order, run, shuffled
from tests.worlds.observations import GNMI, NIC, SNMP, at
from tests.worlds.probe_world import ProbeWorld

LATE_S = 18
"""Within the lateness (30 s), and so short that no source with a cadence of 10 s seems silent."""
AHEAD_S = 240
"""The time by which events are read before the samples of their time, in an overload of ten minutes."""


Published = list[Finding | Remediation]


@cache
def arrived(slug: str) -> list[Message]:
    """Return the messages of a case in a possible order of arrival."""
    return shuffled(case_messages(slug), LATE_S, random.Random(slug))


@cache
def live(slug: str) -> Published:
    """Return the findings of these messages without a takeover."""
    return run(arrived(slug), LABELLED[slug][0].topology)


@pytest.mark.parametrize("slug", LABELLED)
def test_order_and_repetition_within_the_lateness_change_no_final_revision(slug: str) -> None:
    """The last revisions are equal except for ids and revisions."""
    assert arrived(slug) != case_messages(slug)
    assert final_findings(live(slug)) == final_findings(run(case_messages(slug), LABELLED[slug][0].topology)) != []


@pytest.mark.parametrize("slug", LABELLED)
def test_previews_of_events_minutes_before_the_readings_change_no_final_revision(slug: str) -> None:
    """As while the samples of minutes are not read yet: each event is previewed, and processed in its order later."""
    messages, top = case_messages(slug), LABELLED[slug][0].topology
    previews = [(event_time(one)[0] - round(AHEAD_S * 1e9), 0, n, one) for n, one in enumerate(messages)]
    in_turn = [(event_time(one)[0], 1, n, one) for n, one in enumerate(messages)]
    live, last_ns = LiveStages(top), event_time(messages[-1])[0]
    for _, is_processed, _, one in sorted([*previews, *in_turn], key=lambda item: item[:3]):
        if is_processed:
            live.process(one)
        elif isinstance(one, Event):
            live.preview(one)
    live.end(last_ns + round(DetectParams().lateness_s * 1e9))
    assert final_findings(live.published) == final_findings(run(messages, top)) != []


@pytest.mark.parametrize("seed", [1, 5])
@pytest.mark.parametrize("slug", LABELLED)
def test_the_order_within_one_source_changes_nothing(slug: str, seed: int) -> None:
    """As after a takeover of a collector, or with two paths of a bridge: the last revisions are equal."""
    arrived = shuffled(case_messages(slug), LATE_S, random.Random(seed), keep_order=False)
    assert (
        final_findings(run(arrived, LABELLED[slug][0].topology))
        == final_findings(run(case_messages(slug), LABELLED[slug][0].topology))
        != []
    )


@pytest.mark.parametrize("slug", LABELLED)
def test_killed_stages_and_takeovers_change_nothing(slug: str) -> None:
    """A stage resumes twelve times from a snapshot: each finding has the same revisions, ids included."""
    chance = random.Random(slug)
    killed = {(chance.randrange(len(arrived(slug))), chance.randrange(4)) for _ in range(12)}
    assert histories(run(arrived(slug), LABELLED[slug][0].topology, killed)) == histories(live(slug)) != {}


SOURCES: dict[str, Callable[[Message], bool]] = {
    "gnmi": lambda m: isinstance(m, Samples | CollectorStatus | Facts) and m.source is GNMI,
    "snmp": lambda m: isinstance(m, Samples | CollectorStatus | Facts) and m.source is SNMP,
    "nic": lambda m: isinstance(m, Samples | CollectorStatus | Facts) and m.source is NIC,
    "host": lambda m: isinstance(m, Samples | CollectorStatus | Facts) and m.source is HOST,
    "kernel log": lambda m: isinstance(m, Event),
    "probe": lambda m: isinstance(m, ProbeReport),
}


def missing() -> Iterator[tuple[str, str, float]]:
    """Yield (case, source, time from which it is not read); gNMI is the case itself and never missing alone."""
    for slug, (world, _) in LABELLED.items():
        yield slug, "gnmi", 0
        yield from ((slug, source, 300) for source in ("gnmi", "snmp", "nic"))
        if isinstance(world, ProbeWorld):
            yield slug, "probe", 300
        if isinstance(world, HostWorld):
            yield slug, "host", 300
            if world.xids:
                yield slug, "kernel log", 300


@cache
def of_all_sources(slug: str) -> list[Message]:
    """Return a case by gNMI, SNMP and the host agents, each at its own times."""
    world, until_s = LABELLED[slug][0], settled_s(slug)
    hosts = {device.name for device in world.topology.devices.values() if device.kind == "host"}
    nics = (own for own in world.rounds(until_s, NIC, phase=6) if own.device in hosts)
    own = (one for one in case_messages(slug) if event_time(one)[0] <= at(until_s))
    return in_order([*own, *world.rounds(until_s, SNMP, phase=3), *nics])


@pytest.mark.parametrize(("slug", "source", "from_s"), list(missing()))
def test_a_source_that_is_not_read_makes_no_false_finding(slug: str, source: str, from_s: float) -> None:
    """Never read, or not from the middle of the fault on: each finding is true, or telemetry/stale."""
    world, truth = LABELLED[slug]
    is_gone = SOURCES[source]
    left = [m for m in of_all_sources(slug) if not (is_gone(m) and event_time(m)[0] >= at(from_s))]
    assert len(left) < len(of_all_sources(slug))
    published = [f for f in run(left, world.topology) if isinstance(f, Finding)]
    own = score([f for f in published if f.condition is not Condition.TELEMETRY_STALE], [truth])
    assert not own.invented, own.invented


@pytest.mark.parametrize("slug", LABELLED)
def test_all_sources_together_give_the_findings_of_one(slug: str) -> None:
    """One fault in three sources is one finding."""
    world, truth = LABELLED[slug]
    published = [f for f in run(of_all_sources(slug), world.topology) if isinstance(f, Finding)]
    own = score(published, [truth])
    assert (own.precision, own.recall) == (1.0, 1.0), own


@pytest.mark.parametrize("slug", LABELLED)
def test_no_finding_is_published_repeatedly(slug: str) -> None:
    """A case has no second finding of one fault, and no more revisions than a reader needs."""
    assert [one for one in publications(case_findings(slug)) if one.is_twin or one.is_flood] == []
