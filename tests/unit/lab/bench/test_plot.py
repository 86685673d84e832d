"""The picture of growth."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from lab.bench.render_report import draw, refuse_without_matplotlib
from streams.wire.errors import Misconfigured
from tests.fixtures.bench_reports import report


@pytest.mark.skipif(find_spec("matplotlib") is not None, reason="it is there")
def test_without_matplotlib_the_extra_is_named() -> None:
    """Before anything is measured one line names the package to install."""
    with pytest.raises(Misconfigured, match=r"railsight\[bench\]"):
        refuse_without_matplotlib()


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="the extra bench is not installed")
def test_the_picture_is_a_file(tmp_path: Path) -> None:
    """An SVG is written with a curve for each number of workers."""
    draw([report(), report(gpus=4096), report(workers=2)], tmp_path / "growth.svg")
    assert "<svg" in (tmp_path / "growth.svg").read_text()
