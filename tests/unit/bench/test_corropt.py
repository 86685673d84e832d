"""Tests the comparison of policies for corrupting links on a small part of the paper's fabric."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from streams.bench.corropt.policies import CorrOpt, DoNothing, SwitchLocal
from streams.bench.corropt.report import HEAD, as_dict, draw, outcomes, row
from streams.bench.corropt.setting import DAY_S, LOSS_BUCKETS, fabric, faults
from streams.bench.corropt.simulate import simulate
from streams.decide.capacity import Capacity
from streams.decide.optimizer import Candidate

TOP = fabric(2)


def test_a_pod_has_the_links_and_paths_of_the_paper() -> None:
    """384 links a pod, 100,224 in 261 pods; 192 paths from each ToR to the spines."""
    assert len(TOP.links) == 2 * 100_224 // 261
    capacity = Capacity(TOP)
    capacity.set_all_carrying(True)
    uplink = TOP.graph.number_of(TOP.uplinks_of["pod-000-agg-0"][0])
    ratios = {one.group.name: one.ratio for one in capacity.surviving([uplink])}
    assert ratios["pod-000-tor-00"] == 191 / 192


def test_faults_have_the_published_distribution() -> None:
    """Shares of the buckets, and repairs in two days or four."""
    drawn = faults(5000, seed=1)
    for share, lowest, highest in LOSS_BUCKETS:
        assert np.mean((drawn.loss >= lowest) & (drawn.loss <= highest)) == pytest.approx(share, abs=0.01)
    assert np.mean(drawn.repair_s == 2 * DAY_S) == pytest.approx(0.8, abs=0.01)
    assert drawn.in_service_s.mean() == pytest.approx(10_000 * 3600, rel=0.02)


def test_the_switch_local_policy_keeps_its_share_of_uplinks() -> None:
    """With c = 75 % and two tiers a ToR keeps all 4 uplinks (87 % of 4), an aggregation switch 42 of 48."""
    policy = SwitchLocal(TOP.graph, 0.75)
    tor, agg = (TOP.graph.numbers_of(TOP.uplinks_of[name]).tolist() for name in ("pod-000-tor-00", "pod-000-agg-0"))
    assert policy.on_fault(Candidate(tor[0], 1)) == ()
    out = [link for link in agg[:7] if policy.on_fault(Candidate(link, link))]
    assert out == agg[:6]
    assert policy.on_return(agg[0]) == (agg[6],)


def test_no_policy_breaches_and_railsight_leaves_the_least_penalty() -> None:
    """At a high failure rate the constraint binds, and no ToR is ever below it."""
    results = list(outcomes(days=60, constraints=[0.5, 0.75], mttf_hours=[3000], seed=3, pods=2))
    assert [outcome.breaches for outcome in results] == [0] * 6
    for nothing, local, own in (results[:3], results[3:]):
        assert nothing.penalty_s > local.penalty_s > own.penalty_s > 0
        assert own.least_tor_ratio >= own.constraint
        assert own.faults >= own.taken_out
    assert results[2].least_tor_ratio < 0.75 <= results[5].least_tor_ratio


def test_the_recount_finds_a_breach() -> None:
    """A policy that takes out every link is counted as a breach."""

    class Everything(DoNothing):
        def on_fault(self, candidate: Candidate) -> tuple[int, ...]:
            return (candidate.link,)

    drawn = faults(len(TOP.links), seed=1, mttf_hours=500)
    outcome = simulate(TOP.graph, drawn, Everything(), 0.75, days=30)
    assert outcome.breaches > 0
    assert outcome.penalty_s == 0


def test_a_waiting_link_goes_when_capacity_returns() -> None:
    """The worst of two waiting links of a ToR goes after the return of the first."""
    policy = CorrOpt(TOP, 0.75)
    first, second, third, _ = TOP.graph.numbers_of(TOP.uplinks_of["pod-000-tor-00"]).tolist()
    assert policy.on_fault(Candidate(first, 1)) == (first,)
    assert policy.on_fault(Candidate(second, 1e-5)) == ()
    assert policy.on_fault(Candidate(third, 1e-3)) == ()
    assert policy.on_return(first) == [third]
    assert policy.on_return(third) == [second]


def test_the_table_has_the_ratios() -> None:
    """Each policy has a line; the last has both ratios."""
    results = list(outcomes(days=30, constraints=[0.75], mttf_hours=[3000], seed=3, pods=1))
    lines = [row(outcome, results) for outcome in results]
    assert {len(line) for line in (HEAD, *lines)} == {len(HEAD)}
    assert f"{results[0].penalty_s / results[2].penalty_s:,.1f}" in lines[2]
    assert as_dict(results[2])["mean_penalty"] == results[2].mean_penalty


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="the extra bench is not installed")
def test_the_picture_depends_on_the_results_alone(tmp_path: Path) -> None:
    """Two drawings of the same results are the same bytes."""
    results = list(outcomes(days=10, constraints=[0.5, 0.75], mttf_hours=[3000], seed=3, pods=1))
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        draw(results, tmp_path / name / "corropt.svg")
    assert (tmp_path / "a/corropt.svg").read_bytes() == (tmp_path / "b/corropt.svg").read_bytes()
