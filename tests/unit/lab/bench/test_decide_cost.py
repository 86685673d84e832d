"""Tests the benchmark of one decision on a small fabric."""

from dataclasses import replace

from lab.bench.decide_cost import Options, measure, table_lines

SMALL = Options(gpus=2048, decisions=5, down=0.0, unobserved=0.0, isolated=0, approvals=3)


def test_every_kind_of_decision_is_timed() -> None:
    """In a healthy fabric all are approved, and all candidates of the optimizer fit."""
    cost = measure(SMALL)
    assert cost.approved == {
        "host link": 5, "uplink of a T0": 5, "host": 5, "optimizer, 20 links of one pod": 1, "a control": 3,
    }  # fmt: skip
    assert [timing.kind for timing in cost.timings] == list(cost.approved)
    assert all((timing.cpu.p99 or 0) > 0 for timing in cost.timings)
    assert cost.is_passed is ("yes all within their limits" in table_lines(cost))


def test_the_state_of_the_fabric_reaches_the_guards() -> None:
    """Without any observation nothing is approved; the same seed gives the same state."""
    blind = measure(replace(SMALL, unobserved=1.0))
    assert blind.unobserved == blind.devices
    assert {count for kind, count in blind.approved.items() if kind != "a control"} == {0}
    mixed = measure(replace(SMALL, down=0.02, unobserved=0.05, isolated=5))
    assert (mixed.down > 0, mixed.unobserved > 0, mixed.isolated) == (True, True, 5)
