"""What holds of every detector, by its labelled case: order, repetition, restarts and what is not read decide nothing.

A detector that is registered with a case comes through all of this without a word.
"""

import random
from collections.abc import Callable, Iterator
from functools import cache

import pytest

from streams.replay.driver import event_time
from streams.replay.score import score
from streams.wire.models import CollectorStatus, Condition, Event, Facts, Finding, Message, Remediation, Samples
from tests.contract.detect.cases import LABELLED, shortly_after, told
from tests.worlds.host_world import HOST, HostWorld
from tests.worlds.live_stages import final_findings, histories, in_order, run, shuffled
from tests.worlds.observations import GNMI, NIC, SNMP, at

LATE_S = 18
"""Within the lateness (30 s), and so that no silence of a source at 10 s seems to pass its limit."""


Said = list[Finding | Remediation]


@cache
def arrived(slug: str) -> list[Message]:
    """A case as it may arrive."""
    return shuffled(told(slug), LATE_S, random.Random(slug))


@cache
def live(slug: str) -> Said:
    """What is said of what arrives, when nobody is killed."""
    return run(arrived(slug), LABELLED[slug][0].topology)


@pytest.mark.parametrize("slug", LABELLED)
def test_order_and_repetition_within_the_lateness_change_no_final_revision(slug: str) -> None:
    """Everything of the last revisions is the same, but for ids and revisions."""
    assert arrived(slug) != told(slug)
    assert final_findings(live(slug)) == final_findings(run(told(slug), LABELLED[slug][0].topology)) != []


@pytest.mark.parametrize("seed", [1, 5])
@pytest.mark.parametrize("slug", LABELLED)
def test_not_even_the_order_of_one_source_decides_anything(slug: str, seed: int) -> None:
    """As it may be when a collector hands over, or a bridge has two ways: the last revisions are the same."""
    arrived = shuffled(told(slug), LATE_S, random.Random(seed), keep_order=False)
    assert (
        final_findings(run(arrived, LABELLED[slug][0].topology))
        == final_findings(run(told(slug), LABELLED[slug][0].topology))
        != []
    )


@pytest.mark.parametrize("slug", LABELLED)
def test_who_is_killed_and_taken_over_changes_nothing(slug: str) -> None:
    """Twelve times a stage goes on from a snapshot: of each finding is said what would have been said, ids too."""
    chance = random.Random(slug)
    killed = {(chance.randrange(len(arrived(slug))), chance.randrange(4)) for _ in range(12)}
    assert histories(run(arrived(slug), LABELLED[slug][0].topology, killed)) == histories(live(slug)) != {}


SOURCES: dict[str, Callable[[Message], bool]] = {
    "gnmi": lambda m: isinstance(m, Samples | CollectorStatus | Facts) and m.source is GNMI,
    "snmp": lambda m: isinstance(m, Samples | CollectorStatus | Facts) and m.source is SNMP,
    "nic": lambda m: isinstance(m, Samples | CollectorStatus | Facts) and m.source is NIC,
    "host": lambda m: isinstance(m, Samples | CollectorStatus | Facts) and m.source is HOST,
    "kernel log": lambda m: isinstance(m, Event),
}


def missing() -> Iterator[tuple[str, str, float]]:
    """(case, source, from when it is not read). Never read by gNMI alone: without the others it is the case itself."""
    for slug, (world, _) in LABELLED.items():
        yield slug, "gnmi", 0
        yield from ((slug, source, 300) for source in ("gnmi", "snmp", "nic"))
        if isinstance(world, HostWorld):
            yield slug, "host", 300
            if world.xids:
                yield slug, "kernel log", 300


@cache
def of_all_sources(slug: str) -> list[Message]:
    """A case as gNMI, SNMP and the hosts' own agents tell it, each at its own moment."""
    world, until_s = LABELLED[slug][0], shortly_after(slug)
    hosts = {device.name for device in world.topology.devices.values() if device.kind == "host"}
    nics = (own for own in world.rounds(until_s, NIC, phase=6) if own.device in hosts)
    own = (one for one in told(slug) if event_time(one)[0] <= at(until_s))
    return in_order([*own, *world.rounds(until_s, SNMP, phase=3), *nics])


@pytest.mark.parametrize(("slug", "source", "from_s"), list(missing()))
def test_a_source_that_is_not_read_makes_no_false_finding(slug: str, source: str, from_s: float) -> None:
    """Never read, or no more from the middle of the fault on: what is said is true, or that it is not seen."""
    world, truth = LABELLED[slug]
    is_gone = SOURCES[source]
    left = [m for m in of_all_sources(slug) if not (is_gone(m) and event_time(m)[0] >= at(from_s))]
    assert len(left) < len(of_all_sources(slug))
    said = [f for f in run(left, world.topology) if isinstance(f, Finding)]
    own = score([f for f in said if f.condition is not Condition.TELEMETRY_STALE], [truth])
    assert not own.invented, own.invented


@pytest.mark.parametrize("slug", LABELLED)
def test_all_sources_together_say_what_one_does(slug: str) -> None:
    """Three ways of reading one fault are one finding."""
    world, truth = LABELLED[slug]
    said = [f for f in run(of_all_sources(slug), world.topology) if isinstance(f, Finding)]
    own = score(said, [truth])
    assert (own.precision, own.recall) == (1.0, 1.0), own
