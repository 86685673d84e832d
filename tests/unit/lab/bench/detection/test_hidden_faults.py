"""Faults that the sources of a fabric cannot show count neither as found, nor as missed, nor as invented."""

from dataclasses import replace

from lab.bench.detection.fabrics import FABRICS
from lab.bench.detection.hidden_faults import without_hidden
from lab.world.ground_truth import GroundTruth, InjectedFault
from streams.fabric.ids import Port
from streams.replay.score import Match, Score, ScoredFinding, Truth
from streams.wire.models import Condition
from tests.worlds.small_fabric import topology

S = 10**9


def fault(condition: Condition, port: str, start_s: int = 100) -> tuple[InjectedFault, Truth]:
    """Return a fault of five minutes at a NIC."""
    own = Truth(start_s * S, (start_s + 300) * S, condition, "p1-h1", port, 20.0)
    return InjectedFault((GroundTruth(own, own.start_ns),), (), "narrow"), own


def seen(condition: Condition, port: str, start_s: int = 110) -> ScoredFinding:
    """Return a finding at a NIC."""
    ends = frozenset({Port("p1-h1", port)})
    return ScoredFinding(condition, f"port:p1-h1/{port}", ends, start_s * S, None, start_s * S, excused=False)


def test_what_nics_cannot_show_is_no_mistake() -> None:
    """A PCIe link is read by the host's agent: its rail is slow, and that is no false finding."""
    pcie, rail = fault(Condition.HOST_PCIE_DEGRADED, "e0"), fault(Condition.RAIL_DEGRADED, "e1")
    effect, other = seen(Condition.RAIL_DEGRADED, "e0"), seen(Condition.RAIL_DEGRADED, "e2")
    later = seen(Condition.RAIL_DEGRADED, "e0", 900)
    found = Match(rail[1], seen(Condition.RAIL_DEGRADED, "e1"))
    score = Score((found,), (pcie[1],), (effect, other, later))
    shown = without_hidden(score, [pcie, rail], FABRICS["nic"], topology())
    assert (shown.score.found, shown.score.missed, shown.score.invented) == ((found,), (), (other, later))
    assert shown.effects == {Condition.RAIL_DEGRADED: 1}
    assert [(condition, count) for (condition, _), count in shown.counts.items()] == [(Condition.HOST_PCIE_DEGRADED, 1)]


def test_a_hidden_fault_that_is_found_is_no_false_finding() -> None:
    """A reading may show it; recall and precision are of the others."""
    short = fault(Condition.LINK_DOWN, "e0")
    own = short[1].__class__(100 * S, 140 * S, Condition.LINK_DOWN, "p1-h1", "e0", 20.0)
    score = Score((Match(own, seen(Condition.LINK_DOWN, "e0")),), (), ())
    shown = without_hidden(score, [(short[0], own)], FABRICS["snmp"], topology())
    assert (shown.score.found, shown.score.invented, shown.counts.total()) == ((), (), 1)


def test_a_port_that_a_hidden_storm_pauses_is_no_false_finding() -> None:
    """The port that begins the storm is not seen; another one that it pauses is."""
    storm = fault(Condition.CONGESTION_PFC_STORM, "e0")
    short = Truth(100 * S, 160 * S, Condition.CONGESTION_PFC_STORM, "p1-h1", "e0", 20.0)
    victim, other = seen(Condition.CONGESTION_PFC_STORM, "e1"), seen(Condition.CONGESTION_PFC_STORM, "e2")
    injected = replace(storm[0], affected=(("p1-h1", "e1"),))
    shown = without_hidden(Score((), (short,), (victim, other)), [(injected, short)], FABRICS["slow"], topology())
    assert shown.score.invented == (other,)


SHUT = Truth(100 * S, 400 * S, Condition.LINK_DOWN, "p1-l0", "d1", 20.0)
"""The leaf's port of the link of p1-h1/e0."""


def _with_shut(shut: Truth, fabric: str, *found: ScoredFinding) -> tuple[tuple[ScoredFinding, ...], int]:
    """Return what is invented, and how many links are hidden, where a port was shut and nothing failed."""
    shown = without_hidden(Score((), (), found), [], FABRICS[fabric], topology(), [shut])
    return shown.score.invented, shown.counts.total()


def test_a_port_that_is_shut_at_the_end_that_no_source_reads_is_no_false_link_down() -> None:
    """A NIC receives no light, as of a link that failed; another condition, port or time is no effect of it."""
    down = seen(Condition.LINK_DOWN, "e0")
    down = replace(down, endpoints=down.endpoints | {Port("p1-l0", "d1")})
    flap, later = replace(down, condition=Condition.LINK_FLAP), replace(down, start_ns=900 * S)
    other = seen(Condition.LINK_DOWN, "e1")
    assert _with_shut(SHUT, "nic", down, flap, later, other) == ((flap, later, other), 1)


def test_a_port_that_is_shut_where_a_source_reads_it_hides_nothing() -> None:
    """Its administrative state is read; and of a link of which no end is read nothing is found."""
    down = seen(Condition.LINK_DOWN, "e0")
    at_host = replace(SHUT, device="p1-h1", port="e0")
    uplink, spare = replace(SHUT, port="u0"), replace(SHUT, port="spare")
    for shut, fabric in ((SHUT, "all"), (SHUT, "snmp"), (at_host, "nic"), (uplink, "nic"), (spare, "nic")):
        assert _with_shut(shut, fabric, down) == ((down,), 0)
    assert _with_shut(at_host, "snmp", down) == ((), 1)
