"""Tests of generated fabrics: properties of all of them, and the counts of well-known sizes."""

from collections import Counter
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.fabric.clos import GenerateParams, ImpossibleFabric, generate, shape_of
from streams.fabric.ids import Port
from streams.fabric.inventory import Inventory, check, digest, read_folder, write_folder
from streams.fabric.topology import Topology

SMALL = GenerateParams(gpus=96, radix=8, rails=4, gpus_per_host=4, planes=2)
"""24 hosts on three tiers, two planes: every kind of device and cable in a few hundred rows."""


def _ports_of(own: Inventory) -> Counter[str]:
    return Counter(end.device for link in own.links for end in (link.a, link.z))


def _tiers(own: Inventory) -> dict[str, int]:
    return dict(Counter(device.tier for device in own.devices))


@st.composite
def _params(draw: st.DrawFn) -> GenerateParams:
    """A fabric of up to 128 hosts: what radix 16 carries with three tiers."""
    rails = draw(st.sampled_from([1, 2, 4, 8]))
    radix = draw(st.sampled_from([16, 20, 32, 64]))
    hosts = draw(st.integers(1, 128))
    return GenerateParams(gpus=8 * hosts, radix=radix, planes=draw(st.integers(1, 3)), rails=rails)


@pytest.mark.parametrize(
    ("gpus", "tiers", "ports"),
    [
        (64, {"host": 8, "T0": 1}, 128),
        (256, {"host": 32, "T0": 8, "T1": 2}, 1024),
        (1_024, {"host": 128, "T0": 16, "T1": 8}, 4_096),
        (4_096, {"host": 512, "T0": 64, "T1": 32}, 16_384),
        (16_384, {"host": 2_048, "T0": 256, "T1": 256, "T2": 128}, 98_304),
    ],
)
def test_a_fabric_has_as_few_tiers_as_the_radix_allows(gpus: int, tiers: dict[str, int], ports: int) -> None:
    """Switches of 128 ports: one tier to 128 GPUs, two to 8,192, three above."""
    own = generate(GenerateParams(gpus=gpus))
    assert _tiers(own) == tiers
    assert 2 * len(own.links) == ports


def test_the_largest_published_fabric_has_the_published_counts() -> None:
    """131,072 GPUs: 16,384 hosts, 5,120 switches of 128 ports, 786,432 ports, each the end of one link."""
    own = generate(GenerateParams(gpus=131_072))
    assert _tiers(own) == {"host": 16_384, "T0": 2_048, "T1": 2_048, "T2": 1_024}
    assert Counter(link.role for link in own.links) == {"host-link": 131_072, "fabric-link": 262_144}
    assert len({end for link in own.links for end in (link.a, link.z)}) == 786_432
    ports = _ports_of(own)
    assert {ports[device.name] for device in own.devices if device.kind == "switch"} == {128}
    assert len({device.pod for device in own.devices if device.tier == "T0"}) == 32


@pytest.mark.parametrize(
    ("planes", "ports", "bps"),
    [
        (1, ("mlx5_0",), 400e9),
        (2, ("mlx5_0", "mlx5_1"), 200e9),
        (4, tuple(f"eth_r0_p{plane}" for plane in range(4)), 200e9),
        (8, tuple(f"eth_r0_p{plane}" for plane in range(8)), 100e9),
    ],
)
def test_a_nic_has_a_port_in_each_plane(planes: int, ports: tuple[str, ...], bps: float) -> None:
    """All have the same share of the NIC: 400 Gb/s, with many planes 800 Gb/s and the names of netdevs."""
    own = generate(GenerateParams(gpus=256, radix=32, planes=planes))
    nic = [link for link in own.links if link.a_device == "host-00001" and link.rail == 0]
    assert tuple(link.a_port for link in nic) == ports
    assert [link.plane for link in nic] == list(range(planes))
    assert {link.speed_bps for link in own.links} == {bps}
    assert check(own) == []


