"""All collectors are killed and started again in a simulated fabric with random faults: none is invented or hidden."""

from collections.abc import Iterator

import pytest

from lab.bench.detection.outcome import TrialSpec
from lab.bench.detection.session import run
from lab.world.delivery_model import Cadence
from lab.world.faults import FAULTS
from lab.world.scenario import build
from streams.config.settings import Settings
from streams.replay.backtest import stages
from streams.replay.driver import Driver, event_time
from streams.replay.score import score
from streams.wire.models import Condition, Finding, Message

LASTING = ("link/down", "link/degrading", "rail/degraded", "device/down")
"""Faults of minutes; a flap may begin and end while nothing is read."""


@pytest.mark.parametrize("minutes", [1, 3])
def test_killed_collectors_invent_and_hide_no_fault(minutes: int) -> None:
    """Their silence is one finding; every fault is found, and no child has a parent that ended before it began."""
    faults = tuple(fault for fault in FAULTS if fault.slug in LASTING)
    scenario = build(TrialSpec(gpus=64, seed=minutes, each=2, faults=faults))
    whole, within = scenario.whole, scenario.within
    begin_ns = (within.start_ns + within.end_ns) // 2
    end_ns = begin_ns + minutes * 60 * 10**9

    def batches() -> Iterator[list[Message]]:
        for _, batch in scenario.telemetry.batches(whole.start_ns, whole.end_ns, 10**9):
            if left := [one for one in batch if not begin_ns <= event_time(one)[0] < end_ns]:
                yield left

    driver = Driver(stages(Settings()), scenario.topology)
    published = [one for batch in batches() for one in driver.process(batch) if isinstance(one, Finding)]
    result = score(published, [truth for fault in scenario.faults for truth in fault.truths])
    assert result.missed == ()
    assert {one.condition for one in result.invented} <= {Condition.TELEMETRY_STALE}
    assert len([one for one in result.invented if begin_ns - 30 * 10**9 <= one.start_ns]) <= 1
    last = {one.id: one for one in published}
    for one in last.values():
        parent = last.get(one.parent_id)
        assert parent is None or (parent.resolved_at_ns or end_ns * 2) + 60 * 10**9 >= one.started_at_ns
    assert result.repeated == ()


@pytest.mark.timeout(1200)
def test_one_killed_collector_of_several_invents_and_hides_no_fault() -> None:
    """For 1, 3 and 10 minutes, among other faults: each silence is one root, which pages."""
    faults = tuple(fault for fault in FAULTS if fault.slug in (*LASTING, "link/flap", "path/loss", "host/gpu-fault"))
    spec = TrialSpec(gpus=256, seed=11, each=1, faults=faults, cadence=Cadence(10, 10), killed_min=(1, 3, 10))
    outcome = run(spec, Settings(), stages(Settings()))
    assert (outcome.score.missed, outcome.score.invented, outcome.score.repeated) == ((), (), ())
    assert (outcome.false_pages, outcome.muted_pages) == ([], [])
    killed = [one for one in outcome.injections if one.kind == "killed collector"]
    assert len(killed) == 3
    for outage in killed:
        silent = {truth.device for truth in outage.truths}
        begin_ns, end_ns = outage.truths[0].start_ns, outage.truths[0].end_ns
        stale = [
            one
            for one in outcome.findings.values()
            if one.condition is Condition.TELEMETRY_STALE
            and one.subject.a is not None
            and one.subject.a.device in silent
            and begin_ns - 30 * 10**9 <= one.started_at_ns < end_ns
        ]
        assert len([one for one in stale if not one.parent_id]) == 1
    for one in outcome.findings.values():
        parent = outcome.findings.get(one.parent_id)
        assert parent is None or parent.resolved_at_ns is None or parent.resolved_at_ns >= one.started_at_ns
