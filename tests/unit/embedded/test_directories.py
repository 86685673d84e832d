"""Tests the folders of data and caches, and the errors of unusable ones."""

from pathlib import Path

import pytest

from streams.embedded.directories import cache_directory, data_directory, prepare
from streams.wire.errors import Misconfigured


def test_the_folders_are_the_users_own() -> None:
    """The XDG variables are used; a relative path is invalid and ignored."""
    assert data_directory({"XDG_DATA_HOME": "/d"}) == Path("/d/railsight")
    assert cache_directory({"XDG_CACHE_HOME": "/c"}) == Path("/c/railsight")
    assert data_directory({"XDG_DATA_HOME": "d"}) == data_directory({}) == Path.home() / ".local/share/railsight"
    assert cache_directory({}) == Path.home() / ".cache/railsight"


def test_a_folder_is_made_with_its_parents(tmp_path: Path) -> None:
    """A first start needs no manual preparation."""
    prepare(tmp_path / "a" / "b", purpose="data folder", needs_bytes=1)
    assert (tmp_path / "a" / "b").is_dir()


def test_a_file_in_the_way_is_one_clear_line(tmp_path: Path) -> None:
    """The error names the path and the system's reason."""
    (tmp_path / "file").write_text("")
    with pytest.raises(Misconfigured, match=rf"data folder {tmp_path}/file/kafka: Not a directory"):
        prepare(tmp_path / "file" / "kafka", purpose="data folder", needs_bytes=1)


def test_a_folder_without_write_permission_is_refused() -> None:
    """A folder that is not writable is refused before anything starts."""
    with pytest.raises(Misconfigured, match=r"data folder /proc/kafka: "):
        prepare(Path("/proc/kafka"), purpose="data folder", needs_bytes=1)


def test_too_little_space_is_reported_with_both_numbers(tmp_path: Path) -> None:
    """A nearly full disk is refused at the start, not by a broker that fails later."""
    with pytest.raises(Misconfigured, match=r"\d+ MiB free on its disk, and at least 1099511627776 MiB are needed"):
        prepare(tmp_path, purpose="data folder", needs_bytes=1 << 60)
