"""Plays random histories against the stage `decide`; fixtures/decide_histories.py has the model and its promises.

No id is decided twice differently or for another target. Nothing that is open is forgotten. No leaf falls below its
floor in truth. What is out of service counts as such. Nothing is approved or accepted under a control that was
confirmed before, every rejection holds, and every remediation ends. The histories have renames, jobs, late answers,
restarts at any point, and lost snapshots.
"""

import os

import pytest

from tests.fixtures.decide_histories import History

COUNT = int(os.environ.get("RAILSIGHT_DECIDE_HISTORIES", "2000"))
"""The histories of the long part; 50,000 take 80 to 135 minutes of one core."""

PARTS = max(20, COUNT // 100)
"""A part of 100 takes ten seconds of one core; at load 17 with low priority it took more than 300 s."""


def play(first: int, count: int) -> None:
    """Play histories; one of ten restarts after every step."""
    for seed in range(first, first + count):
        History(seed, crash=1.0 if seed % 10 == 0 else 0.15).play(40)


def test_some_histories_keep_every_promise() -> None:
    """Of the short part; a violation names the record and the time."""
    play(0, 25)


def test_a_late_restore_does_not_return_what_a_newer_remediation_took_out() -> None:
    """In this history two closed remediations left a link out, and the restore of the first returned it."""
    play(62791, 1)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(PARTS))
def test_many_histories_keep_every_promise(part: int) -> None:
    """Of the long part; `RAILSIGHT_DECIDE_HISTORIES` sets the number."""
    play(1000 + part * COUNT // PARTS, COUNT // PARTS)