def test_broken_out_ports_make_the_largest_fabric_with_two_tiers() -> None:
    """Four planes of 512 ports a switch: the same 131,072 GPUs without T2s, as in multi-plane designs."""
    assert shape_of(GenerateParams(gpus=131_072, radix=512, planes=4)).tiers == 2


@given(_params())
@settings(max_examples=60, deadline=None)
def test_every_fabric_is_a_fine_inventory_within_the_radix(params: GenerateParams) -> None:
    """No port has two links, no switch more links than ports, and every GPU has a host."""
    own = generate(params)
    assert check(own) == []
    ports = _ports_of(own)
    switches = [device for device in own.devices if device.kind == "switch"]
    assert all(0 < ports[device.name] <= params.radix for device in switches)
    numbers = [int(link.z_port.removeprefix("Ethernet1/")) for link in own.links]
    assert max(numbers) <= params.radix
    assert sum(device.gpus for device in own.devices) == params.gpus
    assert len(own.links) == len(set(Topology(own).links))


@given(_params())
@settings(max_examples=60, deadline=None)
def test_links_stay_in_their_rail_plane_and_pod(params: GenerateParams) -> None:
    """NIC r of a host has a link to one T0 of rail r in each plane of its pod; no fabric link leaves its plane."""
    own = generate(params)
    devices = {device.name: device for device in own.devices}
    rails_of: dict[str, set[int | None]] = {}
    nics: Counter[tuple[str, int | None, int | None]] = Counter()
    for link in own.links:
        lower, upper = devices[link.a_device], devices[link.z_device]
        assert upper.plane == link.plane
        if link.role == "host-link":
            assert (lower.kind, upper.tier, lower.pod) == ("host", "T0", upper.pod)
            rails_of.setdefault(upper.name, set()).add(link.rail)
            nics[lower.name, link.rail, link.plane] += 1
        else:
            assert lower.plane == link.plane
            assert lower.pod == upper.pod or not upper.pod
    assert set(nics.values()) == {1}
    assert len(nics) == params.gpus // 8 * params.rails * params.planes
    if shape_of(params).tiers > 1:
        assert {len(rails) for rails in rails_of.values()} == {1}


@given(_params())
@settings(max_examples=60, deadline=None)
def test_no_tier_is_narrower_than_the_one_below(params: GenerateParams) -> None:
    """Non-blocking: T0s have at least as many uplinks as downlinks, and so have T1s."""
    own = generate(params)
    tops = {1: "T0", 2: "T1", 3: "T2"}[shape_of(params).tiers]
    down: Counter[str] = Counter(link.z_device for link in own.links)
    up: Counter[str] = Counter(link.a_device for link in own.links)
    assert all(
        up[device.name] >= down[device.name]
        for device in own.devices
        if device.kind == "switch" and device.tier != tops
    )


def test_a_full_t0_has_as_many_uplinks_as_downlinks() -> None:
    """Half of the ports each way, on the other side of the radix's middle."""
    own = generate(GenerateParams(gpus=1_024))
    down = Counter(link.z_device for link in own.links if link.role == "host-link")
    up = Counter(link.a_device for link in own.links if link.role == "fabric-link")
    assert down == up
    assert set(up.values()) == {64}


@given(_params())
@settings(max_examples=40, deadline=None)
def test_any_two_hosts_of_a_rail_can_reach_each_other(params: GenerateParams) -> None:
    """The switches of each plane are connected."""
    own = generate(params)
    for plane in range(params.planes):
        near: dict[str, set[str]] = {d.name: set() for d in own.devices if d.plane == plane}
        for link in own.links:
            if link.role == "fabric-link" and link.plane == plane:
                near[link.a_device].add(link.z_device)
                near[link.z_device].add(link.a_device)
        met, edge = set(), {next(iter(near))}
        while edge:
            met |= edge
            edge = {other for device in edge for other in near[device]} - met
        assert met == near.keys()


