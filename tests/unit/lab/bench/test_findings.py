"""Tests `railsight bench findings`: a short noisy period, and that its ledgers notice what they look for."""

from dataclasses import replace
from typing import Any

import pytest

from lab.bench.findings.ledger import FindingLedger, Pager, RemediationLedger
from lab.bench.findings.session import FindingsOutcome, Options, as_dict, measure, problems, table_lines
from lab.world.health_noise import NoiseSpec, simulate_noise
from streams.config.settings import Settings
from streams.fabric.clos import GenerateParams, generate
from streams.fabric.topology import Topology
from streams.notify.notifier import Notifier
from streams.notify.params import NotifyParams
from streams.wire.models import Action, Remediation, Severity, Status, Subject, Verdict
from streams.wire.models import RemediationState as State
from tests.fixtures.decide_stage import ended, finding
from tests.worlds.observations import at


@pytest.fixture(scope="module")
def outcome() -> FindingsOutcome:
    """Return half an hour of noise with five kills of `decide`."""
    return measure(Options(findings=250, hours=0.5, gpus=128, radix=16, times=1, kills=5, seed=2), Settings())


def test_killed_stages_decide_no_id_twice_differently_and_lose_no_finding(outcome: FindingsOutcome) -> None:
    """The state since the last snapshot is lost at each kill, and a part of what was being sent."""
    assert (outcome.kills, outcome.differing, outcome.lost) == (5, [], [])
    assert outcome.findings >= 250 and outcome.due > 20
    assert outcome.remediations > 100 and outcome.acted > 0


def test_each_injected_outage_pages(outcome: FindingsOutcome) -> None:
    """Half of the uplinks of a leaf, and a GPU off the bus."""
    assert (outcome.outages, outcome.unpaged) == (2, [])


def test_the_table_names_what_does_not_hold(outcome: FindingsOutcome) -> None:
    """Two pages in half an hour are too many; the same in a day are not."""
    assert "pages below 1 an hour" in problems(outcome)
    quiet = replace(outcome, options=replace(outcome.options, hours=240.0))
    assert "pages below 1 an hour" not in problems(quiet)
    lost = replace(quiet, lost=["f"], differing=["r"], unpaged=["leaf"])
    assert len(problems(lost)) == len(problems(quiet)) + 3
    assert any(line.startswith("NO  page of: leaf") for line in table_lines(lost))
    assert as_dict(lost)["problems"] == problems(lost)


def test_a_part_has_one_fault_of_a_condition_at_a_time() -> None:
    """And episodes come in the order of time, each opened first and ended last."""
    topology = Topology(generate(GenerateParams(gpus=128, planes=2, radix=16)))
    noise = simulate_noise(topology, NoiseSpec(400, 1000, 1.0, 7), at(0))
    seen: dict[str, list[Status]] = {}
    last_ns = 0
    for at_ns, episode, _ in noise.episodes():
        assert at_ns >= last_ns
        last_ns = at_ns
        seen.setdefault(episode.finding.id, []).append(episode.finding.status)
    assert len(seen) == len(noise.faults) >= 400
    assert all(own[0] is Status.OPEN and own[-1] is Status.RESOLVED for own in seen.values())
    spans: dict[tuple[int, str], list[tuple[int, int]]] = {}
    for fault in noise.faults:
        spans.setdefault((fault.condition, fault.subject.id), []).append((fault.start_ns, fault.end_ns))
    assert all(a[1] < b[0] for own in spans.values() for a, b in zip(sorted(own), sorted(own)[1:], strict=False))
    with pytest.raises(ValueError, match="no room for"):
        simulate_noise(topology, NoiseSpec(20_000, 1000, 0.5, 7), at(0))
    with pytest.raises(ValueError, match="no links between switches"):
        simulate_noise(Topology(generate(GenerateParams(gpus=128, planes=2))), NoiseSpec(10, 10, 1, 7), at(0))


def decided(state: State, revision: int, verdict: Verdict = Verdict.APPROVED, target: str = "link:a") -> Remediation:
    return Remediation(
        "r", revision, ("f",), Action.DRAIN_LINK, verdict, Subject(target), reason="x", state=state, attempt=1
    )


SECOND_EPOCH = 2 << 32
FIRST = decided(State.APPROVED, (1 << 32) + 1)


@pytest.mark.parametrize(
    ("following", "count"),
    [
        (decided(State.APPROVED, SECOND_EPOCH), 0),
        (decided(State.ACCEPTED, SECOND_EPOCH), 0),
        (decided(State.DENIED, SECOND_EPOCH, Verdict.REVOKED), 0),
        (decided(State.DENIED, SECOND_EPOCH, Verdict.DENIED), 1),
        (decided(State.WAITING, SECOND_EPOCH), 1),
        (decided(State.APPROVED, SECOND_EPOCH, target="link:b"), 1),
        (decided(State.APPROVED, 1), 1),
    ],
    ids=["repeated", "accepted", "revoked", "denied", "waits", "another target", "an older revision"],
)
def test_the_ledger_finds_an_id_that_is_decided_twice_differently(following: Remediation, count: int) -> None:
    """A repetition is none; another decision, target or order of revisions is one."""
    ledger = RemediationLedger()
    ledger.observe(FIRST)
    ledger.observe(following)
    assert len(ledger.differing) == count


CHANGES: tuple[dict[str, Any], ...] = ({}, {"severity": Severity.INFO}, {"parent_id": "p"})


def test_the_ledger_finds_a_finding_without_a_decision() -> None:
    """One that is open, severe enough and without a parent for two minutes after it is due."""
    ledger = FindingLedger(settle_ns=10 * 10**9)
    for number, changes in enumerate(CHANGES):
        opened = finding("p1-l0/u0", **changes)
        ledger.observe(replace(opened, id=f"f{number}"), at(0))
    short = replace(finding("p1-l0/u1"), id="short")
    ledger.observe(short, at(0))
    ledger.observe(ended(short), at(100))
    ledger.end(at(200))
    assert ledger.due == {"f0"}


def test_a_page_counts_when_it_begins_to_fire() -> None:
    """Not when it is repeated, and again after it ended."""
    pager = Pager(Notifier(NotifyParams()), 5 * 10**9)
    opened = finding("p1-l0/u0", severity=Severity.CRITICAL)
    pager.notifier.process(opened, at(0))
    for t in range(0, 400, 5):
        pager.advance(at(t))
    assert [page.about for page in pager.pages] == [opened.id]
    pager.notifier.process(ended(opened), at(400))
    pager.advance(at(405))
    pager.notifier.process(replace(opened, revision=3), at(410))
    for t in range(415, 450, 5):
        pager.advance(at(t))
    assert len(pager.pages) == 2
