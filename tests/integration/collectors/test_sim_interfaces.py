"""Tests that one `railsight collect sim` starts the interfaces that are selected, and no other."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(180)

RAILSIGHT = (sys.executable, "-m", "streams.cli.main")


def test_a_deselected_interface_is_not_started(tmp_path: Path) -> None:
    """`interfaces` selects the interfaces; the files of the others are empty lists."""
    command = [*RAILSIGHT, "collect", "sim", "--set", f"folder={tmp_path}", "--set", 'interfaces=["gnmi"]']
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            result = json.loads(process.stdout.readline())
            assert (result["switches"], result["hosts_shown"]) == (20, 0)
            assert len(json.loads((tmp_path / "targets.json").read_bytes())) == 20
            assert json.loads((tmp_path / "snmp-targets.json").read_bytes()) == []
            assert not (tmp_path / "hosts").exists()
        finally:
            process.terminate()
            process.wait(10)
