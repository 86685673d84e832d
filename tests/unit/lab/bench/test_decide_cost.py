"""Tests the benchmark of one decision on a small fabric."""

from dataclasses import replace

from lab.bench.decide_cost import (
    Options,
    measure,
)

SMALL = Options(gpus=2048, decisions=5, down=0.0, unobserved=0.0, isolated=0, approvals=3)


def test_every_kind_of_decision_is_timed() -> None:
    """In a healthy fabric all are approved, and all candidates of the optimizer fit."""
    cost = measure(SMALL)
    assert [timing.kind for timing in cost.timings] == [
        "host link", "uplink of a T0", "host", "optimizer, 20 links of one pod",
    ]  # fmt: skip
    assert [timing.approved for timing in cost.timings] == [5, 5, 5, 1]
    assert all((timing.cpu.p99 or 0) > 0 for timing in cost.timings)
    assert cost.approvals is not None
    assert (cost.approvals.approvals, cost.approvals_p99_ms > 0) == (3, True)


def test_the_state_of_the_fabric_reaches_the_guards() -> None:
    """Without any observation nothing is approved; the same seed gives the same state."""
    blind = measure(replace(SMALL, unobserved=1.0))
    assert blind.unobserved == blind.devices
    assert [timing.approved for timing in blind.timings] == [0, 0, 0, 0]
    mixed = measure(replace(SMALL, down=0.02, unobserved=0.05, isolated=5))
    assert (mixed.down > 0, mixed.unobserved > 0, mixed.isolated) == (True, True, 5)
