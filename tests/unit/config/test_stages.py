"""The factory creates the stages from the settings, by name."""

import pytest

from streams.config.settings import Settings
from streams.config.stages import stage_factory
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
