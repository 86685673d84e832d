"""Tests lemon scores by hand-computed values."""

import math

import pytest

from streams.cli.printing import Cell, table_lines
from streams.report.lemons.history import LEMON_COLUMNS, count_line, lemon_cells, named_parts, parts_of
from streams.report.lemons.score import Fault, FaultKind, Fleet, Part, is_lemon, rate_ratio, scores
from streams.store.queries.lemon_history import LinkEnds, PartsRow
from streams.wire.models import Lemon, LemonKind

FINDING, FAILED, RELAPSE = FaultKind.FINDING, FaultKind.FAILED_REPAIR, FaultKind.RELAPSE
GOOD, BAD = Part("transceiver", "GOOD", "1.0"), Part("transceiver", "BAD", "1.0")


def links(count: int, prefix: str = "link:") -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def by_subject(found: list[Lemon], kind: LemonKind) -> dict[str, Lemon]:
    return {lemon.subject_id: lemon for lemon in found if lemon.kind is kind}


def test_the_interval_is_that_of_clopper_and_pearson() -> None:
    """Published tables: 5 of 25 has [0.0683, 0.4070], 5 of 5 [0.4782, 1], 1 of 1 [0.025, 1]; r = p / (1 - p)."""
    some = rate_ratio(5, 1, 20, 1)
    assert some.low == pytest.approx(0.06831 / 0.93169, rel=1e-3)
    assert some.high == pytest.approx(0.40704 / 0.59296, rel=1e-3)
    assert some.ratio == 0.25
    every = rate_ratio(5, 1, 0, 1)
    assert every.low == pytest.approx(0.47818 / 0.52182, rel=1e-3)
    assert (every.ratio, every.high) == (None, None)
    assert rate_ratio(1, 1, 0, 3).low == pytest.approx(0.025 / 0.975 * 3)


def test_exposures_scale_the_ratio() -> None:
    """5 of 50 against 20 of 10,000: 0.1 / 0.002 = 50, and the lower bound is far above 1."""
    own = rate_ratio(5, 50, 20, 10_000)
    assert own.ratio == pytest.approx(50)
    assert own.low == pytest.approx(0.06831 / 0.93169 * 200, rel=1e-3)
    reverse = rate_ratio(20, 10_000, 5, 50)
    assert reverse.high is not None and reverse.high * own.low == pytest.approx(1)
    assert own.high is not None and reverse.low * own.high == pytest.approx(1)


def test_more_comparisons_widen_the_interval() -> None:
    """1 of 1 event with 1,000 comparisons: p = 0.025 / 1000."""
    assert rate_ratio(1, 1, 0, 1, 1000).low == pytest.approx(2.5e-5 / (1 - 2.5e-5))


@pytest.mark.parametrize(("events", "total"), [(0, 1), (1, 2), (3, 400), (900, 1000), (5000, 100_000)])
def test_the_lower_bound_has_its_tail(events: int, total: int) -> None:
    """Summed from the definition, at most 2.5 % of the outcomes have as many events at the lower bound."""
    low = rate_ratio(events, 1, total - events, 1).low
    p = low / (1 + low)
    if not events:
        assert p == 0
        return
    below = math.fsum(
        math.exp(
            math.lgamma(total + 1) - math.lgamma(k + 1) - math.lgamma(total - k + 1)
            + k * math.log(p) + (total - k) * math.log1p(-p)
        )
        for k in range(events)
    )  # fmt: skip
    assert 1 - below == pytest.approx(0.025, rel=1e-6)


def test_one_finding_is_no_lemon_in_any_fleet() -> None:
    """Of m links one has the only event: P = 1 / m, never below 0.025 / m."""
    for size in (2, 4, 100, 100_000):
        (score,) = scores([Fault(FINDING, "link:0")], Fleet(links(size), ()))
        assert not is_lemon(score)


def test_a_link_with_repeated_faults_is_a_lemon_where_others_have_few() -> None:
    """8 of 18 events fall on one of 10,000 links; the ten others have one each."""
    faults = [Fault(FINDING, "link:0")] * 5 + [Fault(FAILED, "link:0")] * 2 + [Fault(RELAPSE, "link:0")]
    faults += [Fault(FINDING, f"link:{number}") for number in range(1, 11)]
    first, *others = scores(faults, Fleet(links(10_000), ()))
    assert (first.subject_id, first.findings, first.failed_repairs, first.relapses) == ("link:0", 5, 2, 1)
    assert (first.events, first.exposure, first.fleet_events, first.fleet_exposure) == (8, 1, 10, 9999)
    assert is_lemon(first)
    assert not any(map(is_lemon, others))


def test_a_link_is_no_lemon_where_all_are_alike() -> None:
    """Five events on each of four links."""
    faults = [Fault(FINDING, link) for link in links(4)] * 5
    assert not any(map(is_lemon, scores(faults, Fleet(links(4), ()))))


def part_fleet() -> tuple[list[Fault], Fleet]:
    """Return 10,000 links with GOOD, 20 of them faulty, and 50 with BAD, 5 of them faulty."""
    good, bad = links(10_000), links(50, "link:b")
    parts = dict.fromkeys(good, frozenset({GOOD})) | dict.fromkeys(bad, frozenset({BAD}))
    faults = [Fault(FINDING, link, parts[link]) for link in (*good[:20], *bad[:5])]
    return faults, Fleet([*good, *bad], (), parts)


