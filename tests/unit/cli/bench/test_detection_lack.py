"""A simulated day without one of its sources: what does not come, and what of what is said then is new and false."""

from collections import Counter

import pytest

from streams.cli.bench.detection.lack import Lack
from streams.cli.bench.detection.sources import SOURCES, lacking
from streams.cli.bench.detection.trial import Asked, Outcome
from streams.fabric.ids import Port
from streams.replay.score import Score, Seen
from streams.wire.models import Condition, Event, EventKind, Facts, Message, Source

NIC = Event("host-1", "mlx5_0", EventKind.LINK_DOWN, 1, 1, Source.SOURCE_NIC)
KERNEL = Event("host-1", "mlx5_0", EventKind.LINK_DOWN, 1, 1, Source.SOURCE_HOST)
AGENT = Facts("host-1", 1, Source.SOURCE_HOST)
SWITCH = Facts("leaf-1", 1, Source.SOURCE_GNMI)
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


def outcome(*invented: Seen) -> Outcome:
    """Of a run that found nothing else."""
    return Outcome(Asked(without="nic"), [], Score((), (), invented), {}, {}, {}, {}, Counter(), 1.0)


def seen(condition: Condition, subject: str) -> Seen:
    return Seen(condition, subject, frozenset({Port("host-1", "mlx5_0")}), 1, 2, 1, excused=False)


def test_only_what_is_new_and_no_staleness_is_false() -> None:
    """What the whole day invents as well is not the lack's doing."""
    down, stale = seen(Condition.LINK_DOWN, "link:a"), seen(Condition.TELEMETRY_STALE, "device:host-1")
    lack = Lack(outcome(down), outcome(down, stale))
    assert lack.new_and_false == []
    assert lack.as_dict()["fine"]
    other = seen(Condition.DEVICE_DOWN, "device:host-1")
    lack = Lack(outcome(down), outcome(down, stale, other))
    assert lack.new_and_false == [other]
    assert "new and no fault: device/down device:host-1" in list(lack.lines())
    assert not lack.as_dict()["fine"]
