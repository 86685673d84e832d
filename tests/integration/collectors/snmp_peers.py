"""Provides the programs that the SNMP tests use: snmpsim with the recordings, and net-snmp's clients."""

import asyncio
import bz2
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fixtures.ports import free_port
from tests.recordings import DATA

RECORDINGS = ("arista-dcs-7150s-52-cl", "hpe-procurve-516733-b21")
USER, AUTH_SECRET, PRIVACY_SECRET = "rail", "authentic-secret", "private-secret"


def program(name: str) -> str:
    """Return the program's path; skip if it is not installed, fail in CI."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        result = f"{name} is not installed"
        assert os.environ.get("CI") != "true", result
        pytest.skip(result)
    return found


def _write_sorted(packed: Path, folder: Path) -> None:
    """Write a recording in the order of its OIDs, because an unordered one would end a walk early."""
    lines = bz2.decompress(packed.read_bytes()).decode("utf-8", "surrogateescape").split("\n")
    whole = [line for line in lines if line.count("|") >= 2]
    whole.sort(key=lambda line: tuple(int(part) for part in line.partition("|")[0].split(".")))
    text = "\n".join(whole) + "\n"
    (folder / packed.name.removesuffix(".bz2")).write_text(text, encoding="utf-8", errors="surrogateescape")


@contextmanager
def snmpsim(folder: Path, *, all_walks: bool = False) -> Iterator[int]:
    """Serve the two recordings of RECORDINGS, or all, with the file's name as community or context; yield the port."""
    responder = program("snmpsim-command-responder")
    packed = sorted((DATA / "snmp").glob("**/*.snmprec.bz2" if all_walks else "*.snmprec.bz2"))
    if not packed:
        pytest.skip(f"no recordings in {DATA / 'snmp'}")
    (folder / "data").mkdir()
    for one in packed:
        _write_sorted(one, folder / "data")
    port = free_port(socket.SOCK_DGRAM)
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [
                responder, "--process-user=root", "--process-group=root", f"--data-dir={folder / 'data'}",
                f"--cache-dir={folder / 'cache'}", f"--agent-udpv4-endpoint=127.0.0.1:{port}", f"--v3-user={USER}",
                f"--v3-auth-key={AUTH_SECRET}", "--v3-auth-proto=SHA256", f"--v3-priv-key={PRIVACY_SECRET}",
                "--v3-priv-proto=AES",
            ],
            stdout=log, stderr=log,
        )  # fmt: skip
        try:
            _wait_for(port, process)
            yield port
        finally:
            process.terminate()
            process.wait(10)


def _wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    """Wait until snmpsim responds; it indexes the recordings first, which takes some seconds."""
    for _ in range(180):
        assert process.poll() is None, "snmpsim ended"
        asked = [program("snmpget"), "-v2c", "-c", RECORDINGS[0], "-t", "1", "-r", "0", "-m", ""]
        asked += [f"127.0.0.1:{port}", "1.3.6.1.2.1.1.3.0"]
        if subprocess.run(asked, capture_output=True, check=False).returncode == 0:
            return
    raise AssertionError("snmpsim does not answer")


def walk(port: int, community: str, column: str) -> dict[str, str]:
    """Return net-snmp's reading of a column: its printed values, by the rest of the OID."""
    command = [program("snmpbulkwalk"), "-v2c", "-c", community, "-m", "", "-Onqte", "-Cr25", "-t", "5"]
    result = subprocess.run([*command, f"127.0.0.1:{port}", column], capture_output=True, check=True)
    found: dict[str, str] = {}
    for line in result.stdout.decode("utf-8", "replace").splitlines():
        name, _, value = line.partition(" ")
        if name.startswith(f".{column}.") and not value.startswith("No "):
            found[name.removeprefix(f".{column}.")] = value.strip('"')
    return found


async def sent(*command: str) -> None:
    """Run one of net-snmp's programs to its end, without error."""
    process = await asyncio.create_subprocess_exec(
        program(command[0]), *command[1:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