def test_a_part_is_compared_by_how_many_exist() -> None:
    """5 of 50 is a lemon; 20 of 10,000 is better than the rest."""
    found = by_subject(scores(*part_fleet()), LemonKind.PART)
    bad, good = found["BAD"], found["GOOD"]
    assert (bad.events, bad.exposure, bad.fleet_events, bad.fleet_exposure) == (5, 50, 20, 10_000)
    assert is_lemon(bad) and not is_lemon(good)
    assert good.ratio_high is not None and good.ratio_high < 1
    assert bad.part_kind == "transceiver"


def test_one_bad_link_does_not_condemn_its_part() -> None:
    """50 findings on one link are one of 50 links with the part."""
    faults, fleet = part_fleet()
    only = [Fault(FINDING, "link:b0", frozenset({BAD}))] * 50 + [one for one in faults if GOOD in one.parts]
    bad = by_subject(scores(only, fleet), LemonKind.PART)["BAD"]
    assert (bad.findings, bad.events) == (50, 1)
    assert not is_lemon(bad)


def test_a_replaced_part_keeps_its_fault() -> None:
    """A link with GOOD now had BAD at its fault: it counts as a link with BAD."""
    fleet = Fleet(links(3), (), dict.fromkeys(links(3), frozenset({GOOD})))
    (bad,) = by_subject(scores([Fault(FINDING, "link:0", frozenset({BAD}))], fleet), LemonKind.PART).values()
    assert (bad.subject_id, bad.events, bad.exposure, bad.fleet_exposure) == ("BAD", 1, 1, 2)


def test_firmware_is_compared_within_its_part() -> None:
    """Of one part, 9 of 10 links with the new firmware are faulty and none of 90 with the old."""
    new, old = Part("transceiver", "PN", "2.0"), Part("transceiver", "PN", "1.0")
    parts = {link: frozenset({new if number < 10 else old}) for number, link in enumerate(links(100))}
    found = scores([Fault(FINDING, link, parts[link]) for link in links(9)], Fleet(links(100), (), parts))
    firmware = by_subject(found, LemonKind.FIRMWARE)
    assert list(firmware) == ["PN 2.0"]
    assert is_lemon(firmware["PN 2.0"])
    assert firmware["PN 2.0"].fleet_exposure == 90
    assert by_subject(found, LemonKind.PART) == {}, "without another part there is no comparison"


def test_hosts_and_links_that_left_the_fleet() -> None:
    """A host is scored among hosts; what the inventory does not have is not scored."""
    faults = [Fault(FINDING, "device:h1")] * 3 + [Fault(FINDING, "device:gone"), Fault(FINDING, "link:gone")]
    (host,) = scores(faults, Fleet(links(5), {"device:h1", "device:h2", "device:h3"}))
    assert (host.kind, host.events, host.fleet_events, host.fleet_exposure) == (LemonKind.HOST, 3, 0, 2)


def row(device: str, since_ns: int, number: str = "PN1") -> PartsRow:
    return PartsRow(
        device, "gnmi", since_ns, ["m1", "p9"], ["transceiver", "psu"], [number, "X"], ["1", ""], [["e1"], []]
    )  # fmt: skip


def test_the_parts_of_a_link_are_those_of_the_time() -> None:
    """By any name of a module; before the first report, the first."""
    link = LinkEnds("link:a--b", "a", "e1", "b", "e1")
    new = row("a", 20, "PN2")
    devices = {"a": {"gnmi": [(10, named_parts(row("a", 10))), (20, named_parts(new))]}}
    numbers = [{part.number for part in parts_of(link, devices, at)} for at in (5, 10, 19, 20)]
    assert numbers == [{"PN1"}, {"PN1"}, {"PN1"}, {"PN2"}]
    assert parts_of(LinkEnds("x", "q", "e1", "r", "e2"), devices, 5) == frozenset()


def test_the_table_fits_80_columns() -> None:
    """Long names of links are cut in the middle, numbers stay whole."""
    lemon = Lemon(
        LemonKind.LINK, "link:host-with-a-long-name-1/ens11np0--leaf-with-a-long-name-2/Ethernet1/1", events=999,
        exposure=393_216, fleet_events=99_999, fleet_exposure=393_215, ratio=9.0, ratio_low=1234.5, ratio_high=98765.4,
    )  # fmt: skip
    unbounded = Lemon(LemonKind.PART, "PN", events=1, exposure=1, ratio_low=0.5)
    cells = [[Cell(text) for text in lemon_cells(one, is_cut=True)] for one in (lemon, unbounded)]
    lines = [*table_lines(LEMON_COLUMNS, cells, None, colored=False), count_line([lemon, unbounded], 28)]
    assert max(map(len, lines)) <= 80
    assert lines[1].startswith("*  link") and "…" in lines[1]
    assert lines[2].endswith("from 0.5")
    assert lines[3] == "1 of 2 in 28 days are lemons (*): the whole interval is above 1"
