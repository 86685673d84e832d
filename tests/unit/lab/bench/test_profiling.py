"""Parts that a run can profile."""

from pathlib import Path

import pytest

from lab.bench.processes import parse_profile
from streams.wire.errors import Misconfigured


@pytest.mark.parametrize("given", ["broker=out.json", "process", "process=", "=out.json"])
def test_only_a_python_part_and_a_file_can_be_profiled(given: str) -> None:
    """An impossible request is refused in one line before anything starts, with the known parts."""
    with pytest.raises(Misconfigured, match="process, persist"):
        parse_profile(given, ["process", "persist"])


def test_without_py_spy_it_is_refused_before_anything_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With it, the file is where the caller stands, whatever folder the run has."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Misconfigured, match="py-spy on PATH"):
        parse_profile("process=out.json", ["process"])
    (tmp_path / "py-spy").write_text("#!/bin/sh\n")
    (tmp_path / "py-spy").chmod(0o755)
    assert parse_profile("process=out.json", ["process"]).out == Path.cwd() / "out.json"
