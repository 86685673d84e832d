"""The certificate and users of deploy/compose/secrets.sh on a real broker, with the ACLs of `railsight acl`."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, TopicAuthorizationFailedError

from streams.config.kafka import KafkaSettings
from streams.config.settings import load
from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams, Security
from streams.wire.topics import CONTROLS, SAMPLES

COMPOSE = Path(__file__).parents[3] / "deploy/compose"
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def composed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the configuration of compose, with a broker and files of this machine in place of the containers'."""
    folder = tmp_path_factory.mktemp("compose")
    shutil.copy(COMPOSE / "secrets.sh", folder)
    subprocess.run(["bash", str(folder / "secrets.sh")], check=True, capture_output=True, timeout=60)
    secrets = folder / "secrets"
    logins = folder / "kafka-logins"
    logins.mkdir()
    for path in secrets.glob("kafka_*"):
        shutil.copy(path, logins / path.name.removeprefix("kafka_"))
    with EmbeddedKafka(KafkaParams(data=folder / "kafka"), security_of(secrets)) as kafka:
        text = (COMPOSE / "railsight.toml").read_text()
        for theirs, ours in {
            "kafka:9092": kafka.bootstrap,
            "/run/secrets/kafka_ca": str(secrets / "kafka_ca"),
            "/run/secrets/kafka-logins": str(logins),
        }.items():
            assert theirs in text
            text = text.replace(theirs, ours)
        (folder / "railsight.toml").write_text(text)
        yield folder / "railsight.toml"


def security_of(secrets: Path) -> Security:
    """Return the properties of the container's broker for the embedded one, whose listener for clients is CLIENT."""
    text = (secrets / "kafka_properties").read_text().replace("/run/secrets", str(secrets))
    lines = dict(line.split("=", 1) for line in text.splitlines())
    assert lines.pop("listener.security.protocol.map").startswith("INTERNAL:SASL_SSL,HOST:SASL_SSL,")
    same = {name: value for name, value in lines.items() if not name.startswith("listener.name.host.")}
    more = {name.replace(".internal.", ".client."): value for name, value in same.items()}
    return Security((secrets / "kafka_broker").read_text(), secrets / "kafka_keystore", more=more)


def railsight(config: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "streams.cli.main", *arguments, "--config", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def login(config: Path, part: str, **changed: Any) -> KafkaSettings:
    """Return the settings of a part, with changes."""
    kafka = load(config, environ={}).kafka.of_part(part)
    given = kafka.model_dump(include={"bootstrap", "tls", "ca_file", "sasl_mechanism", "username", "password_file"})
    return KafkaSettings.model_validate({name: value for name, value in (given | changed).items() if value is not None})


async def write(kafka: KafkaSettings, topic: str) -> None:
    producer = AIOKafkaProducer(**kafka.client_options(), request_timeout_ms=10_000)
    try:
        await producer.start()
        await producer.send_and_wait(topic, b"x", partition=0)
    finally:
        await producer.stop()


async def test_the_jobs_of_compose_can_run_twice_and_give_each_part_its_rights(composed: Path) -> None:
    """`topics` and `acl apply` as compose runs them; the collector writes samples, and no control."""
    railsight(composed, "topics")
    assert "created: " in railsight(composed, "acl", "apply")
    assert railsight(composed, "acl", "apply") == "nothing to change\n"
    assert not re.search("created", railsight(composed, "topics", "-o", "wide"))
    await write(login(composed, "collector"), SAMPLES.name)
    with pytest.raises(TopicAuthorizationFailedError):
        await write(login(composed, "collector"), CONTROLS.name)


@pytest.mark.parametrize(
    "changed",
    [
        {"tls": False, "ca_file": None},
        {"tls": False, "ca_file": None, "sasl_mechanism": None, "username": None, "password_file": None},
        {"username": "railsight-admin"},
        {"username": "railsight-stranger"},
    ],
    ids=["plaintext login", "no login", "password of another part", "unknown user"],
)
async def test_others_are_refused(composed: Path, changed: dict[str, Any]) -> None:
    """Without TLS, without a login, as another part."""
    with pytest.raises(KafkaError):
        await write(login(composed, "collector", **changed), SAMPLES.name)
