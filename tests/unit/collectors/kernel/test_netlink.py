"""Netlink: requests and answers, and the netdevs of RDMA ports."""

import errno
import random
import struct
from collections.abc import Iterable
from pathlib import Path

import pytest

from collectors.kernel.discover import Discovery
from collectors.kernel.netlink import GENERIC, Netlink, attribute, attributes, numbers, text
from collectors.kernel.rdma_links import NONE, RdmaLinks, read_links
from collectors.kernel.tree import Tree
from streams.wire.errors import Reject
from tests.fixtures.netlink_messages import FakeKernel, answers, nest, netlink

GET, PORT_GET = 5 << 10 | 1, 5 << 10 | 5


def test_attributes_are_aligned_and_malformed_ones_are_refused() -> None:
    """A nested attribute has a flag in its kind; padding follows each."""
    data = attribute(1, b"abc") + attribute(0x8002, struct.pack("=QQ", 7, 8))
    (first, name), (second, values) = attributes(data)
    assert (first, name, second, numbers(values)) == (1, b"abc", 2, [7, 8])
    assert text(b"ens1\0junk") == "ens1"
    for broken in (data[:10], struct.pack("=HH", 3, 1), struct.pack("=HH", 9, 1) + b"abcd"):
        with pytest.raises(Reject):
            list(attributes(broken))


def test_answers_of_others_and_to_earlier_requests_are_ignored() -> None:
    """Another process may write to the socket, and the answer to a request that timed out may come late."""
    foreign = struct.pack("=IHHII", 20, 21, 0, 1, 0) + b"none"
    late = struct.pack("=IHHII", 20, 21, 0, 77, 0) + b"late"
    link = netlink(FakeKernel(lambda _, body: [body], [(foreign, 999), (late, 0)]))
    assert link.request(21, b"mine") == [b"mine"]


@pytest.mark.parametrize("is_dump", [False, True])
def test_an_error_of_the_kernel_is_raised(is_dump: bool) -> None:
    """Also one that ends a dump; and a kernel that does not answer is a timeout."""

    def refuse(kind: int, body: bytes) -> Iterable[bytes]:
        raise OSError(errno.EOPNOTSUPP, "")

    with pytest.raises(OSError, match="not supported"):
        netlink(FakeKernel(refuse)).request(21, b"", is_dump=is_dump)


def test_junk_is_refused() -> None:
    """Whatever the socket yields, a request ends with an answer, Reject or OSError."""
    rng = random.Random(20261128)
    for _ in range(2000):
        junk = struct.pack("=IHHII", rng.randrange(64), rng.randrange(24), 0, 1, 0) + rng.randbytes(rng.randrange(64))
        try:
            for body in netlink(FakeKernel(answers(), [(junk, 0)])).request(21, b""):
                list(attributes(body))
        except (Reject, OSError):
            continue


def test_the_real_kernel_answers() -> None:
    """It names the family of its controller."""
    link = Netlink(GENERIC, 5.0)
    try:
        (answer,) = link.request(0x10, struct.pack("=BBH", 3, 1, 0) + nest((2, "nlctrl")))
        assert {kind: text(data) for kind, data in attributes(answer[4:]) if kind == 2} == {2: "nlctrl"}
        with pytest.raises(FileNotFoundError):
            link.request(0x10, struct.pack("=BBH", 3, 1, 0) + nest((2, "no such family")))
    finally:
        link.close()


def rdma(kind: int, body: bytes) -> Iterable[bytes]:
    """Answer as a kernel with a card of planes, an SMI device and a device that is removed meanwhile."""
    if kind == GET:
        return [nest((1, 0), (2, "mlx5_0"), (99, bytes([0]))), nest((1, 1), (2, "smi_0"), (99, bytes([1]))),
                nest((1, 2), (2, "mlx5_9")), nest((2, "nameless"))]  # fmt: skip
    index = struct.unpack_from("=I", body, 4)[0]
    if index:
        raise OSError(errno.ENODEV, "")
    return [nest((1, 0), (2, "mlx5_0"), (3, port), (12, bytes([4])), *([(51, f"eth_r0_p{port // 3 - 1}")]
                 if port % 3 == 0 else [])) for port in range(1, 7)]  # fmt: skip


def test_rdma_reports_the_netdev_of_each_port() -> None:
    """Ports without one are representors; a device that is removed meanwhile costs only itself."""
    kernel = FakeKernel(rdma)
    assert read_links(lambda: netlink(kernel)) == RdmaLinks(
        {("mlx5_0", 3): "eth_r0_p0", ("mlx5_0", 6): "eth_r0_p1"}, frozenset({"smi_0"})
    )
    assert kernel.is_closed


def test_a_kernel_without_the_family_leaves_it_to_sysfs() -> None:
    """No socket opens, or it refuses or answers with junk."""

    def missing() -> Netlink:
        raise OSError(errno.EPROTONOSUPPORT, "")

    assert read_links(missing) == NONE
    assert read_links(lambda: netlink(FakeKernel(answers(b"\xff\xff\0\0")))) == NONE


def test_netlink_precedes_sysfs(tmp_path: Path) -> None:
    """Without a GID sysfs has no netdev; an SMI device has any name."""
    for name, port in (("mlx5_0", 1), ("mlx5_0", 2), ("plane", 1)):
        (tmp_path / f"sys/class/infiniband/{name}/ports/{port}").mkdir(parents=True)
    for name in ("ens1", "ens2"):
        (tmp_path / f"sys/class/net/{name}").mkdir(parents=True)
        (tmp_path / f"sys/class/net/{name}/type").write_text("1")
    links = RdmaLinks({("mlx5_0", 1): "ens2", ("mlx5_0", 2): "ens1"}, frozenset({"plane"}))
    found = Discovery(Tree(tmp_path), (), 10, lambda: links).ports()
    assert {(port.rdma, port.number, port.netdev) for port in found} == {("mlx5_0", 1, "ens2"), ("mlx5_0", 2, "ens1")}
