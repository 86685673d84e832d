"""Promises of every collector to those who start it and to those who read what it writes."""

import inspect
from importlib.metadata import entry_points

import pytest
from pydantic import BaseModel, ValidationError

from collectors.core.columns import CellKey, Layout, Reading
from collectors.core.context import DeviceEvent, Emitter, draw_run
from collectors.core.spec import Spec
from streams.fabric.catalogue import Metric
from streams.wire.models import Event, EventKind, Samples, Source
from tests.fakes.publisher import RecordingPublisher

SPECS: list[tuple[str, Spec]] = [(entry.name, entry.load()) for entry in entry_points(group="railsight.collectors")]


def test_the_collectors_of_this_project_are_registered() -> None:
    """Collectors are found by their entry points."""
    assert {"gnmi", "sim"} <= {name for name, _ in SPECS}


@pytest.mark.parametrize(("name", "spec"), SPECS)
def test_a_spec_is_named_as_it_is_registered_and_its_params_are_strict(name: str, spec: Spec) -> None:
    """Params are frozen, have a default for everything, and refuse what they do not know."""
    assert spec.name == name
    assert issubclass(spec.Params, BaseModel)
    assert spec.Params.model_config.get("frozen") is True
    spec.Params.model_validate({})
    with pytest.raises(ValidationError, match="nobody_knows_this"):
        spec.Params.model_validate({"nobody_knows_this": 1})
    assert inspect.iscoroutinefunction(spec.collect)


def test_messages_of_a_run_are_numbered_without_a_hole_for_each_device() -> None:
    """Samples and events of a device count up from 1; another device and another kind have their own numbers."""
    retained = RecordingPublisher()
    emitter = Emitter(retained, "c", draw_run(), Source.SOURCE_GNMI)
    layout = Layout([CellKey("e1", Metric.RX_BYTES)])
    reading = Reading(1, 2, 3, layout.row, layout.rows_digest, *layout.tables([4]))
    for device in ("a", "b", "a"):
        emitter.samples(device, reading)
        emitter.event(device, DeviceEvent(EventKind.LINK_DOWN, "e1", 1), 2)
    for device, numbers in (("a", [1, 2]), ("b", [1])):
        assert [samples.sequence for samples in retained.of(Samples, device)] == numbers
        assert [event.sequence for event in retained.of(Event, device)] == numbers
    assert {message.collector_run for message in retained.of(Samples)} == {emitter.run}
    assert all(record.route == record.key.decode() for record in retained.records)


def test_runs_differ() -> None:
    """Two runs of a process have different numbers, and none is 0."""
    runs = {draw_run() for _ in range(100)}
    assert len(runs) == 100 and 0 not in runs
