"""A night of twelve faults, two maintenance windows and a restart of railsight: who is woken, and by which text."""

import pytest

from lab.bench.detection.night import play_night
from streams.wire.models import Condition


@pytest.mark.timeout(1200)
def test_the_pages_of_a_night_are_those_that_a_person_wants() -> None:
    """Each outage pages once; maintenance, the restart and faults that can wait until the morning do not."""
    night = play_night()
    assert [len(night.pages_of(event)) for event in night.events] == [0, 1, 1, 0, 1, 0, 1, 1, 1, 1, 0, 0, 0, 0]
    assert [len(night.follow_ups_of(event)) for event in night.events] == [0] * 7 + [1] + [0] * 6
    assert night.unwanted == []
    assert night.is_as_wanted
    (restart,) = [event for event in night.events if event.is_restart]
    assert [one.finding.condition for one in night.pages_of(restart)] == [Condition.LINK_DOWN]
    for one in night.sent:
        lines = one.text.splitlines()
        assert sum(not line.startswith("Also: ") for line in lines) <= 10
        assert lines[0].startswith("OVER after " if one.kind == "end" else "CRITICAL")
        assert [line.partition(": ")[0] for line in lines[1:4]] == ["Where", "Hit", "Since"]
