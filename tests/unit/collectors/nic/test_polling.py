"""A card that hangs is left to itself, and costs the others one deadline, once."""

import threading
from pathlib import Path

from collectors.kernel.ports import Port
from collectors.kernel.tree import Tree
from collectors.nic.polling import PollRounds
from collectors.nic.reading import PortReader, PortReading
from tests.fixtures.nic_tree import SetClock, write


class BlockingSource:
    """An ethtool source that does not answer until it is let."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self.asked = 0
        self.closed = 0

    def read(self) -> None:
        self.asked += 1
        assert self.free.wait(20)

    def close(self) -> None:
        self.closed += 1


def reader(root: Path, netdev: str, source: BlockingSource) -> PortReader:
    write(root, {f"sys/class/net/{netdev}/operstate": "up"})
    return PortReader(Tree(root), Port(netdev=netdev), source, SetClock())


async def test_one_card_that_hangs_harms_no_other(tmp_path: Path) -> None:
    """The others are read in the same round; later rounds do not wait for it, and it is read again once it is back."""
    active, quick = BlockingSource(), BlockingSource()
    quick.free.set()
    ports = [reader(tmp_path, "a", quick), reader(tmp_path, "b", active), reader(tmp_path, "c", quick)]
    rounds: PollRounds[PortReading] = PollRounds(deadline_s=0.2)
    found = await rounds.read(ports)
    assert sorted(ports[n].port.identity for n in (0, 2)) == sorted(found)
    assert rounds.hung == {"b"}
    for _ in range(3):
        assert len(await rounds.read(ports)) == 2
    assert active.asked == 1
    active.free.set()
    found = {}
    for _ in range(1000):
        if len(found := await rounds.read(ports)) == 3:
            break
    assert len(found) == 3 and not rounds.hung
