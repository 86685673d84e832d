"""Names of files, as of NetBox or of facts, reach a terminal as one line of printable text, whatever they contain."""

import csv
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HOSTILE = {
    "escapes": "h\x1b]0;owned\x07\x9b2J1",
    "lines": "h\nforged: no problem\rforged",
    "directions": "h\u202e\u2066gpj.1\u200f",
    "a long name": "h" * 20_000 + "\x1b[31m",
}


def inventory_of(folder: Path, name: str) -> Path:
    """Write the tables of a host with this name, which is also that of its port, pod and job."""
    tables: dict[str, list[tuple[str, ...]]] = {
        "devices": [
            ("name", "kind", "tier", "pod", "vendor"), (name, "host", "host", name, name),
            ("leaf1", "switch", "T0", "p", ""),
        ],
        "links": [("a_device", "a_port", "z_device", "z_port", "role"), (name, name, "leaf1", name, "host-link")],
        "jobs": [("job", "device", "start"), (name, name, "2026-01-01T00:00:00Z"), (name, "x" + name, "2026-01-01")],
    }  # fmt: skip
    folder.mkdir()
    for table, rows in tables.items():
        with (folder / f"{table}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(rows)
    return folder


def exports_of(folder: Path, name: str) -> Iterator[Path]:
    """Write exports of NetBox in which every name is this one."""
    own = {"id": 1, "name": name}
    device = {**own, "role": {"name": name}, "device_type": {"model": name, "manufacturer": own}, "site": own}
    end = [{"object_type": "dcim.interface", "object_id": 1, "object": {**own, "device": own}}]
    lists: dict[str, list[dict[str, Any]]] = {
        "devices": [device], "interfaces": [{**own, "device": own}],
        "cables": [{"id": 1, "a_terminations": end, "b_terminations": []}],
    }  # fmt: skip
    for kind, rows in lists.items():
        (path := folder / f"{kind}.json").write_text(json.dumps(rows))
        yield path


def facts_of(folder: Path, name: str) -> Path:
    neighbor = {"port": name, "remote_device": f"x{name}", "remote_port": name}
    component = {"name": name, "kind": "nic", "alias": [name]}
    facts = {"device": name, "observed_at_ns": 1, "source": "SOURCE_GNMI", "vendor": name, "os_version": name}
    (path := folder / "facts.jsonl").write_text(
        json.dumps({**facts, "neighbors": [neighbor], "components": [component]}) + "\n"
    )
    return path


@pytest.mark.long
@pytest.mark.parametrize("kind", HOSTILE)
def test_no_command_prints_what_a_terminal_obeys(kind: str, tmp_path: Path) -> None:
    """Nor a line that a name has begun; JSON escapes both."""
    name = HOSTILE[kind]
    folder = inventory_of(tmp_path / "inventory", name)
    commands: list[list[str | Path]] = [
        ["inventory", "check", folder], ["inventory", "check", folder, "--json"],
        ["near", name, "--inventory", folder], ["near", "leaf1", "--inventory", folder],
        ["place", "--gpus", "8", "--inventory", folder],
        *(["topology", "export", "--format", form, "--inventory", folder] for form in ("slurm", "slurm-yaml", "json")),
        ["inventory", "draft", tmp_path / "draft", "--facts", facts_of(tmp_path, name)],
        ["inventory", "import", *exports_of(tmp_path, name), tmp_path / "imported"],
        ["explain", name, "--bootstrap", "127.0.0.1:1"],
    ]  # fmt: skip
    for command in commands:
        run = subprocess.run(
            [sys.executable, "-m", "streams.cli.main", *map(str, command)],
            capture_output=True,
            timeout=120,
            check=False,
        )
        lines = (run.stdout + run.stderr).decode().split("\n")
        assert all(line.isprintable() for line in lines), (command[:2], lines)
        assert not any(line.startswith("forged") for line in lines), (command[:2], lines)
        assert not any("Traceback" in line for line in lines), (command[:2], lines)
