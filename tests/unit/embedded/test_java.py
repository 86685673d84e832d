"""Tests which Java runs the broker."""

from pathlib import Path

import pytest

from streams.embedded.java import feature_of, find_java


def java_home(folder: Path, version: str, *, states_it: bool = True) -> Path:
    """Create a folder that looks like a Java home and reports its version like a real one."""
    (folder / "bin").mkdir(parents=True)
    command = folder / "bin" / "java"
    command.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    command.chmod(0o755)
    if states_it:
        (folder / "release").write_text(f'IMPLEMENTOR="Someone"\nJAVA_VERSION="{version}"\n')
    return folder


@pytest.mark.parametrize(
    ("version", "feature"), [("1.8.0_402", 8), ("11.0.21", 11), ("17", 17), ("25.0.2", 25), ("26-ea", 26), ("?", 0)]
)
def test_the_feature_number_of_a_version(version: str, feature: int) -> None:
    """Old and new version strings give the feature version."""
    assert feature_of(version) == feature


@pytest.mark.parametrize("states_it", [True, False])
def test_a_java_home_of_17_or_newer_is_taken(tmp_path: Path, states_it: bool) -> None:
    """JAVA_HOME is used, whether its version is in a file or printed by the command."""
    home = java_home(tmp_path / "java", "17.0.9", states_it=states_it)
    java = find_java(environ={"JAVA_HOME": str(home)})
    assert (java.command, java.version) == (home / "bin" / "java", "17.0.9")
    assert not java.makes_aot_caches


def test_an_older_java_home_is_ignored_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Instead of Java 11 the packaged one is used, with a warning."""
    home = java_home(tmp_path / "java", "11.0.21")
    java = find_java(environ={"JAVA_HOME": str(home)})
    assert java.feature >= 25
    assert java.makes_aot_caches
    assert "has Java 11.0.21" in caplog.text


def test_a_java_home_without_java_is_ignored_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Instead of an invalid JAVA_HOME the packaged Java is used, with a warning."""
    assert find_java(environ={"JAVA_HOME": str(tmp_path)}).feature >= 25
    assert "no Java that runs" in caplog.text


def test_a_java_on_the_path_is_neither_needed_nor_used(tmp_path: Path) -> None:
    """With an empty environment the packaged Java is found."""
    assert find_java(environ={"PATH": str(tmp_path)}).command.is_absolute()
