"""Tests the sandbox of the engine's process, each right in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

from streams.embedded.sandbox import seccomp_program

PROGRAM = """
import ctypes, os, socket, subprocess, sys, threading
from pathlib import Path
from streams.embedded.sandbox import interpreter_paths, package_paths, restrict
from streams.wire.errors import Misconfigured
allowed, outside = Path(sys.argv[1]), Path(sys.argv[2])
try:
    restrict(read=[*interpreter_paths(), *package_paths("chdb")], write=[allowed])
except Misconfigured as error:
    print(error)
    sys.exit(77)
{action}
print("reached")
"""

BEHIND_THE_ENVIRONMENT = """
os.environ["TMPDIR"] = str(allowed)
libc = ctypes.CDLL(None)
environ = ctypes.POINTER(ctypes.c_void_p).in_dll(libc, "environ")
count = next(index for index in range(1 << 16) if not environ[index])
AT_SYSINFO_EHDR, no_address = 33, 0x560fbe5e7
moved = [*(environ[index] for index in range(count)), None, AT_SYSINFO_EHDR, no_address, None, None]
block = (ctypes.c_void_p * len(moved))(*moved)
ctypes.c_void_p.in_dll(libc, "environ").value = ctypes.addressof(block)
import chdb
"""
"""It moves the environment before memory that reads as an auxiliary vector, which chdb takes for its own."""


def run(folder: Path, action: str) -> str:
    """Return what the action prints last; skip where the kernel has no sandbox."""
    allowed, outside = folder / "allowed", folder / "outside"
    allowed.mkdir()
    outside.mkdir()
    (outside / "secret").write_text("secret")
    command = [sys.executable, "-c", PROGRAM.replace("{action}", action), str(allowed), str(outside)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode == 77:
        pytest.skip(done.stdout)
    assert (outside / "secret").read_text() == "secret"
    assert [path.name for path in outside.iterdir()] == ["secret"]
    return (done.stdout + done.stderr).strip().splitlines()[-1]


@pytest.mark.parametrize(
    "action",
    [
        "(outside / 'secret').read_text()",
        "(outside / 'new').write_text('x')",
        "os.truncate(outside / 'secret', 0)",
        "os.unlink(outside / 'secret')",
        "os.rename(outside / 'secret', allowed / 'secret')",
        "os.link(outside / 'secret', allowed / 'secret')",
        "(os.symlink(outside / 'secret', allowed / 'link'), (allowed / 'link').read_text())",
        "Path('/etc/passwd').read_text()",
        "Path('/proc/self/environ').read_text()",
        "Path('/proc/thread-self/root/etc/passwd').read_text()",
        "Path(f'/proc/{os.getppid()}/task/{os.getppid()}/schedstat').read_text()",
        "socket.socket()",
        "socket.socket(socket.AF_UNIX)",
        "socket.create_connection(('127.0.0.1', 1))",
        "subprocess.run(['/bin/true'])",
        "os.fork()",
        "os.execv('/bin/true', ['true'])",
        "os.kill(os.getppid(), 0)",
        "os.chown(allowed, 1, 1)",
        "os.open(allowed / 'new', os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)",
        "threading.Thread(target=lambda: (outside / 'secret').read_text()).run()",
    ],
)
def test_a_right_is_gone(tmp_path: Path, action: str) -> None:
    """Files outside, sockets, programs, children and signals fail with an error of permissions.

    A link between folders with different rights is refused as one between devices.
    """
    last = run(tmp_path, action)
    assert "PermissionError" in last or "Operation not permitted" in last or "cross-device" in last, last


@pytest.mark.parametrize(
    "action",
    [
        "(allowed / 'x').write_text('x'); os.rename(allowed / 'x', allowed / 'y'); os.unlink(allowed / 'y')",
        "socket.socketpair()",
        "one = threading.Thread(target=lambda: None); one.start(); one.join()",
        "import json, decimal, sqlite3",
        "Path('/proc/thread-self/schedstat').read_text()",
        "os.urandom(1); r, w = os.pipe(); Path(f'/dev/fd/{w}').open('wb').close()",
    ],
)
def test_what_the_engine_needs_is_left(tmp_path: Path, action: str) -> None:
    """Its own folder, threads, pipes and the interpreter's libraries."""
    assert run(tmp_path, action) == "reached"


def test_both_machines_have_a_filter() -> None:
    """Each filter begins with the check of the machine and has whole instructions."""
    for column in (0, 1):
        program = seccomp_program(column, 1)
        assert len(program) % 8 == 0
        assert program[:2] == b"\x20\x00"
    assert seccomp_program(0, 1) != seccomp_program(1, 1)
    assert len(seccomp_program(0, 1, denies_truncate=True)) == len(seccomp_program(0, 1)) + 16


def test_the_engine_loads_with_any_memory_behind_the_environment(tmp_path: Path) -> None:
    """The engine reads its auxiliary vector from /proc, not from behind an environment that has moved to the heap."""
    assert run(tmp_path, BEHIND_THE_ENVIRONMENT) == "reached"
