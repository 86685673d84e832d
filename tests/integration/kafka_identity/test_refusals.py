"""Each refused client gets one line with the cause and the next step; an accepted one works."""

import asyncio
import base64
import datetime as dt
import json
import logging
import ssl
import time
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError

from streams.config.kafka import KafkaSettings
from streams.wire.topics import READER
from tests.fixtures.certificates import CertificateAuthority
from tests.integration.kafka_identity.conftest import SecureKafka


async def connect(settings: KafkaSettings) -> None:
    """Connect a producer, and end it."""
    producer = AIOKafkaProducer(**settings.client_options())
    try:
        await producer.start()
    finally:
        await producer.stop()


def login(secure: SecureKafka, **given: Any) -> KafkaSettings:
    """Return the settings of a user who exists, with changes."""
    right = {
        "bootstrap": secure.kafka.bootstrap,
        "tls": True,
        "ca_file": secure.ca.file,
        "sasl_mechanism": "SCRAM-SHA-512",
        "username": "railsight-reader",
        "password_file": secure.login.folder / READER,
    }
    return KafkaSettings.model_validate({name: value for name, value in (right | given).items() if value is not None})


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"password_file": None, "password": "wrong"}, r"refuses the login of user railsight-reader by SCRAM-SHA-512"),
        ({"sasl_mechanism": "SCRAM-SHA-256"}, r"does not accept SCRAM-SHA-256, but SCRAM-SHA-512, PLAIN, OAUTHBEARER"),
        ({"ca_file": None}, r"not signed by the system's CAs; set the CA file"),
        ({"tls": False, "ca_file": None}, r"the broker expects TLS, and this client has none; set tls = true"),
        (
            {"tls": False, "ca_file": None, "sasl_mechanism": None, "username": None, "password_file": None},
            r"the broker expects TLS, and this client has none; set tls = true",
        ),
        (
            {"sasl_mechanism": None, "username": None, "password_file": None},
            r"requires a login, by SCRAM-SHA-512, PLAIN, OAUTHBEARER; set the SASL mechanism",
        ),
        ({"bootstrap": "127.0.0.1:1"}, r"Kafka at 127\.0\.0\.1:1: connection refused; start the broker"),
        ({"bootstrap": "no.such.host.invalid:1"}, r"the name cannot be resolved"),
    ],
)
async def test_a_refused_client_gets_one_line(
    secure: SecureKafka, given: dict[str, Any], line: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The error has the address, the cause and the next step, and aiokafka's own lines do not repeat it."""
    with caplog.at_level(logging.WARNING), pytest.raises(KafkaError, match=line) as refused:
        await connect(login(secure, **given))
    assert "\n" not in str(refused.value)
    assert not [record for record in caplog.records if record.name.startswith("aiokafka")]


async def test_expired_and_unknown_certificates_are_named(secure: SecureKafka, tmp_path: Path) -> None:
    """An expired certificate and one for another CA differ in their lines."""
    other = CertificateAuthority(tmp_path / "other", "other-ca")
    with pytest.raises(KafkaError, match=r"not signed by .*other-ca\.pem; set the CA file"):
        await connect(login(secure, ca_file=other.file))
    certificate, key = other.signed("expired", dt.timedelta(hours=-1))
    server = await tls_server(certificate, key)
    try:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(KafkaError, match=r"certificate is not valid now \(certificate has expired\); renew it"):
            await connect(login(secure, bootstrap=address, ca_file=other.file))
    finally:
        server.close()


async def test_an_expired_certificate_of_the_client_is_named(secure: SecureKafka) -> None:
    """The broker's alert has no reason that a person could use; the line has the file and when it expired."""
    certificate, key = secure.ca.signed("late", dt.timedelta(hours=-1))
    line = r"the broker refuses the client's certificate .*late\.pem, which expired at \S+Z \(.*\); renew it"
    with pytest.raises(KafkaError, match=line) as refused:
        await connect(login(secure, cert_file=certificate, key_file=key))
    assert "\n" not in str(refused.value)


async def tls_server(certificate: Path, key: Path) -> Any:
    """Return a server that only makes TLS handshakes."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context)


async def test_a_token_is_a_login(secure: SecureKafka, tmp_path: Path) -> None:
    """OAUTHBEARER with a token from a file works; an expired one is refused with a line of its own."""
    file = tmp_path / "token"
    tokens = login(secure, sasl_mechanism="OAUTHBEARER", token_file=file, username=None, password_file=None)
    file.write_text(token("railsight-reader", time.time() + 600))
    consumer = AIOKafkaConsumer("railsight.findings.v1", **tokens.client_options())
    await consumer.start()
    await consumer.stop()
    file.write_text(token("railsight-reader", time.time() - 600))
    with pytest.raises(KafkaError, match=r"the broker refuses the token .*; check the token's file"):
        await connect(tokens)


def token(subject: str, until_s: float) -> str:
    """Return an unsigned token, as the broker of these tests takes it."""
    parts = ({"alg": "none"}, {"sub": subject, "iat": time.time() - 3600, "exp": until_s})
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
    return ".".join([*encoded, ""])


async def test_a_renewed_password_and_ca_are_used_without_a_restart(secure: SecureKafka, tmp_path: Path) -> None:
    """The arguments of a client stay as they are; what its files have at each connection counts."""
    password, ca = tmp_path / "password", tmp_path / "ca.pem"
    password.write_text("former\n")
    ca.write_bytes(secure.ca.file.read_bytes())
    settings = login(secure, password_file=password, ca_file=ca)
    options = settings.client_options()
    refused = AIOKafkaProducer(**options)
    with pytest.raises(KafkaError, match="refuses the login"):
        await refused.start()
    await refused.stop()
    password.write_bytes((secure.login.folder / READER).read_bytes())
    producer = AIOKafkaProducer(**options)
    await producer.start()
    await producer.stop()
