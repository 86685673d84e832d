"""Tests a small `railsight bench snmp`: every client reads the same switch, or reports the reason."""

from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from lab.bench.snmp_clients import LOGINS
from lab.cli.bench.command import bench
from tests.integration.collectors.snmp_peers import program

PORTS, POLLS = 4, 1
CELLS = 41 * PORTS * POLLS


def clients() -> dict[tuple[str, str], dict[str, object]]:
    """Return the command's figures, by load and client."""
    done = CliRunner().invoke(bench, ["snmp", "--ports", str(PORTS), "--polls", str(POLLS), "--json"])
    assert done.exit_code == 0, done.output
    emitted = orjson.loads(done.stdout.splitlines()[-1])
    assert (emitted["per"], emitted["what"]) == (100_000, "values")
    return {(row["load"], row["client"]): row for row in emitted["clients"]}


@pytest.mark.peer("snmpbulkwalk")
def test_every_client_reads_every_cell_of_both_tables() -> None:
    """All clients read both tables by v2c and by v3 authPriv; the collector reads the columns that it needs."""
    program("snmpbulkwalk")
    found = clients()
    for load in LOGINS:
        for client in ("railsight", "pysnmp", "pysnmp, looking up names", "snmpbulkwalk"):
            assert found[load, client]["count"] == CELLS
        assert 0 < int(str(found[load, "railsight, the collector"]["count"])) < CELLS
        assert found[load, "railsight"]["ratio"] == 1
    assert len(found) == 5 * len(LOGINS)


def test_without_net_snmp_the_others_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing client is named and has no figure."""
    monkeypatch.setenv("PATH", str(tmp_path))
    found = clients()
    for load in LOGINS:
        row = found[load, "snmpbulkwalk"]
        assert row["skipped"] == "snmpbulkwalk is not installed" and row["cpu_s"] is None
        assert found[load, "pysnmp"]["count"] == CELLS
