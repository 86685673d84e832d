"""lldpd's neighbors, in the formats of its versions."""

import asyncio
from pathlib import Path

import pytest

from collectors.host import lldp
from streams.wire.errors import Reject
from streams.wire.models import Neighbor
from tests.fixtures.lldpd_output import interface, lldp_json, program


def test_neighbours_by_netdev() -> None:
    """The port by its name; where its id is a MAC or a number, by its description."""
    data = lldp_json(
        interface("ens1np0", "leaf1", "ifname", "Ethernet12"),
        interface("ens2np0", "leaf2", "mac", "00:11:22:33:44:66", "swp5"),
        interface("ens3np0", "leaf3", "local", "17"),
        interface("ens4np0", "", "ifname", "Ethernet1"),
    )
    assert lldp.neighbors(data) == (
        Neighbor("ens1np0", "leaf1", "Ethernet12"),
        Neighbor("ens2np0", "leaf2", "swp5"),
        Neighbor("ens3np0", "leaf3", "17"),
    )


@pytest.mark.parametrize(
    "data", [b"{}", b"[]", b"null", b'{"lldp": [{}]}', b'{"lldp": 1}', b'{"lldp":[{"interface":[1]}]}']
)
def test_no_one_received_is_no_one(data: bytes) -> None:
    assert lldp.neighbors(data) == ()


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(Reject):
        lldp.neighbors(b"unable to connect to lldpd")


async def test_the_program_is_asked_for_json(tmp_path: Path) -> None:
    """In the form that does not change with the number of neighbours."""
    assert await lldp.query(program(tmp_path, 'echo "$@"'), 20) == b"-f json0 show neighbors\n"


async def test_no_program_no_lldpd_and_no_answer_are_no_neighbours(tmp_path: Path) -> None:
    """None of which is an error, or keeps anybody."""
    assert await lldp.query("", 20) is None
    assert await lldp.query(str(tmp_path / "none"), 20) is None
    assert await lldp.query(program(tmp_path, "exit 1"), 20) is None
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    assert await lldp.query(program(tmp_path, "exec sleep 60"), 0.2) is None
    assert loop.time() - began_s < 10
