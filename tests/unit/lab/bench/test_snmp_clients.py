"""The benchmark of SNMP charges a client with its own processes alone."""

import subprocess
import sys
from pathlib import Path

from lab.bench.snmp_clients import LOGINS, Asked, BulkWalks

_LOAD = "t = sum(i & 7 for i in range(5_000_000))"


async def test_the_walks_are_charged_and_the_other_processes_of_the_benchmark_are_not(tmp_path: Path) -> None:
    """The reference load is measured beside the clients, and is a child of the benchmark too."""
    program = tmp_path / "snmpbulkwalk"
    program.write_text(f"#!{sys.executable}\nfor i in range(3):\n    print(i)\n")
    program.chmod(0o755)
    walks = BulkWalks(str(program))
    async with walks.way(Asked(161, LOGINS["v2c"], 10)) as poll:
        assert await poll() == 6
    charged_s = walks.cpu_s
    subprocess.run([sys.executable, "-c", _LOAD], check=True)  # noqa: ASYNC221
    assert 0 < charged_s == walks.cpu_s
