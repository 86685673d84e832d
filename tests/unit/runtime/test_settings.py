"""The Kafka settings give every client the same options."""

import ssl
from pathlib import Path

import pytest
from pydantic import ValidationError

from streams.config.kafka import KafkaSettings
from streams.config.runtime import RuntimeSettings
from streams.runtime.faust_app import make_app
from streams.runtime.ordered_input import Chunk
from streams.wire.errors import Misconfigured


def settings(**given: object) -> KafkaSettings:
    return KafkaSettings.model_validate(given)


def test_the_default_is_a_broker_on_loopback() -> None:
    """Without settings, clients connect without TLS and login to port 9092 of this machine."""
    assert settings().client_options() == {"bootstrap_servers": ["127.0.0.1:9092"], "security_protocol": "PLAINTEXT"}


def test_a_login_and_tls_reach_the_client(tmp_path: Path) -> None:
    """The password is read from its file for the options of a client, and is in no representation of the settings."""
    file = tmp_path / "password"
    file.write_text("s3cret\n")
    kafka = settings(sasl_mechanism="SCRAM-SHA-512", username="u", password_file=file, tls=True)
    options = kafka.client_options()
    assert isinstance(options.pop("ssl_context"), ssl.SSLContext)
    assert options == {
        "bootstrap_servers": ["127.0.0.1:9092"],
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "u",
        "sasl_plain_password": "s3cret",
        "security_protocol": "SASL_SSL",
    }
    kafka = settings(sasl_mechanism="PLAIN", username="u", password="s3cret")
    assert "s3cret" not in f"{kafka!r} {kafka} {kafka.model_dump_json()}"


@pytest.mark.parametrize(
    "given",
    [
        {"sasl_mechanism": "PLAIN"},
        {"sasl_mechanism": "PLAIN", "username": "u"},
        {"sasl_mechanism": "PLAIN", "username": "u", "password": "a", "password_file": "b"},
        {"username": "u"},
        {"ca_file": "ca.pem"},
        {"key_file": "key.pem", "tls": True},
        {"telemetry_partitions": 0},
        {"cluster": "a b"},
        {"bootstap": "x"},
    ],
)
def test_invalid_settings_are_rejected(given: dict[str, object]) -> None:
    """An incomplete login, files without TLS, no partitions and misspelt keys are rejected."""
    with pytest.raises(ValidationError):
        settings(**given)


def test_a_login_without_tls_is_refused_off_loopback() -> None:
    """The error names the remote addresses only, and the setting; the password is not in it."""
    login = {"sasl_mechanism": "SCRAM-SHA-512", "username": "u", "password": "s3cret"}
    with pytest.raises(ValidationError) as refused:
        settings(bootstrap="127.0.0.1:1, kafka-1:9092,10.0.0.1:9092", **login)
    (error,) = refused.value.errors()
    assert "at kafka-1:9092, 10.0.0.1:9092; set tls = true" in error["msg"]
    assert "s3cret" not in error["msg"]
    for bootstrap in ("127.0.0.1:1,localhost:2,[::1]:3", "127.9.9.9:1"):
        assert settings(bootstrap=bootstrap, **login).client_options()["security_protocol"] == "SASL_PLAINTEXT"
    assert settings(bootstrap="kafka-1:9092", tls=True, **login).client_options()["security_protocol"] == "SASL_SSL"
    assert settings(bootstrap="kafka-1:9092").client_options()["security_protocol"] == "PLAINTEXT"


def test_a_missing_file_is_misconfigured() -> None:
    """The error for a missing file of TLS or of the password names its setting."""
    with pytest.raises(Misconfigured, match="password_file"):
        settings(sasl_mechanism="PLAIN", username="u", password_file="/nowhere").client_options()
    with pytest.raises(Misconfigured, match="TLS"):
        settings(tls=True, ca_file="/nowhere").client_options()


@pytest.mark.parametrize(
    ("given", "protocol"),
    [
        ({}, None),
        ({"tls": True}, "SSL"),
        ({"tls": True, "sasl_mechanism": "SCRAM-SHA-256", "username": "u", "password": "p"}, "SASL_SSL"),
        ({"sasl_mechanism": "PLAIN", "username": "u", "password": "p"}, "SASL_PLAINTEXT"),
    ],
)
def test_the_app_has_the_same_settings_as_other_clients(
    given: dict[str, object], protocol: str | None, tmp_path: Path
) -> None:
    """The credentials in Faust's own form have the same protocol as the options of other clients."""

    async def take(chunk: Chunk, generation: int) -> None:
        raise AssertionError("nothing is running")

    runtime = RuntimeSettings.model_validate({"instance": "one"})
    app = make_app("group", ["a", "b"], take, settings(**given), runtime, tmp_path)
    credentials = app.conf.broker_credentials
    assert (None if credentials is None else credentials.protocol.value) == protocol
    assert app.conf.consumer_group_instance_id == "group.one"
    assert app.conf.web_enabled is False
    assert app.conf.stream_wait_empty is False
    assert app.conf.producer_request_timeout == 1200.0
