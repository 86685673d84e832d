"""Defines the settings of Kafka: addresses, authentication, and the numbers of partitions of the topics.

Every client uses `client_options`; streams/runtime/faust_app.py gives Faust the same in its own form.
"""

from pathlib import Path

from pydantic import Field, model_validator

from streams.wire.login_settings import LoginSettings
from streams.wire.topics import Partitions

USER_PREFIX = "railsight-"


class KafkaSettings(LoginSettings):
    """The settings of one Kafka cluster; `cluster` names the fabric, not the brokers."""

    bootstrap: str = "127.0.0.1:9092"
    """The brokers' addresses, `host:port`, comma-separated."""
    cluster: str = Field(default="local", pattern=r"^[A-Za-z0-9._-]+$")
    """The name of the fabric in CloudEvents and consumer groups."""
    telemetry_partitions: int = Field(default=8, ge=1)
    """Partitions of samples, events, facts and statuses, fixed for the life of the topics (docs/scaling.md)."""
    pod_partitions: int = Field(default=4, ge=1)
    """Partitions of the topics by pod, fixed for the life of the topics."""
    replication: int = Field(default=1, ge=1)
    """Copies of each partition; 3 on a cluster of brokers."""
    login_folder: Path | None = None
    """A folder with a password file for each part, named like the part (`persist`), for the user `railsight-persist`.
    With it, the parts on one machine share a configuration but have different users."""
    principals: dict[str, str] = Field(default_factory=dict)
    """Principals of parts that differ from `User:railsight-<part>`, such as `persist = "User:CN=persist"` for a
    certificate; `railsight acl` uses them."""

    @model_validator(mode="before")
    @classmethod
    def _one_login(cls, values: object) -> object:
        if isinstance(values, dict) and values.get("login_folder") is not None and values.get("username"):
            raise ValueError("login_folder has the users of all parts: remove username and password, or login_folder")
        return values

    def _check_password(self, secrets: int) -> None:
        if self.login_folder is None:
            super()._check_password(secrets)
        elif not self.sasl_mechanism:
            raise ValueError("login_folder needs a sasl_mechanism")

    @property
    def partitions(self) -> Partitions:
        """Return the numbers of partitions of the topics."""
        return Partitions(self.telemetry_partitions, self.pod_partitions)

    def of_part(self, part: str) -> "KafkaSettings":
        """Return the settings with the login of a part: its own user if there is a folder of logins."""
        if self.login_folder is None:
            return self
        login = {"username": f"{USER_PREFIX}{part}", "password_file": self.login_folder / part}
        return self.model_copy(update=login)
