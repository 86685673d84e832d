"""Each kind of message has an event time, or none."""

import numpy as np
import pytest

from streams.runtime.event_time import event_time_ns
from streams.wire.models import (
    IDLE_NS,
    CollectorStatus,
    Control,
    ControlKind,
    Facts,
    Job,
    Message,
    PortQuality,
    PortReadings,
    PortStates,
    Progress,
    ReadingsHeartbeat,
    RowKind,
    Samples,
    Source,
    Table,
)
from tests.fixtures.runtime_bindings import event, symptom

NONE = Table((), (), np.zeros((0, 0), np.uint64))


def samples(sampled_at_ns: int, received_at_ns: int) -> Samples:
    return Samples("d", Source.SOURCE_GNMI, "c", 1, 1, sampled_at_ns, received_at_ns, 0, RowKind(1), (), 0, NONE, NONE)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (event(3), 3),
        (symptom(1, 4), 4),
        (Facts("d", 5, Source.SOURCE_GNMI), 5),
        (CollectorStatus("c", 1, Source.SOURCE_GNMI, "d", 6, reachable=True), 6),
        (samples(7, 0), 7),
        (samples(7, 9), 7),
        (samples(99, 9), 9),
        (Progress("s", 0, 1, 8), 8),
        (PortStates("d", Source.SOURCE_GNMI, 0, 10, 0, 1, (), b""), 10),
        (ReadingsHeartbeat(0, 11), 11),
        (PortQuality("d", Source.SOURCE_GNMI, (PortReadings("p", 1, 12, 0, 1), PortReadings("q", 2, 9, 0, 1))), 12),
        (Progress("s", 0, 1, IDLE_NS), None),
        (Control("c", ControlKind.EXCLUDE), None),
        (Control("c", ControlKind.EXCLUDE, at_ns=10), 10),
        (Job("j", "d", 1), None),
    ],
)
def test_the_event_time_is_the_observation_time(message: Message, expected: int | None) -> None:
    """The arrival time is its upper bound if a device's clock is ahead; an idle owner's Progress has none."""
    assert event_time_ns(message) == expected
