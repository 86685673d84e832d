"""`railsight topics` and `railsight process` as a user runs them, on brokers of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams
from streams.wire.topics import STAGES, TOPICS
from tests.integration.runtime.rig import ROOT, until


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "streams.cli.main", *arguments]


def railsight(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, cwd=ROOT, timeout=60, check=False)


def started(log: Path, env: dict[str, str], *arguments: str) -> subprocess.Popen[bytes]:
    with log.open("wb") as out:
        return subprocess.Popen(command(*arguments), stdout=out, stderr=out, cwd=ROOT, env=env)


async def test_topics_are_made_and_all_stages_run_in_one_process(tmp_path: Path) -> None:
    """`topics` makes what `--list` misses; `process` owns every partition of four stages and stops within 3 s."""
    with EmbeddedKafka(KafkaParams(data=tmp_path / "kafka")) as broker:
        at = ("--bootstrap", broker.bootstrap)
        before = railsight("topics", "--list", "--json", *at)
        assert before.returncode == 1 and before.stdout.count('"partitions": null') == len(TOPICS)
        assert railsight("topics", *at).returncode == 0
        log = tmp_path / "log"
        env = os.environ | {"RAILSIGHT__RUNTIME__INVENTORY_WAIT_S": "0", "RAILSIGHT__RUNTIME__DATA": str(tmp_path)}
        worker = started(log, env, "process", *at)
        try:
            owned = [
                f"{stage}/{n}: epoch 1 " for stage, many in zip(STAGES, (8, 4, 1, 1), strict=True) for n in range(many)
            ]
            await until(lambda: all(one in log.read_text() for one in owned), 60, "all owned", logs=[log])
            worker.terminate()
            assert worker.wait(3) == 0, log.read_text()
        finally:
            worker.kill()
            worker.wait()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("process", "mesure"), 2, "unknown stage: mesure"),
        (("topics", "--bootstrap", "127.0.0.1:1"), 1, "Kafka at 127.0.0.1:1 was not ready after"),
    ],
)
def test_what_cannot_start_is_one_line(arguments: tuple[str, ...], code: int, said: str) -> None:
    """A misspelt stage is misconfigured; brokers that are not there are another try's; each is a line that names it."""
    ended = railsight(*arguments)
    assert ended.returncode == code
    assert said in ended.stderr.splitlines()[-1]
