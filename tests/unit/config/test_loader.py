"""The loader reads and refuses configurations, on small models of its own."""

from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from streams.config.loader import load_model
from streams.wire.errors import Misconfigured


class Door(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str = "http://127.0.0.1"
    port: int = Field(default=1, ge=1)
    names: tuple[str, ...] = ()
    password: SecretStr | None = None


class House(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    door: Door = Door()
    garden: dict[str, int] = {}


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "railsight.toml"
    path.write_text(text)
    return path


def refused(path: Path | None, environ: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(Misconfigured) as caught:
        load_model(House, path, environ or {})
    return str(caught.value).splitlines()


def test_defaults_apply_without_a_file() -> None:
    """No setting is required."""
    assert load_model(House, None, {"PATH": "/bin", "RAILSIGHT_DATA": "/data"}) == House()


def test_the_environment_overrides_the_file(tmp_path: Path) -> None:
    """A variable overrides the same setting in the file and no other."""
    path = written(tmp_path, '[door]\nurl = "http://a"\nport = 2\n')
    settings = load_model(House, path, {"RAILSIGHT__DOOR__PORT": "3", "RAILSIGHT__DOOR__NAMES": '["x", "y"]'})
    assert settings.door == Door(url="http://a", port=3, names=("x", "y"))


def test_all_problems_are_reported_at_once_by_name(tmp_path: Path) -> None:
    """Each problem of the file and of the environment has a line with the setting, its source and the next step."""
    path = written(tmp_path, '[door]\nurll = "http://a"\nport = 0\n[windows]\nn = 1\n[garden]\ntrees = "many"\n')
    lines = refused(path, {"RAILSIGHT__DOOR__COLOUR": "red"})
    assert [line.split(":")[0] for line in sorted(lines)] == [
        "door.colour",
        "door.port",
        "door.urll",
        "garden.trees",
        "windows",
    ]
    assert f"door.urll: unknown setting (in {path}); did you mean url?" in lines
    assert "door.colour: unknown setting (in RAILSIGHT__DOOR__COLOUR)" in lines


def test_a_file_that_is_missing_or_no_toml_is_refused_by_name(tmp_path: Path) -> None:
    """The error of TOML has its line; a typo in the path does not start a pipeline with the defaults."""
    (line,) = refused(written(tmp_path, "[door\n"))
    assert "railsight.toml" in line and "line 1" in line
    (line,) = refused(tmp_path / "nowhere.toml")
    assert line.endswith("nowhere.toml: No such file or directory")


@pytest.mark.parametrize(
    ("text", "environ"),
    [('[door]\npassword_file = "{}"\n', {}), ("", {"RAILSIGHT__DOOR__PASSWORD": "hunter2"})],
    ids=["file", "environment"],
)
def test_a_secret_comes_from_a_file_of_its_own_or_the_environment(
    tmp_path: Path, text: str, environ: dict[str, str]
) -> None:
    """`x_file` is the path of the file; its last newline is not part of the secret."""
    (tmp_path / "secret").write_text("hunter2\n")
    password = load_model(House, written(tmp_path, text.format(tmp_path / "secret")), environ).door.password
    assert password is not None
    assert password.get_secret_value() == "hunter2"


def test_a_secret_in_the_file_is_refused_and_not_repeated(tmp_path: Path) -> None:
    """Such files are committed and shared; the error names the two alternatives and not the value."""
    (line,) = refused(written(tmp_path, '[door]\npassword = "hunter2"\n'))
    assert "password_file" in line
    assert "RAILSIGHT__DOOR__PASSWORD" in line
    assert "hunter2" not in line


def test_a_refused_value_is_not_repeated(tmp_path: Path) -> None:
    """A refused value may be a secret in the wrong setting."""
    lines = refused(written(tmp_path, '[door]\nport = "hunter2"\nurrl = "hunter2"\n'))
    assert len(lines) == 2
    assert "hunter2" not in "".join(lines)


def test_an_unreadable_secret_file_is_refused(tmp_path: Path) -> None:
    """The error names the setting, the file and the source."""
    path = written(tmp_path, '[door]\npassword_file = "/nonexistent/secret"\n')
    (line,) = refused(path)
    assert line == f"door.password_file: cannot read /nonexistent/secret: No such file or directory (in {path})"


@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("RAILSIGHT__", {}), ("RAILSIGHT____PORT", {}), ("RAILSIGHT__DOOR__", {}),
        ("RAILSIGHT__DOOR__PORT", {"RAILSIGHT__DOOR": "1"}),
    ],
)  # fmt: skip
def test_a_malformed_variable_is_refused(name: str, others: dict[str, str]) -> None:
    """A variable with the prefix and without a setting, and one below a value, are errors."""
    assert any(line.startswith(name) for line in refused(None, others | {name: "2"}))
