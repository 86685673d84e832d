"""The cost of a burst for `attribute`, which has one owner for the whole fabric, in calls and not in seconds.

Twice the episodes in batches of the same size cause about twice the calls, because the cost of a change depends on what
it affects and not on what is open. An earlier version evaluated all links of a device at each change, and counted all
silent devices for each new one: 10,000 took longer to process than they lasted.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from streams.detect.attribute.case_index import CaseIndex
from streams.detect.attribute.stage import Attribute
from streams.detect.attribute.state import Case
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.clos import GenerateParams, generate
from streams.fabric.ids import device_id
from streams.fabric.topology import Topology
from streams.wire.models import (
    Cause,
    Condition,
    Endpoint,
    Episode,
    Evidence,
    Finding,
    Message,
    Severity,
    Source,
    Status,
    Subject,
    Symptom,
)
from streams.wire.symptoms import SourceSilence
from tests.fixtures.call_counting import counting
from tests.worlds.small_fabric import begun

BEGIN_NS = ns(1_000_000)


def episodes(top: Topology, count: int, rng: random.Random) -> list[Finding]:
    """Return findings of links that are down, one leaf after the other."""
    leaves = [device.name for device in top.devices.values() if device.tier == "T0"]
    found: list[Finding] = []
    for leaf in leaves:
        for link in top.links_of[leaf]:
            far = link.lower if link.upper.device == leaf else link.upper
            begin = BEGIN_NS + rng.randrange(ns(10))
            subject = Subject(link.id, Endpoint(*link.lower), Endpoint(*link.upper), link.role, pod=link.pod)
            evidence = Evidence("down", at=Endpoint(*far))
            found.append(
                Finding(
                    f"{len(found):032x}", 1, False, Condition.LINK_DOWN, Status.OPEN, Severity.WARNING, subject,
                    begin, begin, None, begin + ns(30), evidence=(evidence,), detector="link/down",
                )
            )  # fmt: skip
        if len(found) >= count:
            break
    rng.shuffle(found)
    return found[:count]


GPUS, RADIX = 1024, 16
"""Small switches, so that many restart and each far end has no more failed links than in the largest fabric."""

BATCH = 8
"""Episodes between two watermarks: twice as many episodes have twice the watermarks."""

MAX_RATIO = 2.4
"""Calls for twice the episodes: the groups at the far ends still grow. It was 2.7 for links."""

MAX_EVALUATIONS = 8
"""Evaluations of an episode until it is final. It was 14 for links and 9 for silences, and grew with their number."""

MAX_GROUP_RATIO = 2.2
"""Calls for twice the members of one group, added one by one. It was 5.6."""


@pytest.fixture(scope="module")
def top() -> Topology:
    """Return a fabric of two tiers."""
    top = Topology(generate(GenerateParams(gpus=GPUS, radix=RADIX)))
    top.graph  # noqa: B018 — made once for all stages, before the first finding
    return top


def calls(top: Topology, opened: Sequence[Message], resolved: Sequence[Message]) -> Counter[str]:
    """Return the calls for episodes that open in batches and resolve in as many."""
    stage = begun(Attribute(DetectParams()), top)
    published = 0
    with counting() as counted:
        for begin_s, messages in ((40, opened), (140, resolved)):
            for step, first in enumerate(range(0, len(messages), BATCH)):
                published += len(stage.process(messages[first : first + BATCH]))
                published += len(stage.advance_watermark(BEGIN_NS + ns(begin_s + step / 10)))
        published += len(stage.advance_watermark(BEGIN_NS + ns(3000)))
    assert published >= 2 * len(opened), "each is published, and its end"
    return counted


def links(top: Topology, count: int) -> Counter[str]:
    """Return the calls for links of leaves that are down at once."""
    own = episodes(top, count, random.Random(1))
    resolved_ns = BEGIN_NS + ns(100)
    over = [replace(f, revision=2, status=Status.RESOLVED, resolved_at_ns=resolved_ns, final=True) for f in own]
    return calls(top, *([Episode(f, (f.started_at_ns,)) for f in findings] for findings in (own, over)))


def silences(top: Topology, count: int) -> Counter[str]:
    """Return the calls for hosts and switches that are no longer read."""
    devices = random.Random(1).sample(list(top.devices), count)
    symptoms = [
        Symptom(device, "", SourceSilence(False), BEGIN_NS + ns(30), BEGIN_NS + number, Source.SOURCE_GNMI)
        for number, device in enumerate(devices)
    ]
    return calls(
        top,
        symptoms,
        [replace(symptom, payload=SourceSilence(True), at_ns=BEGIN_NS + ns(100)) for symptom in symptoms],
    )


@pytest.mark.parametrize(("burst", "count"), [(links, 64), (silences, 80)])
def test_a_burst_twice_as_large_costs_twice_the_calls(
    top: Topology, burst: Callable[[Topology, int], Counter[str]], count: int
) -> None:
    """The evaluations of an episode, and all other calls for it, do not depend on how many others are open."""
    few, many = burst(top, count), burst(top, 2 * count)
    assert many["Attribute._evaluate"] <= MAX_EVALUATIONS * 2 * count
    assert many.total() <= MAX_RATIO * few.total()


def silent(name: str, number: int) -> Finding:
    """Return the finding of one silent device of many."""
    at_ns = BEGIN_NS + number
    return Finding(
        f"{number:032x}", 1, False, Condition.TELEMETRY_STALE, Status.OPEN, Severity.WARNING,
        Subject(device_id(name), Endpoint(name)), at_ns, at_ns, None, at_ns, cause=Cause.PATH,
        detector="telemetry/stale",
    )  # fmt: skip


def test_the_cost_of_one_more_member_does_not_depend_on_the_size_of_its_group(top: Topology) -> None:
    """The root of a group, and whether it is one, are queried after each of thousands of members."""
    names = list(top.devices)

    def calls_for(count: int) -> int:
        cases: dict[str, Case] = {}
        index = CaseIndex(DetectParams(), cases, top, 0)
        with counting() as counted:
            for number in range(count):
                own = silent(names[number], number)
                cases[own.id] = Case(Episode(own))
                index.add(own)
                group = index.groups.group_of(own)
        assert group is not None
        assert group.root.id == group.members[0].id
        return counted.total()

    assert calls_for(len(names)) <= MAX_GROUP_RATIO * calls_for(len(names) // 2)
