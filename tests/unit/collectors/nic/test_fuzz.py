"""Two thousand sysfs files of any content: no crash, no stall, every refusal counted."""

import random
import re
import shutil
import time
from pathlib import Path

from collectors.kernel import signals
from tests.fixtures.malformed_files import content, spoil
from tests.fixtures.nic_tree import CARD, NET, PORT, STATISTICS, rows, whole, write

FILES = 10_000
BOUND_S = 2.0
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


def is_refused(data: bytes) -> bool:
    """Return whether a counter's file must be refused: neither a 64-bit number nor a documented absence."""
    text = data[:4096].strip()
    return not (re.fullmatch(rb"[0-9]{1,20}", text) and int(text) < 2**64) and not text.startswith(b"N/A")


async def test_every_refusal_is_counted_once(tmp_path: Path) -> None:
    """Contents of counters: each that is no counter is one refusal, and its value is absent."""
    rng = random.Random(20261121)
    write(tmp_path, WIDE)
    reader = whole(tmp_path)
    await reader.host.read_once()
    known = {f"{PORT}/counters/{name}": signal for name, signal in signals.COUNTERS.items()}
    known |= {f"{PORT}/hw_counters/{name}": signals.HW_COUNTERS[name] for name in HW}
    files = {tmp_path / path: signal.metric.name.lower() for path, signal in known.items()}
    refused = given = 0
    while given < FILES:
        wrong = set()
        for file, metric in files.items():
            file.write_bytes(data := content(rng))
            wrong |= {metric} if is_refused(data) else set()
            given += 1
        refused += len(wrong)
        assert not wrong & set(rows(await reader.host.read_once())["mlx5_0"])
    assert reader.metrics.value("unreadable") == refused > FILES / 4


async def test_whatever_a_tree_holds_the_reading_goes_on(tmp_path: Path) -> None:
    """Words, bytes, folders, pipes and links onto themselves in place of files, of states and names as of counters."""
    rng = random.Random(20261122)
    spoilt = 0
    while spoilt < FILES:
        root = tmp_path / str(spoilt)
        write(root, WIDE | {STATISTICS: "NIC statistics:\n  rx_bytes_phy: 1\n"})
        reader = whole(root)
        await reader.host.read_once()
        for _ in range(2):
            for path in rng.sample(list(WIDE), len(WIDE) - 3):
                spoil(root / path, rng)
                spoilt += 1
            (root / STATISTICS).write_bytes(b"".join(content(rng) + b": " + content(rng) for _ in range(5)))
            fresh = whole(root)  # a collector that starts on the spoilt tree
            for one in (reader, fresh):
                began = time.perf_counter()
                rows(await one.host.read_once())
                assert time.perf_counter() - began < BOUND_S
            fresh.host.close()
        reader.host.close()
        shutil.rmtree(root)
