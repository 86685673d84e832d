"""The fabrics of the detection benchmark: what their sources send, and which faults none of them shows."""

import pytest

from lab.bench.detection.fabrics import FABRICS, SNMP_METRICS
from lab.bench.detection.results import (
    Share,
    by_confidence,
    effects_line,
    found_table,
    plot,
    reasons_table,
    summed,
    table,
)
from streams.fabric.catalogue import Metric
from streams.replay.score import Truth
from streams.wire.models import ABSENT_COUNTER, Condition, EventKind, Samples, Source
from tests.worlds.observations import event, samples
from tests.worlds.small_fabric import topology


def test_snmp_sends_the_columns_of_its_collector_and_no_events() -> None:
    """Bit errors and marked packets are left out, and so are hosts."""
    reading = samples("p1-l0", 0, {Metric.OPER_UP: {"d1": 1.0}, Metric.PRE_FEC_BER: {"d1": 1e-4}})
    sent = FABRICS["snmp"].receive(reading)
    assert isinstance(sent, Samples)
    assert (sent.source, sent.gauges.metric) == (Source.SOURCE_SNMP, (Metric.OPER_UP,))
    assert FABRICS["snmp"].receive(event("p1-l0/d1", 0, EventKind.LINK_DOWN)) is None
    assert FABRICS["snmp"].receive(samples("p1-h1", 0, {Metric.OPER_UP: {"e0": 1.0}}, source=Source.SOURCE_NIC)) is None
    assert SNMP_METRICS


def test_an_absent_counter_stays_absent_on_infiniband() -> None:
    """A walk that ends early has rows without counts, which are no count in another unit."""
    cells = {(Metric.PFC_RX_FRAMES, 3): {"d1": 2.0, "d2": None}, (Metric.LINK_TRANSITIONS, -1): {"d1": 4.0, "d2": None}}
    sent = FABRICS["infiniband"].receive(samples("p1-l0", 0, {}, indexed=cells))
    assert isinstance(sent, Samples)
    assert (sent.counters.values[:, sent.row.index("d2")] == ABSENT_COUNTER).all()


def test_infiniband_has_waits_for_pause_and_no_events() -> None:
    """A frame of pause is the bytes that it stops, in a storm those of the port; hosts count no marks or pause."""
    cells = {(Metric.PFC_RX_FRAMES, 3): {"d1": 2.0}, (Metric.LINK_TRANSITIONS, -1): {"d1": 4.0}}
    sent = FABRICS["infiniband"].receive(samples("p1-l0", 0, {}, indexed=cells))
    assert isinstance(sent, Samples) and sent.source is Source.SOURCE_IB
    assert dict(zip(sent.counters.metric, sent.counters.values[:, 0].tolist(), strict=True)) == {
        Metric.TX_WAIT_BYTES: 2 * 4_000_000, Metric.LINK_DOWN_EVENTS: 2,
    }  # fmt: skip
    assert FABRICS["infiniband"].receive(event("p1-l0/d1", 0, EventKind.LINK_DOWN)) is None
    host = samples("p1-h1", 0, {Metric.CNP_SENT: {"e0": 1.0}, Metric.RX_BYTES: {"e0": 1.0}}, source=Source.SOURCE_NIC)
    assert FABRICS["infiniband"].receive(host).counters.metric == (Metric.RX_BYTES,)  # type: ignore[union-attr]


HIDDEN = {
    "a rail by SNMP": ("snmp", Condition.RAIL_DEGRADED, "p1-h1", "e0", True),
    "a link by SNMP": ("snmp", Condition.LINK_DOWN, "p1-l0", "d1", False),
    "an uplink by NICs": ("nic", Condition.LINK_DOWN, "p1-l0", "u0", True),
    "a host link by NICs": ("nic", Condition.LINK_DOWN, "p1-l0", "d1", False),
    "a switch by NICs": ("nic", Condition.DEVICE_DOWN, "p1-l0", "", True),
    "a storm without pause": ("no-pause", Condition.CONGESTION_PFC_STORM, "p1-h1", "e0", True),
    "a collapse without pause": ("no-pause", Condition.CONGESTION_COLLAPSE, "p1", "", False),
    "an incast on InfiniBand": ("infiniband", Condition.CONGESTION_INCAST, "p1-h1", "e0", True),
    "a host that drains nothing on InfiniBand": ("infiniband", Condition.CONGESTION_PFC_STORM, "p1-h1", "e0", False),
    "a switch that stops a host on InfiniBand": ("infiniband", Condition.CONGESTION_PFC_STORM, "p1-l0", "d1", True),
    "an uplink on InfiniBand": ("infiniband", Condition.CONGESTION_PFC_STORM, "p1-l0", "u0", False),
    "all sources": ("all", Condition.RAIL_DEGRADED, "p1-h1", "e0", False),
}  # fmt: skip


