"""The folder of a demo's data, and its removal."""

import os
from pathlib import Path

import pytest

from lab.demo.session import run_folder
from streams.embedded.directories import try_lock


@pytest.fixture(autouse=True)
def own_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's data folder is one of this test."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


def test_each_run_has_a_fresh_folder_that_goes_with_it() -> None:
    """Two at once do not meet; nothing is left of either."""
    with run_folder(None, keep=False) as first, run_folder(None, keep=False) as second:
        assert first != second
        assert first.exists()
        assert second.exists()
    assert not first.exists()
    assert not second.exists()


def test_a_retained_folder_stays() -> None:
    """It is still there after later demos."""
    with run_folder(None, keep=True) as first:
        pass
    with run_folder(None, keep=False):
        pass
    assert first.exists()


def test_what_a_killed_demo_left_is_swept_away() -> None:
    """A folder whose owner is gone goes with the next demo; one whose owner lives does not."""
    with run_folder(None, keep=True) as folder:
        dead, alive = folder.parent / "run-dead", folder.parent / "run-alive"
    for made in (dead, alive):
        made.mkdir()
        (made / "kafka").mkdir()
    lock = try_lock(alive)
    assert lock is not None
    with run_folder(None, keep=False):
        assert not dead.exists()
        assert alive.exists()
    os.close(lock)
