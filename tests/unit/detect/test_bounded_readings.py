"""Readings that no device can have change nothing: they are absent."""

import math

import pytest

from streams.detect.measure.stage import Measure
from streams.detect.params import DetectParams
from streams.fabric.catalogue import Metric
from streams.wire.models import Event, EventKind, Message, Source
from streams.wire.stage import Output
from tests.worlds.measure_stage import detected
from tests.worlds.observations import samples
from tests.worlds.small_fabric import begun

PORTS = ("d1", "u0")


def _outputs(beyond: dict[int, float], *, rows_differ: bool = False) -> tuple[list[Output], bytes]:
    """Return what `measure` emits of 30 readings of a leaf whose module gets hot, and its state."""
    stage = begun(Measure(DetectParams()))
    outputs = []
    for turn in range(30):
        hot = 40.0 + (60.0 if turn > 15 else 0.0)
        level = beyond.get(turn, hot)
        ports = PORTS[: 1 + (turn % 2)] if rows_differ else PORTS
        cells: dict[Metric, dict[str, float | None]] = {
            Metric.OPER_UP: dict.fromkeys(ports, 1.0),
            Metric.MODULE_TEMPERATURE_C: {"d1": None if math.isnan(level) else level},
            Metric.RX_POWER_DBM: {"d1": -2.0 if turn < 20 else -30.0},
        }
        batch: list[Message] = [samples("p1-l0", turn * 10, cells, sequence=turn)]
        outputs += stage.process(batch)
    return outputs, stage.snapshot()


@pytest.mark.parametrize("rows_differ", [False, True])
@pytest.mark.parametrize("value", [math.inf, -math.inf, 1e308, -1e300])
def test_a_gauge_beyond_all_bounds_is_absent(value: float, rows_differ: bool) -> None:
    """Infinity and 1e308 give the outputs and the state of a reading without the value."""
    beyond = dict.fromkeys((3, 17, 18, 24), value)
    absent = dict.fromkeys((3, 17, 18, 24), math.nan)
    assert _outputs(beyond, rows_differ=rows_differ) == _outputs(absent, rows_differ=rows_differ)


def test_an_xid_with_a_negative_code_is_no_xid() -> None:
    """No GPU has one, and the symptom could not be sent."""
    stage = Measure(DetectParams())
    stage.start_epoch(1)
    event = Event("p1-h1", "0000:1a:00.0", EventKind.GPU_XID, 10**9, 10**9, Source.SOURCE_HOST, code=-79)
    assert detected(stage.process([event])) == []  # of the outputs without the heartbeat
