"""Runs the steps of a page in a folder, with an environment that has nothing but a path and a home."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.documented.steps import Step

STEP_S = 2400.0
"""The limit of one command: the first of the README installs the environment, 14 min on two cores with a load of 50."""


_OUTPUT_BYTES = 2000
"""The end of a command's output that a failure prints."""


class Failed(Exception):
    """A command of a page failed or did not end; the message has the page's line, the command and its last output."""


class Reader:
    """A reader of a page, who types its commands in a folder. Ends the background commands at the exit."""

    def __init__(
        self, folder: Path, programs: Path | None, print_line: Callable[[str], None], limit_s: float = STEP_S
    ) -> None:
        self._folder = folder
        self._limit_s = limit_s
        self._print = print_line
        home = folder / "home"
        home.mkdir(exist_ok=True)
        path = os.environ.get("PATH", os.defpath)
        self._environ = {
            "PATH": path if programs is None else f"{programs}:{path}",
            "HOME": str(home), "LANG": "C.UTF-8", "TERM": "dumb", "PYTHONUNBUFFERED": "1",
        }  # fmt: skip
        self._background: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._background:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in self._background:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def follow(self, steps: Iterable[Step]) -> None:
        """Take the steps in their order; raises Failed at the first that fails."""
        for step in steps:
            begin = time.monotonic()
            match step.kind:
                case "file":
                    path = self._folder / step.argument
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(step.text)
                case "background":
                    self._background.append(self._start(step))
                case "run":
                    self._run(step, 0.0)
                case "wait":
                    self._run(step, float(step.argument))
            first = step.text.strip().partition("\n")[0]
            self._print(
                f"line {step.line:4} {step.kind:10} {time.monotonic() - begin:6.1f} s  {step.argument or first}"
            )

    def _start(self, step: Step) -> subprocess.Popen[bytes]:
        """Start a command in a session of its own; its output is in `_log(step)`."""
        begin = "exec " if step.kind == "background" else ""
        with self._log(step).open("wb") as log:
            return subprocess.Popen(
                ["bash", "-e", "-o", "pipefail", "-c", begin + step.text.strip()], cwd=self._folder, env=self._environ,
                stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip

    def _run(self, step: Step, wait_s: float) -> None:
        end = time.monotonic() + wait_s
        while True:
            process = self._start(step)
            try:
                code = process.wait(self._limit_s)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise self._failed(step, f"not over after {self._limit_s:g} s:") from None
            if code == 0:
                return
            if time.monotonic() >= end:
                raise self._failed(step, f"exit code {code} of")
            time.sleep(1)

    def _log(self, step: Step) -> Path:
        return self._folder / f"line-{step.line}.log"

    def _failed(self, step: Step, what: str) -> Failed:
        output = self._log(step).read_bytes()[-_OUTPUT_BYTES:].decode(errors="replace")
        return Failed(f"line {step.line}: {what}\n{step.text}its last output:\n{output}")
