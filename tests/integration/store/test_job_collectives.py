"""Tests results of nccl-tests from a pipe to the verdict on a job: the command, Kafka, ClickHouse, `railsight job`."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from streams.cli.main import main
from streams.fabric.inventory import Device, Inventory, Job, Link
from streams.wire import topics
from streams.wire.inventory_topic import to_chunks
from streams.wire.models import Component, Facts, Source
from tests.fixtures.nccl_tests_output import as_json, table
from tests.integration.store.rig import Database, Rig, until

pytestmark = pytest.mark.timeout(240)
BEGIN = datetime.now(UTC) - timedelta(hours=1)
BEGIN_NS = int(BEGIN.timestamp() * 1e9)
INVENTORY = Inventory(
    devices=(
        *(Device(name=f"h{n}", kind="host", tier="host", pod="p1", gpus=8) for n in range(4)),
        Device(name="leaf", kind="switch", tier="T0", pod="p1"),
    ),
    links=tuple(
        Link(a_device=f"h{n}", a_port=f"nic{r}", z_device="leaf", z_port=f"e{n}-{r}", role="host-link", rail=r)
        for n in range(4)
        for r in range(8)
    ),
    jobs=tuple(Job(job="train", device=f"h{n}", start=BEGIN) for n in range(2)),
)
PEERS_GBPS = (365.0, 370.0, 372.0)


@dataclass
class Results:
    """The tables, and the command that publishes an output."""

    database: Database
    config: Path

    def publish(self, output: bytes) -> str:
        """Pipe an output into the command; return what it reports."""
        command = [sys.executable, "-m", "streams.cli.main", "collect", "nccl_tests", "--config", str(self.config)]
        done = subprocess.run(command, input=output, capture_output=True, timeout=90, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stderr.decode()

    def count(self) -> int:
        """Return the number of messages with results."""
        query = "SELECT count() FROM sample_messages WHERE source = 'benchmark' AND row_kind = 'collective'"
        return int(self.database.client.query(query)[0][0])


@pytest.fixture(scope="module")
def stored(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Results]:
    """Yield tables with three peers on other hosts, and the GPUs of the job's hosts."""
    folder = tmp_path_factory.mktemp("collectives")
    config = folder / "railsight.toml"
    config.write_text(f"""[kafka]
bootstrap = "{rig.kafka.bootstrap}"
telemetry_partitions = 4
pod_partitions = 2
[collect.nccl_tests.nodes]
h1 = "gpu-node-1"
""")
    database = rig.database()
    gpus = tuple(Component(f"0000:{0x10 + number:02x}:00.0", "gpu") for number in range(8))
    chunks = [(topics.INVENTORY, chunk) for chunk in to_chunks(INVENTORY, BEGIN_NS)]
    facts = [(topics.FACTS, Facts(host, BEGIN_NS, Source.SOURCE_HOST, components=gpus)) for host in ("h0", "h1")]
    asyncio.run(database.hold([*chunks, *facts], {"facts": 2}))
    results = Results(database, config)
    for gbps in PEERS_GBPS:
        assert "published all_reduce: 2 hosts, 16 ranks, 3 results, average bus" in results.publish(
            table(("h2", "h3"), gbps).encode()
        )
    asyncio.run(_until_count(results, 2 * len(PEERS_GBPS)))
    yield results
    database.end()


async def _until_count(results: Results, count: int) -> None:
    assert await until(lambda: results.count() >= count), results.count()


def _job(results: Results, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    results.database.configure(monkeypatch)
    with pytest.raises(SystemExit):
        main(["job", "train"])
    return capsys.readouterr().out


def test_a_slow_benchmark_is_a_witness_of_the_job(
    stored: Results, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A table of one GPU a host has its rail; one of all GPUs far below its peers is reported, and stored once."""
    slow = table(("h0", "gpu-node-1"), 210.0).encode()
    stored.publish(slow)
    stored.publish(slow)
    stored.publish(as_json(("h0", "gpu-node-1"), 371.0, gpus=1))
    asyncio.run(_until_count(stored, 2 * len(PEERS_GBPS) + 4))
    printed = _job(stored, monkeypatch, capsys)
    assert "nccl-tests" in printed
    assert "2 hosts, 16 ranks, rails 0, 1, 2, 3, 4, 5, 6, 7; highest all_reduce/float/sum/-1/8589934592" in printed
    assert "2 hosts, 2 ranks, rails 0; highest" in printed
    assert "far below its peers: all_reduce/float/sum/-1/8589934592" in printed
    assert printed.count("far below its peers") == 2, "two sizes of one benchmark: the smallest measures latency"
    assert stored.count() == 2 * len(PEERS_GBPS) + 4, "the output that was published twice is stored once"
