"""How a configuration is read and refused, on small models of its own."""

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


def test_without_a_file_the_defaults_hold() -> None:
    """Nothing needs to be configured."""
    assert load_model(House, None, {"PATH": "/bin", "RAILSIGHT_DATA": "/data"}) == House()


def test_the_environment_overrides_the_file(tmp_path: Path) -> None:
    """A variable wins over the same setting in the file, and leaves its neighbours alone."""
    path = written(tmp_path, '[door]\nurl = "http://a"\nport = 2\n')
    settings = load_model(House, path, {"RAILSIGHT__DOOR__PORT": "3", "RAILSIGHT__DOOR__NAMES": '["x", "y"]'})
    assert settings.door == Door(url="http://a", port=3, names=("x", "y"))


def test_everything_wrong_is_said_at_once_and_by_name(tmp_path: Path) -> None:
    """Each problem of the file and of the environment has a line of its own that names the setting."""
    path = written(tmp_path, '[door]\nurll = "http://a"\nport = 0\n[windows]\nn = 1\n[garden]\ntrees = "many"\n')
    lines = refused(path, {"RAILSIGHT__DOOR__COLOUR": "red"})
    assert [line.split(":")[0] for line in sorted(lines)] == [
        "door.colour",
        "door.port",
        "door.urll",
        "garden.trees",
        "windows",
    ]
    assert "door.urll: no such setting (did you mean url?)" in lines


def test_a_file_that_is_no_toml_is_refused_with_the_place(tmp_path: Path) -> None:
    """The line of the first error is said, not a traceback."""
    (line,) = refused(written(tmp_path, "[door\n"))
    assert "railsight.toml" in line
    assert "line 1" in line


def test_a_missing_file_is_refused_by_its_name(tmp_path: Path) -> None:
    """A typo in the path does not start a pipeline with the defaults."""
    (line,) = refused(tmp_path / "nowhere.toml")
    assert line.endswith("nowhere.toml: No such file or directory")


def test_a_secret_comes_from_a_file_of_its_own(tmp_path: Path) -> None:
    """`x_file` names the file; its last newline is no part of the secret."""
    (tmp_path / "secret").write_text("hunter2\n")
    path = written(tmp_path, f'[door]\npassword_file = "{tmp_path / "secret"}"\n')
    password = load_model(House, path, {}).door.password
    assert password is not None
    assert password.get_secret_value() == "hunter2"


def test_a_secret_comes_from_the_environment() -> None:
    """RAILSIGHT__DOOR__PASSWORD sets it."""
    password = load_model(House, None, {"RAILSIGHT__DOOR__PASSWORD": "hunter2"}).door.password
    assert password is not None
    assert password.get_secret_value() == "hunter2"


def test_a_secret_in_the_file_is_refused_and_not_repeated(tmp_path: Path) -> None:
    """People commit and paste that file; the refusal names the two right places and not the value."""
    (line,) = refused(written(tmp_path, '[door]\npassword = "hunter2"\n'))
    assert "password_file" in line
    assert "RAILSIGHT__DOOR__PASSWORD" in line
    assert "hunter2" not in line


def test_a_refused_value_is_not_repeated(tmp_path: Path) -> None:
    """A value that is refused may be a secret at the wrong place."""
    lines = refused(written(tmp_path, '[door]\nport = "hunter2"\nurrl = "hunter2"\n'))
    assert len(lines) == 2
    assert "hunter2" not in "".join(lines)


def test_a_secret_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """The setting and the file are named."""
    (line,) = refused(written(tmp_path, '[door]\npassword_file = "/nonexistent/secret"\n'))
    assert line == "door.password_file: /nonexistent/secret: No such file or directory"


@pytest.mark.parametrize("name", ["RAILSIGHT__", "RAILSIGHT____PORT", "RAILSIGHT__DOOR__"])
def test_a_variable_of_another_form_is_refused(name: str) -> None:
    """A variable with our prefix that names nothing is a mistake, not noise."""
    assert any(line.startswith(name) for line in refused(None, {name: "1"}))


def test_a_variable_below_a_value_is_refused() -> None:
    """A setting cannot be a section as well."""
    lines = refused(None, {"RAILSIGHT__DOOR": "1", "RAILSIGHT__DOOR__PORT": "2"})
    assert any(line.startswith("RAILSIGHT__DOOR__PORT") for line in lines)
