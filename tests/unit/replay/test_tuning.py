"""`railsight tune`: the present settings, less and more sensitive ones over the same messages, and the nearest."""

import pytest

from streams.config.settings import Settings
from streams.detect.detectors import DETECTORS
from streams.replay.tuning import FACTORS, TUNED, tune
from streams.report.render_backtest import tuning_lines
from streams.wire.errors import Misconfigured
from tests.worlds.live_stages import in_order
from tests.worlds.small_world import SmallWorld, recorded


def test_every_tuned_setting_exists() -> None:
    """A renamed one would be refused at the first use only."""
    fields = {detector.slug: detector.params.model_fields for detector in DETECTORS}
    assert {(slug, name) for slug, names in TUNED.items() for name in names if name not in fields[slug]} == set()


@pytest.mark.parametrize(("per_week", "count"), [(0.0, 0), (10_000.0, 1)])
def test_the_settings_with_the_nearest_number_are_proposed(per_week: float, count: int) -> None:
    """One outage of 100 s: where none is wanted, the limit is above it, and it is the example that disappears."""
    world = SmallWorld(down={"p2-l1/u0": [(100, 200)]})
    found = tune("link/down", per_week, in_order(recorded(world, 600)), world.topology, Settings())
    assert [one.factor for one in found.candidates] == sorted((*FACTORS, 1.0))
    assert (len(found.present.findings), len(found.proposed.findings)) == (1, count)
    lines = list(tuning_lines(found))
    assert "extrapolated" in lines[1]
    assert [line[0] for line in lines if "WARNING" in line or "CRITICAL" in line] == ["-"] * (1 - count)
    assert ("open_after_s = 120" in lines) is (count == 0)


def test_a_detector_without_limits_is_refused() -> None:
    with pytest.raises(Misconfigured, match=r"no detector with limits to tune: link/flap; known: .*link/degrading"):
        tune("link/flap", 1, [], SmallWorld().topology, Settings())
