"""What a burst costs `attribute`, which is one owner for the whole fabric: calls are counted, no times.

Twice the episodes, told as many at a time, make about twice the calls, because a change costs what it touches and not
what is open. Once each change at a device judged all of its links anew, and each device more of which nothing is read
counted all the others again: 10,000 took longer than they last.
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
from streams.fabric.ids import device_id
from streams.fabric.topology import Topology
from streams.simulation.clos import GenerateParams, generate
from streams.wire.models import (
    Cause,
    Condition,
    Endpoint,
    Episode,
    Finding,
    Message,
    Severity,
    Source,
    Status,
    Subject,
    Symptom,
)
from streams.wire.symptoms import SourceSilence
from tests.bench.attribute_burst import episodes
from tests.fixtures.call_counting import counting

GPUS, RADIX = 1024, 16
"""Small switches, so that many of them restart and each far end sees no more than the largest fabric's would."""

A_STEP = 8
"""Episodes that are told in one step of time: of twice as many there are twice the steps."""

TWICE = 2.4
"""Calls for twice the episodes: the groups at the far ends still grow. It was 2.7 for links."""

JUDGED = 8
"""How many times an episode is judged until it is final. It was 14 for links and 9 for silences, and grew with them."""

ONE_MORE = 2.2
"""Calls for twice the members of one group, that come one by one. It was 5.6."""

BEGIN_NS = ns(1_000_000)


@pytest.fixture(scope="module")
def top() -> Topology:
    """A fabric of two tiers."""
    top = Topology(generate(GenerateParams(gpus=GPUS, radix=RADIX)))
    top.graph  # noqa: B018 — made once for all stages, before the first finding
    return top


def calls(top: Topology, told: Sequence[Message], over: Sequence[Message]) -> Counter[str]:
    """Of all that is told in steps of time, and is over in as many."""
    stage = Attribute(DetectParams())
    stage.start_epoch(1)
    stage.set_topology(top)
    said = 0
    with counting() as counted:
        for begin_s, messages in ((40, told), (140, over)):
            for step, first in enumerate(range(0, len(messages), A_STEP)):
                said += len(stage.process(messages[first : first + A_STEP]))
                said += len(stage.advance_watermark(BEGIN_NS + ns(begin_s + step / 10)))
        said += len(stage.advance_watermark(BEGIN_NS + ns(3000)))
    assert said >= 2 * len(told), "each is said, and that it is over"
    return counted


def links(top: Topology, count: int) -> Counter[str]:
    """Links of leaves that are down at once."""
    own = episodes(top, count, random.Random(1))
    resolved_ns = BEGIN_NS + ns(100)
    over = [replace(f, revision=2, status=Status.RESOLVED, resolved_at_ns=resolved_ns, final=True) for f in own]
    return calls(top, *([Episode(f, (f.started_at_ns,)) for f in findings] for findings in (own, over)))


def silences(top: Topology, count: int) -> Counter[str]:
    """Devices, hosts and switches, of which nothing is read any more."""
    devices = random.Random(1).sample(list(top.devices), count)
    told = [
        Symptom(device, "", SourceSilence(False), BEGIN_NS + ns(30), BEGIN_NS + number, Source.SOURCE_GNMI)
        for number, device in enumerate(devices)
    ]
    return calls(
        top, told, [replace(symptom, payload=SourceSilence(True), at_ns=BEGIN_NS + ns(100)) for symptom in told]
    )


@pytest.mark.parametrize(("burst", "count"), [(links, 64), (silences, 80)])
def test_a_burst_twice_as_large_costs_twice_the_calls(
    top: Topology, burst: Callable[[Topology, int], Counter[str]], count: int
) -> None:
    """An episode is judged a few times, however many others are open; so is all else that is done for it."""
    few, many = burst(top, count), burst(top, 2 * count)
    assert many["Attribute._evaluate"] <= JUDGED * 2 * count
    assert many.total() <= TWICE * few.total()


def silent(name: str, number: int) -> Finding:
    """One device of many of which nothing is read."""
    at_ns = BEGIN_NS + number
    return Finding(
        f"{number:032x}", 1, False, Condition.TELEMETRY_STALE, Status.OPEN, Severity.WARNING,
        Subject(device_id(name), Endpoint(name)), at_ns, at_ns, None, at_ns, cause=Cause.PATH,
        detector="telemetry/stale",
    )  # fmt: skip


def test_one_more_in_a_group_costs_the_same_however_many_are_in_it(top: Topology) -> None:
    """A device more in a group of thousands that is asked after each: who stands for it, and whether it is one."""
    names = list(top.devices)

    def grown(count: int) -> int:
        cases: dict[str, Case] = {}
        asked = CaseIndex(DetectParams(), cases, top)
        with counting() as counted:
            for number in range(count):
                own = silent(names[number], number)
                cases[own.id] = Case(Episode(own))
                asked.add(own)
                group = asked.groups.group_of(own)
        assert group is not None
        assert group.root.id == group.members[0].id
        return counted.total()

    assert grown(len(names)) <= ONE_MORE * grown(len(names) // 2)
