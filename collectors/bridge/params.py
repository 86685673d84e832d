"""What the bridge is told: which topics of which Kafka, in which format, and how the peers' names become ours."""

import ssl
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator

from collectors.bridge.series import Input
from collectors.core.params import CollectorParams
from streams.wire.errors import Misconfigured

Format = Literal["auto", "gnmic", "telegraf-json", "telegraf-influx"]


class SourceTopic(BaseModel):
    """One topic that a peer writes; `auto` tells the format by each record's first bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    format: Format = "auto"


def _topics(value: object) -> object:
    """Topics may be given as JSON text, a name or names alone."""
    if isinstance(value, str):
        value = orjson.loads(value) if value.lstrip()[:1] in {"[", "{"} else value.split(",")
    if isinstance(value, dict):
        value = [value]
    if isinstance(value, list | tuple):
        return [{"name": item.strip()} if isinstance(item, str) else item for item in value]
    return value


def _object(value: object) -> object:
    return orjson.loads(value) if isinstance(value, str) else value


class Params(CollectorParams):
    """Settings of `[collect.bridge]`."""

    supports_spool: ClassVar[bool] = False
    topics: Annotated[tuple[SourceTopic, ...], BeforeValidator(_topics)] = ()
    group: str = Field(default="railsight-bridge", min_length=1)
    """Processes of one group share the topics' partitions; where each has come to is kept under this name."""
    start: Literal["earliest", "latest"] = "latest"
    """Where a partition is begun of which the group knows nothing: what lay there before is history."""
    inputs: Annotated[dict[str, Input], BeforeValidator(_object)] = Field(default_factory=dict)
    """Which of Telegraf's inputs a measurement (a glob) comes from, where its tags do not tell."""
    device_tag: str = ""
    """The tag that names the device, where it is none of those that the peers' tables give."""
    devices: Annotated[dict[str, str], BeforeValidator(_object)] = Field(default_factory=dict)
    """The inventory's name of a device by what its tag says (an address, say)."""
    gap_s: float = Field(default=0.5, gt=0, le=60)
    """Values of one device that are further apart, by their own time, are of different readings."""
    span_s: float = Field(default=5.0, gt=0, le=600)
    """No reading is longer."""
    quiet_s: float = Field(default=0.25, ge=0.01, le=60)
    """A partition in which nothing came for so long has said all: what was gathered goes out."""
    wait_s: float = Field(default=1.0, ge=0.01, le=60)
    """Nothing gathered waits longer."""
    silent_s: float = Field(default=30.0, ge=1)
    """A device of which nothing came for so long is said to be not reached."""
    forget_s: float = Field(default=3600.0, ge=60)
    """After so long nothing is said of it any more."""
    max_ports: int = Field(default=4096, ge=1)
    max_devices: int = Field(default=50_000, ge=1)
    max_waiting: int = Field(default=5_000, ge=10)
    """Records that wait for their acknowledgement: past it nothing more is read."""
    once_records: int = Field(default=5_000, ge=1)
    """How many of a partition's newest records `--once --print` reads."""
    file: Path | None = None
    """For `--once --print`: records of a file, one a line, in place of Kafka's."""
    bootstrap: str = ""
    """The Kafka that the peers write to, where it is another than ours; `--once --print` needs it."""
    tls: bool = False
    ca_file: Path | None = None
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    username: str = ""
    password: SecretStr | None = None
    password_file: Path | None = None

    @model_validator(mode="after")
    def _one_password(self) -> "Params":
        if self.username and (self.password is None) == (self.password_file is None):
            raise ValueError("username needs password or password_file, not both")
        return self

    def client_options(self, ours: dict[str, Any] | None) -> dict[str, Any]:
        """How the peers' Kafka is reached; `ours` where nothing else is said. Raises Misconfigured."""
        if not self.bootstrap:
            if ours is None:
                raise Misconfigured("collect bridge: where is Kafka? (bootstrap)")
            return ours
        options: dict[str, Any] = {"bootstrap_servers": self.bootstrap}
        protocol = "SSL" if self.tls else "PLAINTEXT"
        if self.tls:
            options["ssl_context"] = self._tls_context()
        if self.username:
            protocol = f"SASL_{protocol}"
            options |= {
                "sasl_mechanism": self.sasl_mechanism,
                "sasl_plain_username": self.username,
                "sasl_plain_password": self._secret(),
            }
        return options | {"security_protocol": protocol}

    def _tls_context(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=None if self.ca_file is None else str(self.ca_file))
        except OSError as error:
            raise Misconfigured(f"collect bridge: ca_file {self.ca_file}: {error.strerror or error}") from error

    def _secret(self) -> str:
        if self.password is not None:
            return self.password.get_secret_value()
        assert self.password_file is not None
        try:
            return self.password_file.read_text().strip()
        except OSError as error:
            raise Misconfigured(f"collect bridge: password_file {self.password_file}: {error.strerror}") from error
