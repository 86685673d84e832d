"""The same Kafka log gives the same findings under the same ids, read twice, a worker killed or not."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from lab.constants import command_with
from lab.demo.player import find_recording, load_playback, play, publish_end_of_time
from streams.config.kafka import KafkaSettings
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams
from streams.fabric.inventory import read_folder
from streams.runtime.admin import ensure_topics
from streams.runtime.topic_io import inventory_records, publish, read_to_end
from streams.wire import topics
from streams.wire.models import IDLE_NS, Finding, Progress
from streams.wire.topics import TOPICS, PartitionScheme
from tests.e2e.processes import Marked, log_contains, until
from tests.recordings import FLAPPER

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(not FLAPPER.exists(), reason="the real recordings are not on this machine"),
]

RETAINED = {topics.INVENTORY, topics.JOBS}
DERIVED = [topic for topic in TOPICS if topic.scheme is not PartitionScheme.TELEMETRY or "snapshots" in topic.name]


async def _forget_conclusions(kafka: KafkaSettings) -> None:
    """Retain only the records of devices and users: the log that is read again."""
    admin = AIOKafkaAdminClient(**kafka.client_options())
    await admin.start()
    try:
        await admin.delete_topics([topic.name for topic in DERIVED if topic not in RETAINED])
        for _ in range(100):
            if not {topic.name for topic in DERIVED if topic not in RETAINED} & set(await admin.list_topics()):
                break
            await asyncio.sleep(0.1)
    finally:
        await admin.close()
    await ensure_topics(kafka)


async def _concluded(kafka: KafkaSettings, end_ns: int) -> bool:
    """Return whether event time has reached the end for every stage."""
    async for record in read_to_end(kafka, topics.PROGRESS):
        result = topics.decode(topics.PROGRESS, record.value, record.headers)
        if isinstance(result, Progress) and result.stage == "decide" and end_ns <= result.watermark_ns < IDLE_NS:
            return True
    return False


async def _last_revisions(kafka: KafkaSettings) -> dict[str, Finding]:
    newest: dict[str, Finding] = {}
    async for record in read_to_end(kafka, topics.FINDINGS):
        result = topics.decode(topics.FINDINGS, record.value, record.headers)
        assert isinstance(result, Finding)
        if result.id not in newest or result.revision > newest[result.id].revision:
            newest[result.id] = result
    return newest


def _fold(kafka: KafkaSettings, folder: Path, cluster: str, end_ns: int, *, kill: bool) -> dict[str, Finding]:
    """Run the stages over the log under a group of their own; answer the last revisions."""
    config = folder / f"{cluster}.toml"
    config.write_text(
        f'[kafka]\nbootstrap = "{kafka.bootstrap}"\ncluster = "{cluster}"\n[runtime]\ndata = "{folder / cluster}"\n'
    )
    log = folder / f"{cluster}.log"
    constants = {"runtime.wall_clock_ticks": False}
    command = list(command_with(constants, "process", "--config", str(config), "--instance", "one"))
    worker = Marked(command, log)
    try:
        if kill:
            until(lambda: log_contains(log, "epoch 1"), 60, "the first owner")
            os.kill(worker.process.pid, signal.SIGKILL)
            worker.process.wait()
            worker = Marked(command, folder / "again.log")
        until(lambda: asyncio.run(_concluded(kafka, end_ns)) or None, 120, "the end of the recording")
    finally:
        worker.end()
    return asyncio.run(_last_revisions(kafka))


def test_the_same_log_gives_the_same_findings(tmp_path: Path) -> None:
    """Read once, and once more from its beginning by a worker that is killed on the way: equal but for revisions."""
    tape = load_playback(find_recording(FLAPPER, FLAPPER / "inventory"))
    end_ns = tape.last_ns + ns(DetectParams().lateness_s)
    with EmbeddedKafka(KafkaParams(data=tmp_path / "kafka")) as broker:
        kafka = KafkaSettings(bootstrap=broker.bootstrap)
        asyncio.run(ensure_topics(kafka))
        asyncio.run(publish(kafka, inventory_records(read_folder(FLAPPER / "inventory"), tape.first_ns - ns(1))))
        asyncio.run(play(tape, kafka, 1e9))
        asyncio.run(publish_end_of_time(kafka, end_ns))
        first = _fold(kafka, tmp_path, "first", end_ns, kill=False)
        asyncio.run(_forget_conclusions(kafka))
        second = _fold(kafka, tmp_path, "second", end_ns, kill=True)
    assert len(first) == 3
    assert {i: _content(finding) for i, finding in second.items()} == {i: _content(f) for i, f in first.items()}


def _content(finding: Finding) -> tuple[object, ...]:
    """Return all fields except the revision."""
    return (
        finding.status, finding.final, finding.condition, finding.subject, finding.started_at_ns,
        finding.observed_at_ns, finding.resolved_at_ns, finding.detected_at_ns, finding.summary,
        finding.evidence, finding.severity,
        finding.parent_id, finding.occurrences,
    )  # fmt: skip
