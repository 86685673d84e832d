"""State is bounded, whatever names are in messages: devices, ports and columns beyond the bounds are counted."""

import pytest

from streams.detect.measure import liveness, port_publisher
from streams.detect.measure.stage import Measure
from streams.detect.measure.storage import reading_store
from streams.detect.params import DetectParams
from streams.fabric.catalogue import Metric
from streams.wire.models import CollectorStatus, EventKind, Source, Symptom
from tests.worlds.measure_stage import snapshot_head
from tests.worlds.observations import event, samples
from tests.worlds.small_fabric import begun, topology

SECOND = 10**9


def test_devices_that_the_inventory_does_not_have_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound their samples and statuses are counted; a device of the inventory is always read."""
    monkeypatch.setattr(liveness, "_MIN_UNKNOWN", 50)
    monkeypatch.setattr(liveness, "_UNKNOWN_FACTOR", 0)
    stage = begun(Measure(DetectParams()))
    for number in range(500):
        stage.process([samples(f"unknown-{number}", 1, {Metric.OPER_UP: {"e0": 1.0}})])
        status = CollectorStatus("c", 1, Source.SOURCE_GNMI, f"other-{number}", SECOND, reachable=True)
        stage.process([status])
    known = snapshot_head(stage)["sources"]["device"]
    assert len(known) == 50
    assert stage.counted["railsight_unknown_devices_refused_total"] == 500 - sum("unknown" in one for one in known)
    stage.process([samples("p1-l0", 1, {Metric.OPER_UP: {"d1": 1.0}})])
    assert "p1-l0" in snapshot_head(stage)["sources"]["device"]
    restored = begun(Measure(DetectParams()), topology(), stage.snapshot(), epoch=2)
    restored.process([samples("unknown-600", 2, {Metric.OPER_UP: {"e0": 1.0}})])
    assert restored.counted["railsight_unknown_devices_refused_total"] == 1


def test_ports_that_only_events_name_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device invents a port with each event, then each event is of another device: both bounds count the rest."""
    monkeypatch.setattr(port_publisher, "MAX_DEVICE_ROWS", 20)
    monkeypatch.setattr(port_publisher, "MAX_PORTS", 50)
    stage = begun(Measure(DetectParams()))
    stage.process([samples("p1-l0", 1, {Metric.OPER_UP: {"d1": 1.0}})])
    ports = [f"p1-l0/x{number}" for number in range(100)] + [f"device-{number}/x" for number in range(100)]
    found = stage.process([event(port, 2 + place / 1000, EventKind.LINK_DOWN) for place, port in enumerate(ports)])
    named = {output.message.port for output in found if isinstance(output.message, Symptom) and output.message.port}
    assert named == {f"x{number}" for number in range(20)} | {"x"}
    assert stage.counted["railsight_unknown_ports_refused_total"] == 200 - 50
    again = stage.process([event("p1-l0/x0", 3, EventKind.LINK_UP), event("p1-l0/u0", 3, EventKind.LINK_DOWN)])
    assert {output.message.port for output in again if isinstance(output.message, Symptom)} == {"x0", "u0"}


def test_ports_of_a_device_are_bounded_and_its_known_ports_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that invents names at each reading keeps its first ports, whose changes are still found."""
    monkeypatch.setattr(reading_store, "MAX_DEVICE_ROWS", 20)
    monkeypatch.setattr(reading_store, "MAX_DEVICE_COLUMNS", 4)
    stage = begun(Measure(DetectParams()))
    found = []
    for turn in range(30):
        state = 1.0 if turn < 25 else 0.0
        cells: dict[str, float | None] = {"d1": state, **{f"x{turn}-{number}": 1.0 for number in range(5)}}
        indexed = {(Metric.RX_POWER_DBM, turn): {"d1": -2.0}}
        message = samples("p1-l0", turn * 10, {Metric.OPER_UP: cells}, sequence=turn, indexed=indexed)
        found += stage.process([message])
    readings = snapshot_head(stage)["readings"]
    ((_, _, gauges, height, *_),) = readings["blocks"]
    assert (len(readings["rows"][0]), height, len(gauges)) == (20, 20, 4)
    changes = [output.message for output in found if isinstance(output.message, Symptom)]
    assert [(symptom.port, symptom.at_ns // SECOND % 1000) for symptom in changes if symptom.since_ns][-1][0] == "d1"
