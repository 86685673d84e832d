"""Tests the expansion of Slurm's host lists."""

import pytest

from collectors.jobs.slurm_parse import MAX_HOSTS, expand
from streams.wire.errors import Reject


@pytest.mark.parametrize(
    ("hostlist", "hosts"),
    [
        ("", ()),
        ("h0", ("h0",)),
        ("h[0-1]", ("h0", "h1")),
        ("h[0-1,07],gpu-a1", ("h0", "h1", "h07", "gpu-a1")),
        ("n[098-101]-ib", ("n098-ib", "n099-ib", "n100-ib", "n101-ib")),
        ("r[1-2]n[01-02]", ("r1n01", "r1n02", "r2n01", "r2n02")),
    ],
)
def test_a_host_list_has_its_hosts_in_order(hostlist: str, hosts: tuple[str, ...]) -> None:
    """Leading zeros stay; several brackets are multiplied."""
    assert expand(hostlist) == hosts


@pytest.mark.parametrize("hostlist", ["h[0-", "h]", "h[3-1]", "h[a]", "h[0-99999999]", f"h[0-{MAX_HOSTS}]", "a b",
                                      "h[0-999]n[0-999]", "h[1-2-3]", ","])  # fmt: skip
def test_another_text_is_rejected(hostlist: str) -> None:
    """A list that is not readable, or too long, is no list of no hosts."""
    with pytest.raises(Reject):
        expand(hostlist)
