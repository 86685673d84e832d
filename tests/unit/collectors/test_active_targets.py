"""The roster: who is read now, as targets and shards come and go."""

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

from collectors.core.active_targets import ActiveTargets
from streams.wire.topics import partition_of
from tests.fakes import loop

SHARDS = 4
NAMES = [f"leaf{number}" for number in range(20)]


class Reads:
    """What reads the targets, and how often each was begun."""

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


def played(roster: ActiveTargets[tuple[str, str]], reads: Reads, *steps: Callable[[], None]) -> None:
    """Run the roster, and a step a second."""

    async def work() -> None:
        running = asyncio.create_task(roster.run(reads.read))
        for step in steps:
            await asyncio.sleep(1)
            step()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    loop.run(work())


def targets(*names: str, how: str = "") -> dict[str, tuple[str, str]]:
    return {name: (name, how) for name in names}


def test_targets_that_come_go_and_change_are_followed_and_the_others_left_alone() -> None:
    """One that changed is left before it is read anew; the end leaves all."""
    roster, reads = ActiveTargets[tuple[str, str]](), Reads()
    roster.configure(targets("a", "b", "c"))

    def change() -> None:
        assert reads.now == {"a": "", "b": "", "c": ""}
        roster.configure(targets("a", "d") | targets("b", how="otherwise"))

    def changed() -> None:
        assert reads.now == {"a": "", "b": "otherwise", "d": ""}
        assert reads.begun == {"a": 1, "b": 2, "c": 1, "d": 1}

    played(roster, reads, change, changed)
    assert reads.now == {}


def test_only_targets_of_our_shards_are_read() -> None:
    """None before there is a shard; each is one member's, whatever the members have between them."""
    for owned in ((), (0, 1), (1, 3), (0, 1, 2, 3)):
        for shards in (frozenset(owned), frozenset(range(SHARDS)) - set(owned)):
            roster, reads = ActiveTargets[tuple[str, str]](SHARDS), Reads()
            roster.configure(targets(*NAMES))

            def none_yet(
                roster: ActiveTargets[tuple[str, str]] = roster, reads: Reads = reads, to: frozenset[int] = shards
            ) -> None:
                assert reads.now == {}
                roster.assign(to)

            def ours(reads: Reads = reads, shards: frozenset[int] = shards) -> None:
                assert set(reads.now) == {name for name in NAMES if partition_of(name, SHARDS) in shards}

            played(roster, reads, none_yet, ours)


def test_a_reading_that_fails_ends_the_rest() -> None:
    """What it raises is raised, and nothing is left running."""
    roster, reads = ActiveTargets[tuple[str, str]](), Reads()
    reads.fails = "b"
    roster.configure(targets("a", "b"))
    with pytest.raises(ValueError, match="b"):
        loop.run(roster.run(reads.read))
    assert reads.now == {}
