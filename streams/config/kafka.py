"""The settings of Kafka: addresses, authentication, and the numbers of partitions of the topics.

Every client uses `client_options`; streams/runtime/app.py adds the options of Faust.
"""

import ssl
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from streams.wire.bounded_batches import bound_batches
from streams.wire.errors import Misconfigured
from streams.wire.loopback import remote_addresses
from streams.wire.topics import Partitions


class KafkaSettings(BaseModel):
    """One cluster. `cluster` names the fabric in CloudEvents and in consumer groups, not the brokers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    bootstrap: str = "127.0.0.1:9092"
    cluster: str = Field(default="local", pattern=r"^[A-Za-z0-9._-]+$")
    telemetry_partitions: int = Field(default=8, ge=1)
    pod_partitions: int = Field(default=4, ge=1)
    replication: int = Field(default=1, ge=1)
    tls: bool = False
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    username: str = ""
    password: SecretStr | None = None
    password_file: Path | None = None

    @model_validator(mode="after")
    def _complete(self) -> "KafkaSettings":
        secrets = (self.password is not None) + (self.password_file is not None)
        if self.sasl_mechanism and not (self.username and secrets == 1):
            raise ValueError("sasl_mechanism needs a username and one of password and password_file")
        if not self.sasl_mechanism and (self.username or secrets):
            raise ValueError("username and password need a sasl_mechanism")
        if (self.ca_file or self.cert_file or self.key_file) and not self.tls:
            raise ValueError("ca_file, cert_file and key_file need tls = true")
        if self.key_file and not self.cert_file:
            raise ValueError("key_file needs a cert_file")
        if self.sasl_mechanism and not self.tls and (remote := remote_addresses(self.bootstrap)):
            raise ValueError(
                f"sasl_mechanism {self.sasl_mechanism} needs TLS, except on loopback: without it, others on the network"
                f" can read the login at {', '.join(remote)}; set kafka.tls = true"
            )
        return self

    @property
    def partitions(self) -> Partitions:
        """Return the numbers of partitions of the topics."""
        return Partitions(self.telemetry_partitions, self.pod_partitions)

    def secret(self) -> str:
        """Return the password, from its file where one is set; raises Misconfigured if the file is unreadable."""
        if self.password_file is None:
            return self.password.get_secret_value() if self.password else ""
        try:
            return self.password_file.read_text(encoding="utf-8").rstrip("\n")
        except (OSError, ValueError) as error:
            raise Misconfigured(
                f"kafka.password_file: cannot read {self.password_file} ({error}); check the path and its permissions"
            ) from error

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return the TLS context, None without TLS; raises Misconfigured if one of its files is unreadable."""
        if not self.tls:
            return None
        try:
            context = ssl.create_default_context(cafile=str(self.ca_file) if self.ca_file else None)
            if self.cert_file:
                context.load_cert_chain(self.cert_file, self.key_file)
        except (OSError, ssl.SSLError) as error:
            files = ", ".join(str(path) for path in (self.ca_file, self.cert_file, self.key_file) if path is not None)
            raise Misconfigured(
                f"kafka: cannot load the TLS files {files} ({error}); check ca_file, cert_file and key_file"
            ) from error
        return context

    def client_options(self) -> dict[str, Any]:
        """Return the connection arguments of an aiokafka client, whose batches are bounded from here on."""
        bound_batches()
        options: dict[str, Any] = {"bootstrap_servers": self.bootstrap.split(",")}
        if self.tls:
            options["ssl_context"] = self.ssl_context()
        if self.sasl_mechanism:
            options |= {
                "sasl_mechanism": self.sasl_mechanism,
                "sasl_plain_username": self.username,
                "sasl_plain_password": self.secret(),
            }
        layer = "SSL" if self.tls else "PLAINTEXT"
        return options | {"security_protocol": f"SASL_{layer}" if self.sasl_mechanism else layer}
