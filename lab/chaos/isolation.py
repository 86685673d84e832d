"""Gives a run its own network and mounts, so that its faults affect nothing else on the machine (Linux, root)."""

import ctypes
import os
import subprocess
from pathlib import Path

from streams.wire.errors import Misconfigured

_CLONE_NEWNS, _CLONE_NEWNET = 0x00020000, 0x40000000
_BALLAST = "ballast"
_BLOCK = bytes(1 << 20)


def enter_namespaces() -> None:
    """Move this thread, and the processes and threads that it starts later, into their own namespaces.

    The namespaces have only loopback, and their mounts end with them. Raises Misconfigured if that is not possible.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS | _CLONE_NEWNET):
        raise Misconfigured(
            f"faults of network and disk need namespaces of their own ({os.strerror(ctypes.get_errno())}); run as root"
            " on Linux, or choose other faults"
        )
    run("mount", "--make-rprivate", "/")
    run("ip", "link", "set", "lo", "up")


def mount_small_disk(folder: Path, mib: int) -> None:
    """Mount an empty disk of this size in memory at a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    run("mount", "-t", "tmpfs", "-o", f"size={mib}m,mode=0700", "tmpfs", str(folder))


def unmount(folder: Path) -> None:
    """Unmount the disk at a folder."""
    run("umount", "--lazy", str(folder))


def fill(folder: Path) -> None:
    """Write to a disk until it is full."""
    with (folder / _BALLAST).open("wb", buffering=0) as file:
        try:
            while True:
                file.write(_BLOCK)
        except OSError:
            return


def empty(folder: Path) -> None:
    """Remove the file that `fill` wrote."""
    (folder / _BALLAST).unlink(missing_ok=True)


def run(*command: str, text: str = "") -> None:
    """Run a program of the system; raise Misconfigured with its output if it fails."""
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    except OSError as error:
        raise Misconfigured(f"{command[0]}: {error.strerror}; deploy/peers.sh installs it") from error
    if done.returncode:
        raise Misconfigured(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()}")
