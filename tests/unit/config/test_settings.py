"""What the whole configuration is made of, and what it refuses by name."""

from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from streams.config.settings import Settings, load
from streams.wire.errors import Misconfigured


class LampParams(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    targets: tuple[str, ...]
    every_s: float = 10


LAMP: dict[str, type[BaseModel]] = {"lamp": LampParams}


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "railsight.toml"
    path.write_text(text)
    return path


def test_nothing_needs_to_be_set() -> None:
    """The defaults are a configuration."""
    assert load(environ={}) == Settings()


def test_each_section_reaches_its_room(tmp_path: Path) -> None:
    """A threshold, an address and a collector's cadence arrive where they belong."""
    path = written(
        tmp_path,
        '[kafka]\nbootstrap = "b:1"\n[detect.flap]\npresets = ["any"]\n[collect.lamp]\ntargets = ["a"]\n',
    )
    settings = load(path, LAMP, {"RAILSIGHT__COLLECT__LAMP__EVERY_S": "5"})
    assert settings.kafka.bootstrap == "b:1"
    assert settings.detect.flap.presets == ("any",)
    assert settings.collectors == {"lamp": LampParams(targets=("a",), every_s=5)}


def test_unknown_names_are_refused_at_every_depth(tmp_path: Path) -> None:
    """A section, a setting of a detector and one of a collector that do not exist are each named, all at once."""
    path = written(
        tmp_path,
        "[kafak]\n[detect.flap]\npreset = 1\n[collect.lamp]\ntargets = []\ncolor = 1\n[collect.lump]\nx = 1\n",
    )
    with pytest.raises(Misconfigured) as caught:
        load(path, LAMP, {})
    assert sorted(str(caught.value).splitlines()) == [
        "collect.lamp.color: no such setting",
        "collect.lump: no such setting (did you mean lamp?)",
        "detect.flap.preset: no such setting (did you mean presets?)",
        "kafak: no such setting (did you mean kafka?)",
    ]


def test_a_collector_without_its_section_does_not_run() -> None:
    """Only what is configured is started, also where a collector has settings without a default."""
    assert load(None, LAMP, {}).collectors == {}


def test_other_processes_need_no_collector_to_read_the_file(tmp_path: Path) -> None:
    """A worker reads the file that it shares with collectors that are not installed beside it."""
    path = written(tmp_path, '[kafka]\nbootstrap = "b:1"\n[collect.lamp]\ntargets = ["a"]\n')
    assert load(path, None, {}).kafka.bootstrap == "b:1"


def test_a_preset_that_does_not_exist_is_refused_with_those_that_do(tmp_path: Path) -> None:
    """What a room says of its own settings reaches the user in its words."""
    with pytest.raises(Misconfigured, match=r"detect\.flap: no such preset: nonsense \(there are "):
        load(written(tmp_path, '[detect.flap]\npresets = ["nonsense"]\n'), environ={})
