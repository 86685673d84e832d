"""The factory creates the stages from the settings, by name."""

import pytest

from streams.config.settings import Settings, load
from streams.config.stages import settings_digest, stage_factory
from streams.wire.errors import Misconfigured
from streams.wire.topics import STAGES


@pytest.mark.parametrize("name", STAGES)
def test_each_stage_is_created_by_name(name: str) -> None:
    """Each owner of a partition has a separate stage."""
    make = stage_factory(name, Settings())
    first, second = make(0), make(1)
    assert first.name == name
    assert first is not second


def test_an_unknown_stage_is_refused() -> None:
    """The error lists the available stages."""
    with pytest.raises(Misconfigured, match=r"unknown stage: meassure; available: measure, "):
        stage_factory("meassure", Settings())


@pytest.mark.parametrize("variable", ["RAILSIGHT__DETECT__DOWN__OPEN_AFTER_S", "RAILSIGHT__DECIDE__COOL_DOWN_S"])
def test_a_threshold_changes_the_digest(variable: str) -> None:
    """The digest covers thresholds and policy, and not the address of Kafka."""
    before = settings_digest(load(environ={}))
    assert settings_digest(load(environ={"RAILSIGHT__KAFKA__BOOTSTRAP": "b:1"})) == before
    assert settings_digest(load(environ={variable: "31"})) != before
