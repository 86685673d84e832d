"""Tests the look-ups derived from an inventory, and the public ids."""

from streams.fabric.ids import Port, device_id, finding_id, link_id, port_id, remediation_id
from streams.fabric.inventory import Device, Inventory, PortName
from streams.fabric.topology import Topology
from tests.worlds.small_fabric import inventory, job, link, topology


def test_the_lower_end_comes_first_for_any_order_of_columns() -> None:
    """Hosts < T0 < T1 < T2; the subject id does not depend on the order of the columns."""
    top = topology()
    assert top.subject_id(Port("p1-l0", "d1")) == "link:p1-h1/e0--p1-l0/d1" == top.subject_id(Port("p1-h1", "e0"))
    assert top.subject_id(Port("s2", "p2-l1")) == "link:p2-l1/u1--s2/p2-l1"


def test_ends_of_one_tier_are_ordered_by_name_and_unknown_tiers_come_last() -> None:
    """Ties are ordered by device and port; a storage device is above any switch."""
    devices = [Device(name=n, kind="switch", tier=t) for n, t in (("b", "T0"), ("a", "T0"), ("z", "storage"))]
    top = Topology(
        Inventory(devices=tuple(devices), links=(link("b/1", "a/2"), link("z/1", "b/3"), link("a/9", "a/3")))
    )
    assert sorted(top.links) == ["link:a/2--b/1", "link:a/3--a/9", "link:b/3--z/1"]


def test_both_ends_of_a_link_have_the_pod_of_the_lower_end() -> None:
    """A device without a pod and an unknown device have their own name as pod."""
    top = topology()
    assert top.home_pod(Port("s1", "p2-l0")) == top.home_pod(Port("p2-l0", "u0")) == "p2"
    assert top.home_pod(Port("s1", "spare")) == "s1"
    assert top.home_pod(Port("ghost", "e1")) == "ghost"
    assert top.pods_of_links("s1") == {"s1", "p1", "p2"}
    assert top.pods_of_links("p1-l0") == {"p1"}
    assert top.pods_of_links("ghost") == {"ghost"}


def test_a_port_without_a_link_is_its_own_subject() -> None:
    """The subject is the port itself, for known and unknown devices."""
    top = topology()
    assert top.subject_id(Port("p1-l0", "spare")) == "port:p1-l0/spare"
    assert top.link_at(Port("ghost", "e1")) is None


def test_only_a_host_has_the_hosts_end_of_a_link() -> None:
    """The leaf at the other end, an uplink of a leaf and a port without a link are no host ends."""
    top = topology()
    ends = [Port("p1-h1", "e0"), Port("p1-l0", "d1"), Port("p1-l0", "u0"), Port("p1-h1", "spare")]
    assert [top.host_link_at(end) for end in ends] == [top.link_at(ends[0]), None, None, None]


def test_aliases_of_a_port_resolve_to_the_port() -> None:
    """A source may use its netdev or its RDMA device; the same alias on another device is another port."""
    top = topology(inventory(ports=[PortName(device="p1-h1", port="e0", alias="mlx5_2")]))
    assert top.resolve_port("p1-h1", "mlx5_2") == Port("p1-h1", "e0")
    assert top.resolve_port("p1-h2", "mlx5_2") == Port("p1-h2", "mlx5_2")


def test_uplinks_are_the_links_on_which_a_device_is_the_lower_end() -> None:
    """The links of a leaf to its hosts are not uplinks; a spine has none."""
    top = topology()
    assert [c.upper.device for c in top.uplinks_of["p1-l0"]] == ["s1", "s2", "s3", "s4"]
    assert len(top.links_of["p1-l0"]) == 6
    assert "s1" not in top.uplinks_of
    assert [(c.rail, c.plane) for c in top.uplinks_of["p1-h1"]] == [(0, 0), (0, 1)]


def test_a_link_without_a_plane_has_that_of_its_upper_device() -> None:
    """The plane is that of the upper switch unless the table specifies one."""
    devices = (Device(name="a", kind="host", tier="host"), Device(name="b", kind="switch", tier="T0", plane=3))
    own = Inventory(devices=devices, links=(link("a/1", "b/1", "host-link"), link("a/2", "b/2", "host-link", plane=1)))
    assert [c.plane for c in Topology(own).uplinks_of["a"]] == [3, 1]


def test_changed_jobs_share_the_fabric() -> None:
    """Jobs change without new look-ups of links, and the previous version retains its own."""
    top = topology(inventory(jobs=[job("j1", "p1-h1", "1970-01-01T00:00:00+00:00")]))
    later = top.with_jobs((job("j2", "p1-h1", "1970-01-01T00:00:00+00:00"),))
    assert (top.jobs_on(["p1-h1"], 1), later.jobs_on(["p1-h1"], 1)) == (("j1",), ("j2",))
    assert (later.digest, later.links is top.links) == (top.digest, True)


def test_ids_are_as_published() -> None:
    """These strings are in other systems and must never change."""
    assert link_id(Port("h", "e0"), Port("l", "Ethernet1/1")) == "link:h/e0--l/Ethernet1/1"
    assert (port_id(Port("h", "e0")), device_id("h")) == ("port:h/e0", "device:h")
    assert finding_id("link/flap", "link:h/e0--l/e1", "17") == "9d9819cbc505a9b1913a343c348f5523"
    assert len({finding_id("a", "bc", "d"), finding_id("ab", "c", "d"), finding_id("a", "b", "cd")}) == 3
    assert remediation_id("f", "DRAIN_LINK", 1) != remediation_id("f", "DRAIN_LINK", 2)
