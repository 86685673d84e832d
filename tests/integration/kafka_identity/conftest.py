"""Brokers with TLS, client certificates, SCRAM, tokens and the authorizer, and the logins of all parts."""

import asyncio
import gc
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from streams.cli.options import collector_access
from streams.config.kafka import KafkaSettings
from streams.config.settings import load
from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams, Security
from streams.runtime.access_admin import BrokerLogin, create_users
from streams.runtime.acl import accesses
from streams.runtime.admin import ensure_topics
from streams.wire.topics import ADMIN, Access
from tests.fixtures.certificates import CertificateAuthority

BROKER_PASSWORD = "of-the-broker"

_MORE = {
    # Signatures of tokens are not checked: who may issue one is the brokers' configuration, not ours.
    "listener.name.client.sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN,OAUTHBEARER",
    "listener.name.client.oauthbearer.sasl.jaas.config": (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
        ' unsecuredLoginStringClaim_sub="broker";'
    ),
    # Clients may have a certificate, which is verified. With SASL, only the listener's own setting counts (KIP-684).
    "listener.name.client.ssl.client.auth": "requested",
}


@dataclass(frozen=True)
class SecureKafka:
    """A broker over TLS with users and ACLs, and what its clients need."""

    kafka: EmbeddedKafka
    ca: CertificateAuthority
    login: BrokerLogin

    @property
    def settings(self) -> KafkaSettings:
        """The settings of all parts."""
        return KafkaSettings.model_validate({"bootstrap": self.kafka.bootstrap, **self.login.settings()})


def needs() -> dict[str, Access]:
    """Return what all parts do, with default settings."""
    settings = load(environ={})
    return accesses(settings, collector_access(settings))


@pytest.fixture(autouse=True)
def _no_sockets_left() -> Iterator[None]:
    """Collect the sockets that aiokafka leaves when a connection fails in the handshake, without their warnings."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="package")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    """Yield a broker that accepts SCRAM and tokens over TLS, with all users, ACLs and topics."""
    folder = tmp_path_factory.mktemp("secure")
    ca = CertificateAuthority(folder / "pki")
    certificate, key = ca.signed("broker")
    both = folder / "pki" / "both.pem"
    both.write_bytes(key.read_bytes() + certificate.read_bytes() + ca.file.read_bytes())
    trusted = {"ssl.truststore.location": str(ca.file)}
    data = folder / "kafka"
    data.mkdir()
    login = BrokerLogin(data, ca.file)
    with EmbeddedKafka(KafkaParams(data=data), Security(BROKER_PASSWORD, both, more=_MORE | trusted)) as kafka:
        asyncio.run(create_users(kafka, login, needs()))
        found = SecureKafka(kafka, ca, login)
        asyncio.run(ensure_topics(found.settings.of_part(ADMIN)))
        yield found
