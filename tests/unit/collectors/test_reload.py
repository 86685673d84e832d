"""Settings that change while a collector runs: applied, or refused."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from collectors.core.metrics import CollectorMetrics
from collectors.core.params import Core, TargetParams
from collectors.core.reload import reloads
from streams.wire.errors import Misconfigured
from tests.fixtures.waiting import until


class Params(TargetParams):
    """Settings with a file of their own."""

    targets_file: Path = Path("none")
    word: str = ""

    def files(self) -> tuple[Path, ...]:
        return (self.targets_file,)


class Watched:
    """A configuration file, a file that it names, and the applied settings."""

    def __init__(self, folder: Path) -> None:
        self.configuration, self.targets = folder / "railsight.toml", folder / "targets.json"
        self.configuration.write_text("one")
        self.targets.write_text("[]")
        self.applied: list[tuple[str, str]] = []
        self.metrics = CollectorMetrics()

    def load(self) -> Params:
        word = self.configuration.read_text()
        if word == "wrong":
            raise Misconfigured("collect.x: word: wrong")
        return Params(targets_file=self.targets, word=word)

    def apply(self, params: Params) -> None:
        targets = self.targets.read_text() if self.targets.exists() else "wrong"
        if targets == "wrong":
            raise Misconfigured("targets: wrong")
        self.applied.append((params.word, targets))


@asynccontextmanager
async def watching(folder: Path) -> AsyncIterator[Watched]:
    watched = Watched(folder)
    core = Core(reload_settings=watched.load, configuration=(watched.configuration,))
    work = asyncio.create_task(reloads(watched.load(), core, watched.metrics, watched.apply, check_interval_s=0.02))
    await asyncio.sleep(0)  # it has checked once
    try:
        yield watched
    finally:
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work


def replace(path: Path, text: str) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.replace(path)


async def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    """The configuration, or a file that it names; overwritten or replaced; once for each change."""
    async with watching(tmp_path) as now:
        replace(now.configuration, "two")
        await until(lambda: now.applied == [("two", "[]")])
        replace(now.targets, "[1]")
        await until(lambda: now.applied == [("two", "[]"), ("two", "[1]")])
        await asyncio.sleep(0.1)  # several checks pass
        assert len(now.applied) == now.metrics.value("reloads") == 2


async def test_sighup_reloads(tmp_path: Path) -> None:
    async with watching(tmp_path) as now:
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: now.applied == [("one", "[]")])


async def test_invalid_settings_leave_the_old_in_force(tmp_path: Path) -> None:
    """They are counted, once; corrected, they are applied."""
    async with watching(tmp_path) as now:
        for wrong in (now.configuration, now.targets):
            before = now.metrics.value("reload_refused")
            right = wrong.read_text()
            replace(wrong, "wrong")
            await until(lambda before=before: now.metrics.value("reload_refused") > before)  # type: ignore[misc]
            await asyncio.sleep(0.1)  # several checks pass
            assert now.metrics.value("reload_refused") == before + 1
            replace(wrong, right)
            await until(lambda before=before: now.metrics.value("reloads") > before)  # type: ignore[misc]
        assert now.applied == [("one", "[]")] * 2


async def test_a_file_that_is_missing_for_a_moment_ends_nothing(tmp_path: Path) -> None:
    """Some editors and tools remove a file before they write it."""
    async with watching(tmp_path) as now:
        now.targets.rename(tmp_path / "away")
        await asyncio.sleep(0.1)
        (tmp_path / "away").rename(now.targets)
        replace(now.configuration, "two")
        await until(lambda: bool(now.applied) and now.applied[-1] == ("two", "[]"))
