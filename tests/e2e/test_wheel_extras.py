"""With the wheel and one extra in a fresh environment, every command takes its first step, or names what it needs.

Kafka and ClickHouse do not answer, and folders are empty. `pytest -s` prints the table of all commands. The long part
has the least, the most and one extra in between; `RAILSIGHT_EXTRAS=every` has each.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import metadata
from pathlib import Path

import pytest
import typer
from hatchling.builders.wheel import WheelBuilder

from streams.cli.commands import commands

EXTRAS = metadata("railsight").get_all("Provides-Extra") or []
CHOSEN = EXTRAS if os.environ.get("RAILSIGHT_EXTRAS") == "every" else ["otlp", "all"]
ROOT = Path(__file__).resolve().parents[2]
ARGUMENTS = {
    "collect": "gnmi", "explain": "abcd", "ack": "abcd", "remediations explain": "abcd", "job": "j",
    "remediations close": "abcd --because done", "approve": "abcd", "reject": "abcd", "repaired": "abcd",
    "returned": "abcd", "maintenance add": "device:a --hours 1", "maintenance end": "device:a", "record": "out",
    "exclude add": "device:a --hours 1", "exclude remove": "device:a", "kill-switch on": "--reason test",
    "export": "out --from 2026-01-01T00:00:00Z", "score": "--findings none --truth none",
    "backtest": "--out out --inventory none",
    "tune": "link/flap --per-week 1 --inventory none --from history", "inventory generate": "made --gpus 64",
    "inventory check": "none", "inventory apply": "none", "inventory draft": "made", "inventory import": "a.json made",
    "inventory export": "none out", "inventory diff": "none", "near": "h", "place": "--gpus 8",
    "topology export": "--format slurm", "init": "made --gnmi a=127.0.0.1:1 --no-read", "grafana install": "--url http://127.0.0.1:1",
    "key new": "made", "key show": "none", "key secret": "none", "key issue": "a", "up": "--run-dir run",
    "demo": "--seconds 1 --run-dir run", "chaos": "--seconds 1 --run-dir run", "bench sizing": "none",
    "bench calibration": "none", "bench fabrics": "none",
}  # fmt: skip
"""The arguments of commands that need some."""
WITHOUT_CONFIG = (
    "inventory check", "inventory import", "inventory export", "inventory generate", "score", "init", "key new",
    "key show", "key secret", "demo", "chaos", "clickhouse", "bench",
)  # fmt: skip
CONFIG = "[kafka]\nbootstrap = '127.0.0.1:1'\n[store]\nurl = 'http://127.0.0.1:1'\n[collect.gnmi]\ntargets = []\n"
SECONDS = 10
"""The time for a first step, without the time that its process waited for a processor; a command that still runs has
taken it."""
ENDS = 30
"""The least number of commands that end by themselves with a whole environment: if all still ran, none was tried."""

_RUN = """
import json, os, signal, sys, time
from streams.cli.main import main

seconds, lines = json.load(sys.stdin)

def begin(number, words):
    os.mkdir(str(number))
    child = os.fork()
    if child:
        return child
    os.setsid()
    os.chdir(str(number))
    with open("railsight.toml", "w") as file:
        file.write(os.environ["CONFIG"])
    out = os.open("out", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    for descriptor in (1, 2):
        os.dup2(out, descriptor)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    try:
        main(words)
        os._exit(0)
    except SystemExit as end:
        sys.stdout.flush()
        os._exit(end.code if isinstance(end.code, int) else 0 if end.code is None else 1)
    except BaseException:
        import traceback
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(99)

def waited_s(child):
    try:
        with open(f"/proc/{child}/schedstat") as file:
            return int(file.read().split()[1]) / 1e9
    except OSError:  # a kernel without these statistics
        return 0.0

waiting, running = list(enumerate(lines)), {}
while waiting or running:
    while waiting and len(running) < 4:
        number, words = waiting.pop(0)
        running[begin(number, words)] = number, time.monotonic() + seconds
    time.sleep(0.02)
    for child, (number, deadline) in list(running.items()):
        ended, status = os.waitpid(child, os.WNOHANG)
        if not ended and time.monotonic() < deadline + waited_s(child):
            continue
        if not ended:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
        del running[child]
        with open(os.path.join(str(number), "out"), errors="replace") as file:
            line = [" ".join(lines[number]), os.waitstatus_to_exitcode(status) if ended else None, file.read()]
        print(json.dumps(line), flush=True)
"""


@cache
def command_lines() -> list[list[str]]:
    """Return the words of every command and subcommand."""

    def leaves(words: list[str], group: object) -> Iterator[list[str]]:
        for name, command in getattr(group, "commands", {}).items():
            yield from leaves([*words, name], command)
        if not hasattr(group, "commands"):
            yield words

    return [
        words
        for command in commands()
        for target in [command.load()]
        for words in leaves(
            [command.name], typer.main.get_command(target) if isinstance(target, typer.Typer) else target
        )
    ]


def first_steps() -> list[list[str]]:
    """Return the command line of each command."""
    lines = []
    for words in command_lines():
        name = " ".join(words)
        config = [] if name.startswith(WITHOUT_CONFIG) else ["--config", "railsight.toml"]
        lines.append([*words, *ARGUMENTS.get(name, "").split(), *config])
    return lines


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel."""
    return Path(next(WheelBuilder(str(ROOT)).build(directory=str(tmp_path_factory.mktemp("wheel")))))


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("extra", ["", *CHOSEN], ids=lambda own: own or "none")
def test_every_command_takes_its_first_step_or_names_what_it_needs(extra: str, wheel: Path, tmp_path: Path) -> None:
    """No command ends in a traceback; a refusal is one line, and a missing extra none that is installed."""
    uv, python = Path(sys.executable).with_name("uv"), tmp_path / "venv/bin/python"
    subprocess.run([uv, "venv", "-q", "-p", sys.executable, tmp_path / "venv"], check=True, timeout=60)
    wanted = f"railsight{f'[{extra}]' if extra else ''} @ {wheel.as_uri()}"
    install: list[str | Path] = [uv, "pip", "install", "-q", "-p", python, wanted]
    done = subprocess.run(install, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode:
        assert "failed to fetch" in done.stderr.lower() or "connect" in done.stderr.lower(), done.stderr
        pytest.skip("the packages are not in uv's cache, and their index cannot be reached")
    ran = subprocess.run(
        [python, "-c", _RUN], input=json.dumps([SECONDS, first_steps()]), cwd=tmp_path, check=True,
        capture_output=True, text=True, timeout=1500, env={"HOME": str(tmp_path), "CONFIG": CONFIG, "COLUMNS": "400"},
    )  # fmt: skip
    rows = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(rows) == len(command_lines()) > 70
    assert extra != "all" or sum(code is not None for _, code, _ in rows) >= ENDS
    for line, code, out in rows:
        text = out.strip().splitlines() or [""]
        sys.stdout.write(f"{extra or 'none':<12}{line[:60]:<62}{'runs' if code is None else code}  {text[-1][:200]}\n")
    for line, code, out in rows:
        assert code in (None, 0, 1, 2) and "Traceback" not in out and "ModuleNotFound" not in out, (line, code, out)
        if "is not installed" in out:
            assert code == 2 and len(out.splitlines()) == 1, (line, out)
            assert not extra or f"'railsight[{extra}]'" not in out.split(",")[0], (line, out)
            assert extra != "all", (line, out)
