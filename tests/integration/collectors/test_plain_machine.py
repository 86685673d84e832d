"""Tests `collect nic` and `collect host` on the machine that runs the tests, whatever its hardware."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[3] / "deploy/examples/collectors.toml"


@pytest.mark.parametrize("kind", ["nic", "host"])
@pytest.mark.parametrize("settings", [(), ("--config", str(EXAMPLE))])
def test_a_reading_is_lines_of_json_and_no_error(kind: str, settings: tuple[str, ...]) -> None:
    """Existing ports, links and GPUs are published under this host's name; missing ones are not."""
    command = [sys.executable, "-m", "streams.cli.main", "collect", kind, *settings, "--once", "--print"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert {(line["device"], line["source"]) for line in lines} <= {(socket.gethostname(), kind)}
    netdevs = {path.name for path in Path("/sys/class/net").iterdir() if path.is_dir()}
    if kind == "nic" and not settings:
        assert bool(lines) is bool(netdevs)
