"""Sequences that share one stack: each has links of its own, and is judged by what began in it."""

import json

from lab.chaos.load import Fabric, subject_id
from lab.chaos.reader import Revision
from lab.chaos.verdict import FindingTruth, check_open


def test_sequences_that_follow_each_other_use_other_links() -> None:
    """Ten of them share no link, and the device with a wrong clock has none of them."""
    fabric = Fabric(run=1)
    used: list[str] = []
    for at_ns in range(10):
        truth = fabric.next_truth(at_ns)
        links = (truth.stays_down, truth.recovers, truth.down_at_end)
        used += map(subject_id, links)
        assert truth.clock_device not in {link.a_device for link in links}
        assert truth.begun_ns == at_ns
    assert len(set(used)) == 30


def test_outages_of_an_earlier_sequence_are_not_invented_ones() -> None:
    """They are resolved; an open one is a breach, whenever it began."""
    fields = {
        "condition": "LINK_DOWN", "status": "RESOLVED", "subject": {"id": "link:a"},
        "startedAt": "2026-03-01T00:00:00Z",
    }  # fmt: skip
    truth = FindingTruth(frozenset(), frozenset(), "2026-03-01T00:00:01")
    assert check_open([Revision("1", 1, json.dumps(fields).encode(), 0)], truth) == []
    still_open = Revision("1", 1, json.dumps(fields | {"status": "OPEN"}).encode(), 0)
    assert check_open([still_open], truth) == ["1 open findings that are not true: LINK_DOWN link:a"]
    begun = Revision("1", 1, json.dumps(fields | {"startedAt": "2026-03-01T00:00:02Z"}).encode(), 0)
    assert check_open([begun], truth) == ["1 invented link/down: link:a"]
