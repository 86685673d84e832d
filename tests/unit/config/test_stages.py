"""The stages are made from the settings, by name."""

import pytest

from streams.config.settings import Settings, load
from streams.config.stages import settings_digest, stage_factory
from streams.wire.errors import Misconfigured
from streams.wire.topics import STAGES


@pytest.mark.parametrize("name", STAGES)
def test_each_stage_is_made_under_its_name(name: str) -> None:
    """Each owner of a partition gets a stage of its own."""
    make = stage_factory(name, Settings())
    first, second = make(0), make(1)
    assert first.name == name
    assert first is not second


def test_a_stage_that_does_not_exist_is_refused() -> None:
    """The refusal names those that there are."""
    with pytest.raises(Misconfigured, match=r"no such stage: meassure \(there are measure, "):
        stage_factory("meassure", Settings())


@pytest.mark.parametrize("variable", ["RAILSIGHT__DETECT__DOWN__OPEN_AFTER_S", "RAILSIGHT__DECIDE__COOL_DOWN_S"])
def test_another_threshold_is_another_digest(variable: str) -> None:
    """What findings and decisions depend on is named by it; where Kafka is, is not."""
    before = settings_digest(load(environ={}))
    assert settings_digest(load(environ={"RAILSIGHT__KAFKA__BOOTSTRAP": "b:1"})) == before
    assert settings_digest(load(environ={variable: "31"})) != before