def test_the_same_parameters_make_the_same_version() -> None:
    """The digest is the same; another size has another."""
    assert digest(generate(SMALL)) == digest(generate(SMALL))
    assert digest(generate(SMALL)) != digest(generate(SMALL.model_copy(update={"gpus": 92})))


def test_a_fabric_of_infiniband_has_numbered_ports_and_models() -> None:
    """By the model, `collect ib` converts the waits of a switch's ports; the links are those of Ethernet."""
    made, ethernet = (
        generate(GenerateParams(gpus=64, radix=16, fabric=one, rails=4)) for one in ("infiniband", "ethernet")
    )
    assert {one.model for one in made.devices if one.kind == "switch"} == {"MQM9700"}
    assert {one.model for one in ethernet.devices} == {""}
    ports = {end.port for link in made.links for end in (link.a, link.z) if end.device.startswith("pod")}
    assert ports and all(port.isdecimal() for port in ports)
    assert [(one.a_device, one.z_device) for one in made.links] == [
        (one.a_device, one.z_device) for one in ethernet.links
    ]


def test_names_are_the_same_at_every_size() -> None:
    """A host, its NIC and its T0 keep their names when the fabric grows."""
    names = {
        Topology(generate(GenerateParams(gpus=gpus))).subject_id(Port("host-00003", "mlx5_5"))
        for gpus in (256, 4_096, 16_384)
    }
    assert names == {"link:host-00003/mlx5_5--pod-01-t0-p0-r5-01/Ethernet1/3"}


def test_jobs_run_on_adjacent_hosts() -> None:
    """There are as many jobs as requested, and each host has one; or there are none."""
    own = generate(SMALL.model_copy(update={"jobs": 5}))
    assert list(Counter(job.job for job in own.jobs).values()) == [5, 5, 5, 5, 4]
    assert [job.device for job in own.jobs] == [d.name for d in own.devices if d.kind == "host"]
    assert generate(SMALL.model_copy(update={"jobs": 0})).jobs == ()
    assert len({job.job for job in generate(GenerateParams(gpus=4_096)).jobs}) == 4


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"gpus": 100}, "100 GPUs do not fill hosts of 8"),
        ({"gpus": 80, "rails": 3}, "8 GPUs of a host cannot share 3 rails evenly"),
        ({"gpus": 80, "radix": 9}, "radix 9 is odd: more than one tier needs as many ports up as down"),
        ({"gpus": 80, "radix": 8}, "8 rails need a T0 each in a pod; radix 8 has 4 at most"),
        ({"gpus": 131_072, "radix": 64}, "131072 GPUs need more than three tiers of radix 64: 65536 at most"),
        ({"gpus": 8, "jobs": 2}, "2 jobs cannot share 1 hosts"),
    ],
)
def test_an_impossible_fabric_is_refused_in_one_line(more: dict[str, int], message: str) -> None:
    """The message names the numbers in conflict."""
    with pytest.raises(ImpossibleFabric) as caught:
        generate(GenerateParams.model_validate(more))
    assert str(caught.value) == message


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_written_folder_is_read_back(form: Literal["csv", "parquet"], tmp_path: Path) -> None:
    """As CSV or Parquet; files of the other format are removed."""
    own = generate(SMALL)
    write_folder(own, tmp_path, "parquet" if form == "csv" else "csv")
    write_folder(own, tmp_path, form)
    assert {path.suffix for path in tmp_path.iterdir()} == {f".{form}"}
    assert read_folder(tmp_path) == own


def test_a_table_without_rows_is_removed(tmp_path: Path) -> None:
    """A folder that is written again has no jobs of the previous version."""
    write_folder(generate(SMALL), tmp_path)
    write_folder(generate(SMALL.model_copy(update={"jobs": 0})), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["devices.csv", "links.csv"]
