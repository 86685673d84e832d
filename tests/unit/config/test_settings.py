"""The configuration composes the settings of all rooms and refuses unknown ones by name."""

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


def test_no_setting_is_required() -> None:
    """The defaults are a valid configuration."""
    assert load(environ={}) == Settings()


def test_each_section_reaches_its_room(tmp_path: Path) -> None:
    """A threshold, an address and the interval of a collector reach their Params."""
    path = written(
        tmp_path,
        '[kafka]\nbootstrap = "b:1"\n[detect.flap]\npresets = ["any"]\n[collect.lamp]\ntargets = ["a"]\n',
    )
    settings = load(path, LAMP, {"RAILSIGHT__COLLECT__LAMP__EVERY_S": "5"})
    assert settings.kafka.bootstrap == "b:1"
    assert settings.detect.flap.presets == ("any",)
    assert settings.collectors == {"lamp": LampParams(targets=("a",), every_s=5)}


def test_unknown_names_are_refused_at_every_depth(tmp_path: Path) -> None:
    """An unknown section, detector setting and collector setting are all reported at once."""
    path = written(
        tmp_path,
        "[kafak]\n[detect.flap]\npreset = 1\n[collect.lamp]\ntargets = []\ncolor = 1\n[collect.lump]\nx = 1\n",
    )
    with pytest.raises(Misconfigured) as caught:
        load(path, LAMP, {})
    assert sorted(str(caught.value).splitlines()) == [
        f"collect.lamp.color: unknown setting (in {path})",
        f"collect.lump: unknown setting (in {path}); did you mean lamp?",
        f"detect.flap.preset: unknown setting (in {path}); did you mean presets?",
        f"kafak: unknown setting (in {path}); did you mean kafka?",
    ]


def test_a_constant_is_refused_with_its_value(tmp_path: Path) -> None:
    """A configuration of an older version may have it."""
    path = written(tmp_path, "[detect.down]\nhold_up_s = 2\n")
    with pytest.raises(Misconfigured) as caught:
        load(path, None, {})
    assert str(caught.value) == f"detect.down.hold_up_s: not a setting but fixed, at 5 (in {path}); remove it"


def test_a_collector_without_its_section_does_not_run() -> None:
    """Only configured collectors start, also if a collector has required settings."""
    assert load(None, LAMP, {}).collectors == {}


def test_a_process_without_collectors_reads_the_shared_file(tmp_path: Path) -> None:
    """A worker reads a file with sections of collectors that are not installed."""
    path = written(tmp_path, '[kafka]\nbootstrap = "b:1"\n[collect.lamp]\ntargets = ["a"]\n')
    assert load(path, None, {}).kafka.bootstrap == "b:1"


def test_an_unknown_preset_is_refused_with_the_available_ones(tmp_path: Path) -> None:
    """The error of a room's own validator reaches the user unchanged."""
    with pytest.raises(Misconfigured, match=r"detect\.flap: no such preset: nonsense \(there are "):
        load(written(tmp_path, '[detect.flap]\npresets = ["nonsense"]\n'), environ={})
