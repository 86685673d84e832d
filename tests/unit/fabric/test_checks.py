"""Tests the rules of the inventory: each with rows that break it, and near misses that do not."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.fabric.checks import RULES, Tables, find_problems
from streams.fabric.clos import GenerateParams, generate
from streams.fabric.inventory import Device, Inventory, Link, PortName, check, validate, write_folder
from tests.worlds.small_fabric import inventory, job, link

HOST = Device("h", "host", "host", "p", gpus=8)
LEAVES = (Device("l0", "switch", "T0", "p", 0), Device("l1", "switch", "T0", "p", 1))
SPINES = (Device("s0", "switch", "T1", "", 0), Device("s1", "switch", "T1", "", 1))
PAIR = (link("h/a", "l0/1", "host-link", rail=0), link("l1/1", "h/b", "host-link", rail=0))
UP = (link("l0/u", "s0/1"), link("s1/1", "l1/u"))


def _devices(*added: Device) -> tuple[Device, ...]:
    return (HOST, *LEAVES, *SPINES, *added)


def _problems(
    devices: Sequence[Device] | None = None, links: Sequence[Link] = (*PAIR, *UP), **added: object
) -> list[str]:
    own = Inventory(devices=tuple(_devices() if devices is None else devices), links=tuple(links), **added)  # type: ignore[arg-type]
    return check(own, now_ns=1)


def test_valid_fabrics_have_no_problems() -> None:
    """Two planes without contradictions, made by hand or generated, have no problems."""
    assert _problems() == []
    assert check(inventory()) == []
    assert check(generate(GenerateParams(gpus=96, radix=8, rails=4, gpus_per_host=4, planes=2))) == []
    assert check(Inventory()) == []


@pytest.mark.parametrize(
    ("added", "messages"),
    [
        (
            {"devices": _devices(HOST._replace(name="x\n\u202ey"))},
            [r"devices row 6, name: 'x\n\u202ey' has a control character"],
        ),
        (
            {"devices": _devices(HOST, HOST._replace(name="g"))},
            ["devices rows 1, 6: h is listed 2 times"],
        ),
        (
            {"devices": _devices(Device("x", "host", "host", id="7"), Device("y", "host", "host", id="7", serial="s"))},
            ["devices rows 6, 7: id 7 belongs to x and y"],
        ),
        (
            {"devices": _devices(*(Device(n, "host", "host", serial="s") for n in ("x", "y", "z")))},
            ["devices rows 6, 7, 8: serial s belongs to x and y and z"],
        ),
        (
            {"devices": _devices(Device("x", "host", "T0"), Device("y", "switch", "host"), Device("z", "host", "x"))},
            ["devices row 6: x is a host of tier T0", "devices row 7: y is a switch of tier host"],
        ),
        ({"devices": _devices(Device("x", "switch", "T2", gpus=8))}, ["devices row 6: x is a switch with 8 GPUs"]),
        (
            {"links": (*PAIR, *UP, link("s0/1", "s0/2"), link("s1/9", "s1/9"))},
            ["links rows 3, 5: s0/1 is an end of 2 links", "links row 6: s1/9 is both ends",
             "links row 5: s0/1 to s0/2 joins s0 to itself"],
        ),
        (
            {"links": (*PAIR, *UP, link("x/1", "y/1"), link("x/2", "s0/7"))},
            ["links row 5: x is not among the devices", "links row 5: y is not among the devices",
             "links row 6: x is not among the devices"],
        ),
        (
            {"devices": _devices(Device("g", "host", "host")), "links": (*PAIR, *UP, link("h/x", "g/x", "host-link"))},
            ["links row 5: h/x to g/x joins two hosts"],
        ),
        (
            {"links": (PAIR[0]._replace(role="fabric-link"), PAIR[1], UP[0]._replace(role="host-link"), UP[1])},
            ["links row 1: h/a to l0/1 is a fabric-link and ends at a host",
             "links row 3: l0/u to s0/1 is a host-link and joins two switches"],
        ),
        (
            {"links": (*PAIR, UP[0]._replace(id="c"), UP[1]._replace(id="c"))},
            ["links rows 3, 4: id c belongs to 2 links: l0/u to s0/1 and s1/1 to l1/u"],
        ),
        (
            {"links": (*PAIR, *UP, link("l0/2", "h/c", "host-link", rail=0))},
            ["links rows 1, 5: h has 2 links of rail 0 in plane 0: h/a to l0/1 and l0/2 to h/c"],
        ),
        (
            {"links": (PAIR[0]._replace(plane=1), PAIR[1], *UP, link("l0/7", "s1/7"), link("s0/7", "l1/7"))},
            ["links rows 1, 2: h has 2 links of rail 0 in plane 1: h/a to l0/1 and l1/1 to h/b",
             "links row 1: h/a to l0/1 is in plane 1, l0 is in plane 0",
             "links row 5: l0 is in plane 0, s1 is in plane 1, l0/7 to s1/7 joins them",
             "links row 6: s0 is in plane 0, l1 is in plane 1, s0/7 to l1/7 joins them"],
        ),
        (
            {"ports": (PortName("h", "a", "mlx5_0"), PortName("h", "b", "mlx5_0"), PortName("h", "a", "eth0"))},
            ["ports rows 1, 2: on h, mlx5_0 is an alias of a and of b"],
        ),
        (
            {"ports": (PortName("h", "a", "b"), PortName("h", "eth0", "m"), PortName("h", "m", "n"),
                       PortName("h", "a", "a"), PortName("x", "a", "c"))},
            ["ports row 5: x is not among the devices",
             "ports row 1: on h, b is an alias of a and itself the end of a link",
             "ports row 3: on h, n is an alias of m, which is itself an alias"],
        ),
    ],
)  # fmt: skip
def test_each_contradiction_is_reported_with_its_rows_and_values(added: dict[str, object], messages: list[str]) -> None:
    """A problem has table, row numbers and values; no other problem is reported for the same rows."""
    assert _problems(**added) == messages  # type: ignore[arg-type]


def test_a_host_that_misses_a_plane_is_reported_once_for_all_rails() -> None:
    """A host is compared with its own pod: another pod with one plane is no contradiction."""
    hosts = (HOST, HOST._replace(name="g"), HOST._replace(name="f", pod="q"))
    links = (
        *(link(f"h/{rail}{plane}", f"l{plane}/h{rail}", "host-link", rail=rail) for rail in (0, 1) for plane in (0, 1)),
        *(link(f"g/{rail}", f"l0/g{rail}", "host-link", rail=rail) for rail in (0, 1)),
        link("f/0", "l0/f", "host-link", rail=0),
    )
    assert check(Inventory(devices=(*hosts, *LEAVES), links=links)) == [
        "links rows 5, 6: g, rails 0, 1: only in planes 0; hosts of pod p are in 0, 1"
    ]


def test_planes_of_a_pod_have_equal_numbers_of_switches_and_links() -> None:
    """The plane with fewer switches is reported, and the switch with another number of links."""
    added = (
        Device("l2", "switch", "T0", "p", 0),
        Device("m", "switch", "T1", "q", 0),
        Device("n", "switch", "T1", "q", 1),
    )
    links = (*PAIR, *UP, link("l2/u", "s0/2"), link("l1/v", "s1/2"), link("m/1", "n/1", plane=0), link("s0/9", "s1/9"))
    lines = [line for line in _problems(_devices(*added), links) if "has" in line]
    assert lines == [
        "devices row 3: T0 of pod p: plane 0 has 2 switches, plane 1 has 1 switches",
    ]
    odd = (*PAIR, *UP, link("l1/v", "s1/2"))
    assert _problems(links=odd) == [
        "devices row 3: T0 of pod p: plane 0 has 1 links between switches, plane 1 has 2 links between switches; "
        "l1 has 2, 1 is the common number",
        "devices row 5: T1 of no pod: plane 0 has 1 links between switches, plane 1 has 2 links between switches; "
        "s1 has 2, 1 is the common number",
    ]


def test_maintenance_of_all_planes_at_once_is_reported() -> None:
    """The message names devices without uplinks, except those in maintenance; ended maintenance does not count."""
    until = (datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC))
    leaves = tuple(leaf._replace(maintenance_until=time) for leaf, time in zip(LEAVES, until, strict=True))
    own = Inventory(devices=(HOST, *leaves, *SPINES), links=(*PAIR, *UP))
    assert check(own, now_ns=1) == [
        "devices rows 2, 3: l0, l1 are in maintenance at once, until 2026-01-01T00:00:00+00:00: "
        "no uplink remains for h rail 0"
    ]
    assert check(own, now_ns=round(until[1].timestamp() * 1e9)) == []
    busy = HOST._replace(maintenance_until=until[0])
    assert check(Inventory(devices=(busy, *leaves, *SPINES), links=(*PAIR, *UP)), now_ns=1) == []
    one = Inventory(devices=(HOST, leaves[0], LEAVES[1], *SPINES), links=(*PAIR, *UP))
    assert check(one, now_ns=1) == []


def test_overlapping_allocations_of_a_job_are_reported() -> None:
    """Adjacent allocations do not overlap; other jobs and other hosts are independent."""
    day = "2026-01-0{}T00:00:00+00:00".format
    jobs = (job("j", "h", day(1), day(3)), job("j", "h", day(3)), job("k", "h", day(1)), job("j", "l0", day(1)),
            job("j", "h", day(2), day(3)), job("k", "h", day(5), day(4)))  # fmt: skip
    assert _problems(jobs=jobs) == [
        "jobs row 4: j runs on l0, a switch",
        "jobs row 6: k on h from 2026-01-05T00:00:00+00:00 to 2026-01-04T00:00:00+00:00 ends before it starts",
        "jobs rows 1, 5: j on h from 2026-01-01T00:00:00+00:00 to 2026-01-03T00:00:00+00:00 and "
        "j on h from 2026-01-02T00:00:00+00:00 to 2026-01-03T00:00:00+00:00 overlap",
        "jobs rows 3, 6: k on h from 2026-01-01T00:00:00+00:00 and "
        "k on h from 2026-01-05T00:00:00+00:00 to 2026-01-04T00:00:00+00:00 overlap",
    ]


def test_all_problems_are_reported() -> None:
    """A port in 40 links and 40 unknown devices are 41 problems; the line of the port names a dozen rows."""
    links = [link("h/a", f"x{n}/1", "host-link") for n in range(40)]
    problems = find_problems(Tables(Inventory(devices=(HOST,), links=tuple(links))))
    assert len(problems) == 41
    assert problems[0].rows == tuple(range(1, 41))
    assert str(problems[0]) == (
        "links rows 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 28 more: h/a is an end of 40 links"
    )


def test_unreadable_rows_do_not_hide_the_others(tmp_path: Path) -> None:
    """The readable rows are checked under their own row numbers; an unreadable device is not unknown."""
    (tmp_path / "devices.csv").write_text("name,kind,tier,gpus\nh,host,host,-1\nl0,switch,T0,\n")
    (tmp_path / "links.csv").write_text(
        "a_device,a_port,z_device,z_port,role,rail,speed_bps\n"
        "h,a,l0,1,host-link,-1,0\nh,a,l0,1,host-link\nh,a,l0,2,host-link,0,1\nh,a,l0,3,host-link,1,1\n"
        "h,b,x,1,host-link,0,1\n"
    )
    examined = validate(tmp_path)
    assert [str(problem) for problem in examined.problems] == [
        "devices row 1, gpus: '-1' must be at least 0",
        "links row 1, rail: '-1' must be at least 0",
        "links row 1, speed_bps: '0' must be at least 1",
        "links row 2: has fewer fields than the header",
        "links rows 3, 4: h/a is an end of 2 links",
        "links row 5: x is not among the devices",
    ]
    assert examined.errors == examined.problems


def test_invalid_columns_are_reported_once(tmp_path: Path) -> None:
    """Unknown, missing and repeated columns are reported in either form; the other tables are still read."""
    write_folder(inventory(), tmp_path)
    (tmp_path / "links.csv").write_text("a_device,a_port,z_device,a_port,z-port,role\n1,2,3,4,5,6\n")
    lines = [str(problem) for problem in validate(tmp_path).problems]
    assert [line.split(";")[0] for line in lines] == [
        "links: z-port is not a column of this table", "links: no column z_port", "links: column a_port occurs 2 times",
    ]  # fmt: skip


def test_a_table_in_both_forms_is_refused(tmp_path: Path) -> None:
    """The valid one of the two is unknown."""
    write_folder(inventory(), tmp_path, "csv")
    write_folder(inventory(), tmp_path / "other", "parquet")
    (tmp_path / "other" / "links.parquet").rename(tmp_path / "links.parquet")
    lines = [str(problem) for problem in validate(tmp_path).problems]
    assert lines == [f"{tmp_path}: both links.csv and links.parquet exist; remove one"]


def test_every_rule_is_registered_once() -> None:
    """A rule that is registered twice would report every problem twice."""
    assert len(set(RULES)) == len(RULES)


@given(st.data())
def test_the_order_of_rows_does_not_change_the_problems(data: st.DataObject) -> None:
    """Any order of the rows has as many problems of each rule."""
    own = inventory()
    wrong = (*own.links, *data.draw(st.lists(st.sampled_from([*own.links, *PAIR, *UP]), max_size=4)))
    devices = (*own.devices, *data.draw(st.lists(st.sampled_from([*own.devices, HOST, *LEAVES]), max_size=3)))
    first = Inventory(devices=devices, links=wrong)
    other = Inventory(devices=devices, links=tuple(data.draw(st.permutations(wrong))))
    rules = [sorted(problem.rule for problem in find_problems(Tables(each))) for each in (first, other)]
    assert rules[0] == rules[1]
    ends = {end for each in wrong for end in (each.a, each.z)}
    assert ("port-in-two-links" in rules[0]) == (len(ends) < 2 * len(wrong))
