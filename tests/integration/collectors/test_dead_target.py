"""`collect --once --print` of a target that does not answer ends, and names the target and the reason."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

WITHIN_S = 150
"""Bound of a busy machine; an idle one needs some 20 s."""


@pytest.mark.parametrize(
    ("kind", "settings", "reason"),
    [
        ("snmp", ("--set", "community=public"), "no answer"),
        ("gnmi", (), "connection refused"),
    ],
)
def test_a_target_that_does_not_answer_is_named(
    tmp_path: Path, kind: str, settings: tuple[str, ...], reason: str
) -> None:
    """By one line with its reason, exit code 1; nothing is printed as a reading."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM if kind == "snmp" else socket.SOCK_STREAM) as silent:
        silent.bind(("127.0.0.1", 0))
        targets = tmp_path / "targets.json"
        targets.write_text(json.dumps([{"name": "leaf1", "address": f"127.0.0.1:{silent.getsockname()[1]}"}]))
        command = [sys.executable, "-m", "streams.cli.main", "collect", kind, "--targets", str(targets), *settings]
        done = subprocess.run(
            [*command, "--once", "--print"], capture_output=True, text=True, timeout=WITHIN_S, check=False
        )
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = (line for line in done.stderr.splitlines() if "leaf1" in line and line.startswith("railsight"))
    assert reason in line.lower()
