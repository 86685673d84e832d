"""`railsight topics` and `railsight process` run as a user starts them, on a separate broker."""

import os
from pathlib import Path

import pytest

from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams
from streams.wire.topics import STAGES, TOPICS
from tests.integration.runtime.commands import railsight, start_in_background
from tests.integration.runtime.rig import wait_until


async def test_topics_are_created_and_all_stages_run_in_one_process(tmp_path: Path) -> None:
    """`topics` creates the missing topics; `process` owns every partition of four stages and stops."""
    with EmbeddedKafka(KafkaParams(data=tmp_path / "kafka")) as broker:
        at = ("--bootstrap", broker.bootstrap)
        listed = railsight("topics", "--list", "--json", *at)
        assert listed.returncode == 1 and listed.stdout.count('"partitions": null') == len(TOPICS)
        assert railsight("topics", *at).returncode == 0
        log = tmp_path / "log"
        env = os.environ | {"RAILSIGHT__RUNTIME__DATA": str(tmp_path)}
        worker = start_in_background(log, env, {"runtime.inventory_wait_s": 0}, "process", *at)
        try:
            owned = [
                f"{stage}/{n}: epoch 1 "
                for stage, partitions in zip(STAGES, (8, 4, 1, 1), strict=True)
                for n in range(partitions)
            ]
            await wait_until(lambda: all(line in log.read_text() for line in owned), 60, "all owned", logs=[log])
            worker.terminate()
            assert worker.wait(60) == 0, log.read_text()
        finally:
            worker.kill()
            worker.wait()


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (("process", "mesure"), 2, "unknown stage: mesure"),
        (("topics", "--bootstrap", "127.0.0.1:1"), 1, "Kafka at 127.0.0.1:1 was not ready after"),
    ],
)
def test_an_error_at_start_is_one_line(arguments: tuple[str, ...], code: int, error: str) -> None:
    """The exit code is 2 for a misspelt stage and 1 for missing brokers, and the last line of the error names them."""
    ended = railsight(*arguments)
    assert ended.returncode == code
    assert error in ended.stderr.splitlines()[-1]
