"""Two workers of the released version are replaced one after the other: old and new share the partitions meanwhile."""

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from lab.chaos import run
from lab.chaos.faults import FAULTS
from lab.chaos.run import ChaosSession
from lab.chaos.scene import NOTHING, Fault, Scene
from lab.chaos.stack import CONSTANTS, POD_PARTITIONS, TELEMETRY_PARTITIONS, WORKERS, ChaosParams, Stack
from lab.constants import command_with
from streams.runtime.local_pipeline import railsight_command

RELEASED = "2937299e"
"""The last commit of version 0.1.0."""
_ROOT = Path(__file__).parents[2]
_OLD_SETTINGS = """\
[detect]
lateness_s = 10
[detect.down]
open_after_s = 4
hold_up_s = 2
[detect.flap]
presets = ["switch-errdisable"]
[runtime]
session_s = 6
snapshot_s = 1
quiet_snapshot_s = 3
"""


@pytest.fixture
def released(tmp_path: Path) -> Iterator[Path]:
    """Check the released version out, and remove it again."""
    tree = tmp_path / "released"
    done = _git("worktree", "add", "--detach", str(tree), RELEASED)
    if done.returncode:
        pytest.skip(f"needs a full clone with the released version: {done.stderr.strip()}")
    yield tree
    _git("worktree", "remove", "--force", str(tree))


def _git(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["git", "-C", str(_ROOT), *arguments], capture_output=True, text=True, check=False)


async def _upgrade(name: str, scene: Scene) -> None:
    stack = scene.stack
    part = stack.parts[name]
    process, part.process = part.process, None
    assert process is not None
    await asyncio.to_thread(process.stop)
    part.command = command_with(CONSTANTS, "process", "--config", str(stack.folder / "railsight.toml"))
    part.start()


UPGRADED = Fault(
    "workers-upgraded", "worker", partial(_upgrade, WORKERS[0]), partial(_upgrade, WORKERS[1]), (15.0, 20.0)
)
"""Replaces one worker by the present version, and the other one when the first has run beside it for a while."""


@pytest.mark.timeout(900)
async def test_old_and_new_workers_side_by_side_lose_and_repeat_nothing(
    released: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages, snapshots and the group's assignment of 0.1 are those that the present version goes on with."""

    class ReleasedWorkers(Stack):
        def _add(self, name: str, command: tuple[str, ...]) -> None:
            if name in WORKERS:
                config = self.folder / "released.toml"
                config.write_text(
                    f'[kafka]\nbootstrap = "{self.kafka.bootstrap}"\ntelemetry_partitions = {TELEMETRY_PARTITIONS}\n'
                    f"pod_partitions = {POD_PARTITIONS}\nreplication = 1\n{_OLD_SETTINGS}"
                    f'data = "{self.folder}/faust"\n',
                    encoding="utf-8",
                )
                environment = (shutil.which("env") or "env", "-C", str(released), f"PYTHONPATH={released}")
                command = (*environment, *railsight_command("process", "--config", str(config)))
            super()._add(name, command)

    monkeypatch.setattr(run, "Stack", ReleasedWorkers)
    monkeypatch.setitem(FAULTS, UPGRADED.name, UPGRADED)
    folder = tmp_path / "run"
    folder.mkdir()
    async with ChaosSession.started(folder, 1, NOTHING, print) as session:
        report = await session.run(ChaosParams(1, (UPGRADED.name,), 1))
    assert report.is_passed, "\n".join(report.lines())
    assert report.acknowledged > 500
    assert not [log.name for log in folder.glob("worker-*.log") if "not readable" in log.read_text(errors="replace")]
