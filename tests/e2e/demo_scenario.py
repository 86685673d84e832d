"""Runs one demo with actions and observations, shared by the tests of test_demo.py.

External programs (kcat, curl, clickhouse-connect) query it; then its worker, its sink, its broker and its ClickHouse
are killed one after the other. At the end, the contents of its Kafka and its ClickHouse are compared record by
record.
"""

import asyncio
import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from pydantic import SecretStr

from streams.embedded.clickhouse import ClickHouseParams, EmbeddedClickHouse
from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams
from streams.store.clickhouse import ClickHouse
from streams.store.params import StoreParams
from streams.wire.errors import Reject
from streams.wire.models import Samples
from streams.wire.topics import SAMPLES, Partitions, decode
from tests.e2e.processes import Marked, command_line, descendants, once, parts, peer, pid_of, railsight, until

SECONDS = 60
KILLED = ("process", "persist", "broker", "clickhouse")
SERVERS = {"broker": " kafka.Kafka ", "clickhouse": " -m streams.embedded.clickhouse "}
"""Part of the server's own command line; its starter exits when the server does."""
Identity = tuple[str, str, int, int]
"""A reading: device, source, the collector's run, its sequence."""


@dataclass
class Observed:
    """Observations of the demo."""

    exit_code: int = -1
    report: dict[str, Any] = field(default_factory=dict)
    log: str = ""
    kcat: str | None = None
    curl: str | None = None
    driver: int = 0
    listed: subprocess.CompletedProcess[str] | None = None
    followed: list[dict[str, Any]] = field(default_factory=list)
    explained: subprocess.CompletedProcess[str] | None = None
    acknowledged: subprocess.CompletedProcess[str] | None = None
    back_s: dict[str, float] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    sent: dict[Identity, int] = field(default_factory=dict)
    stored: list[tuple[Identity, int]] = field(default_factory=list)
    sample_rows: int = 0
    counted: dict[str, Any] = field(default_factory=dict)


def observe(folder: Path) -> Observed:
    """Run the whole scenario in `folder`; raises AssertionError where something does not come in time."""
    seen = Observed()
    run = folder / "run"
    command = railsight("demo", "--headless", "--json", "--seconds", str(SECONDS), "--run-dir", str(run))
    with (folder / "report.json").open("wb") as out:
        demo = Marked(command, folder / "demo.log", stdout=out)
    following = None
    try:
        where = until(lambda: _where(run), 120, "demo.json")
        until(lambda: pid_of(run, "gnmi"), 60, "the collector")
        following = _follow(where["kafka"], folder)
        _look(seen, where)
        for name in KILLED:
            seen.back_s[name] = _kill(run, name, demo)
        _ask(seen, where["kafka"])
        seen.exit_code = demo.process.wait(240)
        seen.left = demo.left()
    finally:
        demo.end()
        if following is not None:
            following.end()
            seen.followed = [json.loads(line) for line in (folder / "followed.jsonl").read_text().splitlines()]
        seen.log = demo.log.read_text()
    seen.report = json.loads((folder / "report.json").read_text() or "{}")
    _compare(seen, run)
    return seen


def _follow(bootstrap: str, folder: Path) -> Marked:
    """A person who follows the findings from the beginning of the demo to its end."""
    command = railsight("findings", "--follow", "--json", "--bootstrap", bootstrap)
    with (folder / "followed.jsonl").open("wb") as out:
        return Marked(command, folder / "follow.log", stdout=out)


def _where(run: Path) -> dict[str, str] | None:
    try:
        return dict(json.loads((run / "demo.json").read_text()))
    except FileNotFoundError:
        return None


def _look(seen: Observed, where: dict[str, str]) -> None:
    """Look at Kafka and ClickHouse from outside, once there is something to see."""
    if peer("kcat"):
        seen.kcat = until(lambda: _kcat(where["kcat"]), 60, "a finding for kcat")
    password = Path(where["clickhouse_password_file"]).read_text(encoding="utf-8").strip()
    if peer("curl"):
        url = f"{where['clickhouse']}/?query=SELECT+count()+FROM+{where['database']}.samples"
        seen.curl = until(lambda: _curl(url, password), 60, "a row for curl")
    import clickhouse_connect

    client = clickhouse_connect.get_client(
        dsn=where["clickhouse"], database=where["database"], username="default", password=password
    )
    seen.driver = client.query("SELECT count() FROM samples").result_rows[0][0]
    client.close()


