"""The monitors of measure: each stands behind one interface, and a detector's own is registered by the detector."""

from collections import Counter

import orjson
import pytest

from streams.detect.detectors import DETECTORS
from streams.detect.measure.monitors.monitor import Monitor
from streams.detect.measure.registry import make_monitors
from streams.detect.measure.storage.reading_history import ReadingHistory, Transition, TransitionUpdate
from streams.detect.params import DetectParams
from streams.fabric.catalogue import Metric

MONITORS = make_monitors(DetectParams())
CELL = ((Metric.OPER_UP, -1), "d1")


def test_a_name_belongs_to_one_monitor() -> None:
    """The name is the key of its state in snapshots."""
    assert max(Counter(monitor.name for monitor in MONITORS).values()) == 1


def test_the_monitor_of_a_detector_is_run() -> None:
    """A detector registers its monitor; no list of measure names it."""
    params = DetectParams()
    own = {type(detector.monitor(params.section(detector))) for detector in DETECTORS if detector.monitor is not None}
    assert {type(monitor) for monitor in MONITORS} >= own != set()


@pytest.mark.parametrize("monitor", MONITORS, ids=lambda monitor: monitor.name)
def test_the_state_of_a_monitor_is_json(monitor: Monitor) -> None:
    """The output of dump survives a round trip through JSON."""
    data = orjson.loads(orjson.dumps(monitor.dump()))
    (fresh,) = [one for one in make_monitors(DetectParams()) if one.name == monitor.name]
    if data is not None:
        fresh.load(data)
    assert fresh.dump() == monitor.dump()


def test_a_late_reading_changes_the_history_only_when_the_store_applies_it() -> None:
    """A monitor that divides a transition writes nothing; the update replaces the transition by two."""
    history = ReadingHistory()
    history.update(TransitionUpdate(CELL, None, (Transition(10, 30, 30, 1, 0),)))
    before = dict(history.transitions)
    update = history.split(CELL, 20, 20, 0, 0)
    assert history.transitions == before
    assert update is not None and update.replaced == Transition(10, 30, 30, 1, 0)
    history.update(update)
    assert history.transitions[CELL] == [Transition(10, 20, 20, 1, 0)]
