"""Growth of bytes that a port cannot have counted at its speed is not compared, and is counted."""

import pytest

from streams.detect.measure.stage import Measure
from streams.detect.params import DetectParams
from streams.fabric.catalogue import Metric
from streams.wire.models import PeerGroup, PeerWindow
from tests.worlds.observations import NIC, SNMP, samples
from tests.worlds.other_fabrics import LEAF, UPLINKS, fabric
from tests.worlds.small_fabric import begun

CASES = {
    "a port at its line rate": (1.0, 1e11, 0),
    "500 Gb/s on a port of 100 Gb/s": (5.0, 1e11, 4),
    "a port whose speed is not known": (5.0, None, 0),
    "a port that is down and has the speed 0": (5.0, 0.0, 0),
    "a port that trained to 400 Gb/s where the inventory has none": (3.9, 4e11, 0),
}
"""Bytes received, in times of 100 Gb/s; the speed that is read; windows that are rejected."""


def measured(factor: float, speed: float | None) -> Measure:
    """Return the stage after four minutes of one NIC."""
    own = begun(Measure(DetectParams()))
    for t in range(0, 300, 10):
        octets = 1e12 + factor * 12.5e9 * t
        values: dict[Metric, dict[str, float | None]] = {Metric.RX_BYTES: {"e0": octets}, Metric.TX_BYTES: {"e0": 1e12}}
        if speed is not None:
            values[Metric.SPEED_BPS] = {"e0": speed}
        own.process([samples("p1-h1", t, values, source=NIC, sequence=t + 1)])
    return own


@pytest.mark.parametrize("case", CASES)
def test_it_is_counted_once_a_window(case: str) -> None:
    factor, speed, rejected = CASES[case]
    assert measured(factor, speed).counted["railsight_implausible_rates_total"] == rejected


def test_an_uplink_with_an_impossible_rate_is_not_compared() -> None:
    """It counts each byte ten times: the others are even, and none of the windows has a value of it."""
    own, sent = begun(Measure(DetectParams()), fabric()), []
    for t in range(0, 400, 10):
        cells = {name: 1e13 + 25e9 * t * (10 if name == "u0" else 1) for name in UPLINKS}
        outputs = own.process([samples(LEAF, t, {Metric.TX_BYTES: dict(cells)}, source=SNMP, sequence=t + 1)])
        sent += [one.message for one in outputs if isinstance(one.message, PeerWindow)]
    assert own.counted["railsight_implausible_rates_total"] >= 4
    assert not [one for one in sent if one.group is PeerGroup.SWITCH_UPLINKS]