@pytest.mark.parametrize(("fabric", "condition", "device", "port", "hidden"), HIDDEN.values(), ids=HIDDEN)
def test_what_sources_cannot_show(fabric: str, condition: Condition, device: str, port: str, hidden: bool) -> None:
    """Each has a reason, which is printed."""
    truth = Truth(0, 10**12, condition, device, port)
    assert bool(FABRICS[fabric].hidden(truth, "lossy", topology())) is hidden


@pytest.mark.parametrize(("fabric", "shown_from_s"), [("all", 0), ("snmp", 90), ("slow", 180)])
def test_a_silence_of_less_than_three_polls_is_not_shown(fabric: str, shown_from_s: int) -> None:
    """It looks like late polls."""
    for lasts_s in (60, 89, 90, 179, 180, 900):
        truth = Truth(0, lasts_s * 10**9, Condition.TELEMETRY_STALE, "p1-l0", "")
        assert bool(FABRICS[fabric].hidden(truth, "unread", topology())) is (lasts_s < shown_from_s)


@pytest.mark.parametrize(("fabric", "shown_from_s"), [("planes", 0), ("snmp", 60), ("slow", 120)])
def test_congestion_of_less_than_two_polls_is_not_shown(fabric: str, shown_from_s: int) -> None:
    """No interval between two polls is certain to lie within it."""
    for lasts_s in (40, 59, 60, 119, 120, 300):
        truth = Truth(0, lasts_s * 10**9, Condition.CONGESTION_PFC_STORM, "p1-l0", "d1")
        assert bool(FABRICS[fabric].hidden(truth, "short", topology())) is (lasts_s < shown_from_s)
    for condition in (Condition.CONGESTION_COLLAPSE, Condition.CONGESTION_INCAST):
        assert FABRICS["slow"].hidden(Truth(0, 119 * 10**9, condition, "p1", ""), "short", topology())


def test_calibration_sums_trials_by_confidence() -> None:
    """Over all conditions first, then each; the plot has a point for each confidence."""
    shares = summed([
        {"confidence": [["link/down", 0.6, 3, 1], ["link/flap", 0.95, 4, 4]]},
        {"confidence": [["link/down", 0.6, 1, 1]]},
    ])  # fmt: skip
    assert shares == [Share("link/down", 0.6, 4, 2), Share("link/flap", 0.95, 4, 4)]
    assert by_confidence(shares) == [Share("all", 0.6, 4, 2), Share("all", 0.95, 4, 4)]
    assert list(table(shares))[2] == "| all | 0.60 | 4 | 2 | 0.50 |"
    assert plot(shares).count("<circle") == 2


def _result(seed: int, fabric: str, found: int, false: int, hidden: int) -> dict[str, object]:
    """Return a trial with three link/down, of which `hidden` are hidden; its only pages are for shut ports."""
    row = {"injected": 3 - hidden, "found": found, "invented": false}
    why = [["link/down", "no end is read", hidden]] if hidden else []
    return {
        "seed": seed, "fabric": fabric, "conditions": {"link/down": row} if found or false else {}, "hidden": why,
        "effects_of_hidden": {"link/down": hidden} if hidden else {},
        "pages": 2, "false_pages": ["x"] * false, "shut_pages": ["y"] * hidden,
    }  # fmt: skip


def test_trials_are_summed_by_fabric() -> None:
    """A condition that all sources of a fabric hide has no figure; shut ports that paged are counted apart."""
    results = [_result(5, "nic", 2, 1, 1), _result(6, "nic", 1, 0, 2), _result(5, "slow", 2, 0, 0)]
    lines = list(found_table(results))
    assert lines[:3] == ["| condition | `slow` | `nic` |", "|---|---|---|", "| seeds | 5 | 5, 6 |"]
    assert "| `link/down` | 2 of 3, 0 | 3 of 3, 1 (3) |" in lines
    assert "| `link/flap` | – | – |" in lines
    assert lines[-1] == "| pages, of these false | 2, 0 | 4, 1 (3 of shut ports) |"
    assert list(reasons_table(results))[2:] == ["| `nic` | `link/down` | no end is read | 3 |"]
    assert effects_line(results).endswith(": `nic` 3 `link/down`.")
    assert effects_line(results[2:]).endswith(": none.")
    assert "| `link/down` | – (3) |" in found_table([_result(5, "nic", 0, 0, 3)])
