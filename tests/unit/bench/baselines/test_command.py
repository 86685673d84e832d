"""`railsight bench baselines` as a command."""

import pytest
from typer.testing import CliRunner

from streams.bench.baselines.table import Line, render_table
from streams.cli.bench.command import bench
from streams.wire.errors import Misconfigured


def test_an_unknown_baseline_is_refused_before_anything_starts() -> None:
    """The refusal names those that there are."""
    with pytest.raises(Misconfigured, match="there are railsight_measure, faust_agent"):
        CliRunner().invoke(bench, ["baselines", "--only", "storm"], catch_exceptions=False)


def test_a_line_has_its_numbers_or_the_reason_for_their_absence() -> None:
    """A line has its numbers, or why it has none."""
    priced = Line("ours", "arrays", 100, cpu_s=1.5, ratio=1.0, port_samples_per_s=250_000, peak_mib=96)
    missing = Line("theirs", "objects", 0, remark="not installed: no index")
    _, one, other, *notes = render_table([priced, missing])
    assert one.split() == ["ours", "1.50", "1.00", "250,000", "96", "arrays"]
    assert other.split() == ["theirs", "not", "installed:", "no", "index"]
    assert notes
