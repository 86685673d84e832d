"""A simulated day without one of its sources: what does not come, and what of what is said then is new and false."""

from collections import Counter
from collections.abc import Iterable

import pytest

from streams.cli.bench.detection.effects import Span
from streams.cli.bench.detection.lack import Lack
from streams.cli.bench.detection.sources import SOURCES, lacking
from streams.cli.bench.detection.trial import Asked, Outcome
from streams.fabric.ids import Port
from streams.replay.score import Score, Seen
from streams.wire.models import (
    Condition,
    Event,
    EventKind,
    Facts,
    Message,
    Source,
    Subject,
)
from tests.unit.cli.made import finding

NIC = Event("host-1", "mlx5_0", EventKind.LINK_DOWN, 1, 1, Source.SOURCE_NIC)
KERNEL = Event("host-1", "mlx5_0", EventKind.LINK_DOWN, 1, 1, Source.SOURCE_HOST)
AGENT = Facts("host-1", 1, Source.SOURCE_HOST)
SWITCH = Facts("leaf-1", 1, Source.SOURCE_GNMI)
ENDS = frozenset({Port("host-1", "mlx5_0"), Port("leaf-1", "Ethernet1/1")})
ALL: list[Message] = [NIC, KERNEL, AGENT, SWITCH]


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("", ALL), ("gnmi", [NIC, KERNEL, AGENT]), ("nic", [KERNEL, AGENT, SWITCH]), ("host", [NIC, SWITCH]),
        ("kernel", [NIC, AGENT, SWITCH]),
    ],
)  # fmt: skip
def test_a_source_that_is_missing_brings_nothing_from_then_on(name: str, left: list[Message]) -> None:
    """All others do, and it did until then."""
    assert list(lacking([(1, ALL), (2, ALL)], name, 1)) == [(1, ALL), (2, left)]
    assert not name or name in SOURCES


def outcome(*invented: Seen, pages: Iterable[str] = (), shut_until: int = 0) -> Outcome:
    """Of a run that found nothing else, with a page for each of these subjects."""
    every = {
        seen.subject_id: finding(seen.subject_id, condition=seen.condition, subject=Subject(seen.subject_id))
        for seen in invented
    }
    shut = [(ENDS, Span(0, shut_until))] if shut_until else []
    own = Score((), (), invented)
    return Outcome(Asked(without="nic"), [], own, every, {}, dict.fromkeys(pages, 1), {}, Counter(), 1.0, shut=shut)


def seen(condition: Condition, subject: str) -> Seen:
    return Seen(condition, subject, ENDS, 1, 2, 1, excused=False)


DOWN, STALE = seen(Condition.LINK_DOWN, "link:a"), seen(Condition.TELEMETRY_STALE, "device:host-1")


def test_only_what_is_new_and_no_staleness_is_false() -> None:
    """What the whole day invents as well is not the lack's doing."""
    lack = Lack(outcome(DOWN), outcome(DOWN, STALE))
    assert lack.new_and_false == []
    assert lack.as_dict()["fine"]
    other = seen(Condition.DEVICE_DOWN, "device:host-1")
    lack = Lack(outcome(DOWN), outcome(DOWN, STALE, other))
    assert lack.new_and_false == [other]
    assert "new and no fault: device/down device:host-1" in list(lack.lines())
    assert not lack.as_dict()["fine"]


def test_a_port_that_somebody_shut_where_nobody_reads_is_down_and_no_more_than_that() -> None:
    """It is counted for itself; at another time, or paged for, it is false."""
    lack = Lack(outcome(), outcome(DOWN, shut_until=5))
    assert (lack.shut, lack.new_and_false) == ([DOWN], [])
    assert "1 ports that somebody shut are said to be down: nobody else saw who did it" in list(lack.lines())
    assert Lack(outcome(), outcome(DOWN, shut_until=1)).new_and_false == [DOWN]
    assert Lack(outcome(), outcome(DOWN, pages=[DOWN.subject_id], shut_until=5)).new_and_false == [DOWN]
