"""The active targets follow the configuration and the assigned shards."""

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

from collectors.core.targets import ActiveTargets
from streams.wire.topics import partition_of
from tests.fakes import loop

SHARDS = 4
NAMES = [f"leaf{number}" for number in range(20)]


class Reads:
    """Reads the targets, and counts the starts of each."""

    def __init__(self) -> None:
        self.now: dict[str, str] = {}
        self.begun: Counter[str] = Counter()
        self.fails = ""

    async def read(self, target: tuple[str, str]) -> None:
        name, how = target
        assert name not in self.now, "read twice at once"
        self.begun[name] += 1
        self.now[name] = how
        try:
            if name == self.fails:
                raise ValueError(name)
            await asyncio.Event().wait()
        finally:
            del self.now[name]


def played(active: ActiveTargets[tuple[str, str]], reads: Reads, *steps: Callable[[], None]) -> None:
    """Run the active targets, and one step per second."""

    async def work() -> None:
        running = asyncio.create_task(active.run(reads.read))
        for step in steps:
            await asyncio.sleep(1)
            step()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    loop.run(work())


def targets(*names: str, how: str = "") -> dict[str, tuple[str, str]]:
    return {name: (name, how) for name in names}


def test_targets_are_added_removed_and_changed_without_affecting_others() -> None:
    """A changed one is stopped before it is started again; the end stops all."""
    active, reads = ActiveTargets[tuple[str, str]](), Reads()
    active.configure(targets("a", "b", "c"))

    def change() -> None:
        assert reads.now == {"a": "", "b": "", "c": ""}
        active.configure(targets("a", "d") | targets("b", how="otherwise"))

    def changed() -> None:
        assert reads.now == {"a": "", "b": "otherwise", "d": ""}
        assert reads.begun == {"a": 1, "b": 2, "c": 1, "d": 1}

    played(active, reads, change, changed)
    assert reads.now == {}


def test_only_targets_of_assigned_shards_are_read() -> None:
    """None without a shard; each target has one reader, however the shards are divided."""
    for owned in ((), (0, 1), (1, 3), (0, 1, 2, 3)):
        for shards in (frozenset(owned), frozenset(range(SHARDS)) - set(owned)):
            active, reads = ActiveTargets[tuple[str, str]](SHARDS), Reads()
            active.configure(targets(*NAMES))

            def none_yet(
                active: ActiveTargets[tuple[str, str]] = active, reads: Reads = reads, to: frozenset[int] = shards
            ) -> None:
                assert reads.now == {}
                active.assign(to)

            def ours(reads: Reads = reads, shards: frozenset[int] = shards) -> None:
                assert set(reads.now) == {name for name in NAMES if partition_of(name, SHARDS) in shards}

            played(active, reads, none_yet, ours)


def test_a_reading_that_fails_ends_the_others() -> None:
    """Its exception is raised, and no task is left running."""
    active, reads = ActiveTargets[tuple[str, str]](), Reads()
    reads.fails = "b"
    active.configure(targets("a", "b"))
    with pytest.raises(ValueError, match="b"):
        loop.run(active.run(reads.read))
    assert reads.now == {}
