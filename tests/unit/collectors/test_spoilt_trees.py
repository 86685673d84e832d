"""Thousands of sysfs files of any content: no crash, no stall, and every refusal of a value is counted.

tests/fuzz has the parsers of single files and lines.
"""

import random
import re
import shutil
import time
from collections.abc import Awaitable
from pathlib import Path

from collectors.kernel import signals
from tests.fixtures import host_agent, host_tree, nic_tree
from tests.fixtures.malformed_files import content, spoil
from tests.fixtures.nic_tree import CARD, NET, PORT, STATISTICS, rows, write

FILES = 10_000
BOUND_S = 5.0
"""For a reading that takes a few milliseconds: a stall, not a busy machine."""
OTHERS = {signal.metric for signal in signals.COUNTERS.values()}
HW = list({s.metric: name for name, s in reversed(signals.HW_COUNTERS.items()) if s.metric not in OTHERS}.values())
"""One name a metric, which no file of `counters` has: the first of the table, which are mlx5's."""
WIDE = (
    CARD
    | {f"{PORT}/counters/{name}": "1" for name in signals.COUNTERS}
    | {f"{PORT}/hw_counters/{name}": "1" for name in HW}
    | {f"{NET}/statistics/{name}": "1" for name in signals.STATISTICS}
    | {f"{PORT}/hw_counters/lifespan": "0"}
)
"""A port with every file that is known."""


async def in_time(*readings: Awaitable[object]) -> None:
    """Wait for each of these readings; none may stall."""
    for reading in readings:
        began = time.perf_counter()
        await reading
        assert time.perf_counter() - began < BOUND_S


async def test_every_refused_counter_is_counted_once(tmp_path: Path) -> None:
    """Contents that are neither a 64-bit number nor a documented absence are one refusal; their value is absent."""
    rng = random.Random(20261121)
    write(tmp_path, WIDE)
    reader = nic_tree.whole(tmp_path)
    await reader.host.read_once()
    known = {f"{PORT}/counters/{name}": signal for name, signal in signals.COUNTERS.items()}
    known |= {f"{PORT}/hw_counters/{name}": signals.HW_COUNTERS[name] for name in HW}
    refused = given = 0
    while given < FILES:
        wrong = set()
        for path, signal in known.items():
            (tmp_path / path).write_bytes(data := content(rng))
            text = data[:4096].strip()
            is_number = re.fullmatch(rb"[0-9]{1,20}", text) and int(text) < 2**64
            wrong |= set() if is_number or text.startswith(b"N/A") else {signal.metric.name.lower()}
            given += 1
        refused += len(wrong)
        assert not wrong & set(rows(await reader.host.read_once())["mlx5_0"])
    assert reader.metrics.value("unreadable") == refused > FILES / 4


async def test_the_nic_collector_reads_on_whatever_a_tree_holds(tmp_path: Path) -> None:
    """Words, bytes, folders, pipes and links onto themselves in place of files, of states and names as of counters."""
    rng = random.Random(20261122)
    for spoilt in range(0, FILES, 2 * len(WIDE)):
        root = tmp_path / str(spoilt)
        write(root, WIDE | {STATISTICS: "NIC statistics:\n  rx_bytes_phy: 1\n"})
        reader = nic_tree.whole(root)
        await reader.host.read_once()
        for _ in range(2):
            for path in rng.sample(list(WIDE), len(WIDE) - 3):
                spoil(root / path, rng)
            (root / STATISTICS).write_bytes(b"".join(content(rng) + b": " + content(rng) for _ in range(5)))
            fresh = nic_tree.whole(root)  # a collector that starts on the spoilt tree
            await in_time(reader.host.read_once(), fresh.host.read_once())
            fresh.host.close()
        reader.host.close()
        shutil.rmtree(root)


async def test_the_host_agent_reads_on_whatever_a_tree_holds(tmp_path: Path) -> None:
    """It searches for its parts again, and an agent starts on the spoilt tree."""
    rng = random.Random(20261123)
    count = 0
    while count < FILES:
        root = host_tree.machine(tmp_path / str(count))
        files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
        found = host_agent.whole(root, discover_every_s=1)
        await found.agent.read_once()
        for _ in range(8):
            for path in rng.sample(files, len(files) - 5):
                spoil(path, rng)
                count += 1
            await in_time(found.agent.find(), found.agent.read_once())
        await host_agent.whole(root).agent.read_once()
        shutil.rmtree(root)