def _kcat(settings: str) -> str | None:
    command = ["kcat", "-F", settings, "-C", "-e", "-q", "-t", "railsight.findings.v1", "-f", "%h\t%k\t%s\n"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout or None


def _curl(url: str, password: str) -> str | None:
    command = ["curl", "-sS", "-H", f"X-ClickHouse-Key: {password}", url]
    count = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout.strip()
    return count if count not in ("", "0") else None


def _kill(run: Path, name: str, demo: Marked) -> float:
    """End a part with SIGKILL; answer after how many seconds the supervisor had it back."""
    before = until(lambda: pid_of(run, name), 30, name)
    killed = time.monotonic()
    server = SERVERS.get(name)
    servers = [
        pid
        for pid in descendants(demo.process.pid)
        for line in [command_line(pid)]
        if server and server in f"{line} " and "parent_watchdog.py" not in line and "/making-" not in line
    ]
    (victim,) = servers if server else (before,)
    os.kill(victim, signal.SIGKILL)
    until(lambda: pid_of(run, name, before), 60, f"{name} after its kill")
    assert parts(run)[name]["restarts"] == 1
    return time.monotonic() - killed


def _ask(seen: Observed, bootstrap: str) -> None:
    """Ask as a person would, of the broker that is back."""
    listed = until(lambda: _listed(bootstrap), 60, "an open finding")
    seen.listed = listed
    identity = json.loads(listed.stdout.splitlines()[0])["id"]
    seen.explained = once("explain", identity[:12], "--bootstrap", bootstrap)
    seen.acknowledged = once("ack", identity, "--reason", "a test knows", "--bootstrap", bootstrap)


def _listed(bootstrap: str) -> subprocess.CompletedProcess[str] | None:
    listed = once("findings", "--json", "--bootstrap", bootstrap)
    return listed if listed.returncode == 0 and listed.stdout.startswith("{") else None


def _compare(seen: Observed, run: Path) -> None:
    """Start the demo's Kafka and ClickHouse again, let a sink finish, and read both whole."""
    seen.counted = json.loads((run / "acknowledged.json").read_text())
    kafka = EmbeddedKafka(KafkaParams(data=run / "kafka"))
    clickhouse = EmbeddedClickHouse(ClickHouseParams(data=run / "clickhouse"))
    with kafka, clickhouse:
        seen.sent = asyncio.run(_readings(kafka.bootstrap))
        config = run / "again.toml"
        config.write_text(
            f'[kafka]\nbootstrap = "{kafka.bootstrap}"\n[store]\nurl = "{clickhouse.url}"\n'
            f'password_file = "{clickhouse.password_file}"\n'
        )
        sink = Marked(railsight("persist", "--config", str(config)), run / "again.log")
        database = ClickHouse(StoreParams(url=clickhouse.url, password=SecretStr(clickhouse.password)))
        try:
            until(lambda: _stored(seen, database), 60, "every reading in ClickHouse")
        finally:
            sink.end()
            seen.stored = _messages(database)
            seen.sample_rows = int(database.query("SELECT count() FROM samples")[0][0])
            database.close()


def _stored(seen: Observed, database: ClickHouse) -> bool | None:
    return True if {identity for identity, _ in _messages(database)} >= seen.sent.keys() else None


def _messages(database: ClickHouse) -> list[tuple[Identity, int]]:
    asked = "SELECT device, source, collector_run, sequence, rows FROM sample_messages"
    return [((str(d), str(s), int(r), int(q)), int(rows)) for d, s, r, q, rows in database.query(asked)]


async def _readings(bootstrap: str) -> dict[Identity, int]:
    """Every reading that Kafka holds, with its number of rows; one that was sent twice is one."""
    found: dict[Identity, int] = {}
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, auto_offset_reset="earliest")
    await consumer.start()
    try:
        everything = [TopicPartition(SAMPLES.name, p) for p in range(Partitions().count(SAMPLES))]
        consumer.assign(everything)
        ends = await consumer.end_offsets(everything)
        for tp in everything:
            while await consumer.position(tp) < ends[tp]:
                for record in (await consumer.getmany(tp, timeout_ms=500)).get(tp, ()):
                    if (reading := _reading(record)) is not None:
                        source = reading.source.label
                        found[reading.device, source, reading.collector_run, reading.sequence] = len(reading.row)
    finally:
        await consumer.stop()
    return found


def _reading(record: Any) -> Samples | None:
    try:
        message = decode(SAMPLES, record.value, record.headers)
    except Reject:
        return None
    return message if isinstance(message, Samples) else None
