"""Defines the settings of the ClickHouse connection and of the sink."""

from pathlib import Path
from typing import Annotated, ClassVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from streams.wire.errors import Misconfigured
from streams.wire.login_settings import ClientFiles, is_loopback


class StoreParams(ClientFiles):
    """One ClickHouse server or cluster, over HTTP."""

    url: str = Field(default="http://127.0.0.1:8123", pattern=r"^https?://[^/?#@\s]+/?$")
    """The address of ClickHouse's HTTP interface."""
    user: str = "default"
    """The user."""
    password: SecretStr = SecretStr("")
    """The user's password."""
    password_file: Path | None = None
    """The file of the password, which is read again when the server refuses the password."""
    plain_http: bool = False
    """Permits http:// to a server that is not on loopback; use it only in an isolated network."""
    database: str = Field(default="railsight", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    """The database of the tables."""
    timeout_s: ClassVar[float] = 60.0
    """Limit of one request; a slower request is repeated, without duplicates."""
    cluster: str = Field(default="", pattern=r"^[A-Za-z0-9_-]*$")
    """The cluster of the server's `remote_servers` on whose hosts the tables are replicated; empty: one server."""
    sharded: bool = False
    """With `cluster`: tables are also divided among its shards."""
    retention_days: dict[str, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    """Days after their arrival at which the rows of a table expire; other tables have the default of their migration:
    samples 7, rollups by minute 30, rollups by hour and conclusions 400 (docs/tables.md)."""

    @model_validator(mode="after")
    def _complete(self) -> "StoreParams":
        if self.sharded and not self.cluster:
            raise ValueError("sharded needs cluster, the name of a cluster in the server's remote_servers")
        return self

    @model_validator(mode="after")
    def _encrypted(self) -> "StoreParams":
        url = urlsplit(self.url)
        if self.password_file is not None and self.password.get_secret_value():
            raise ValueError("password and password_file exclude each other")
        if self.key_file and not self.cert_file:
            raise ValueError("key_file needs a cert_file")
        if url.scheme == "https":
            return self
        if self.ca_file or self.cert_file:
            raise ValueError("ca_file and cert_file need an url with https://")
        if not self.plain_http and not is_loopback(url.netloc):
            raise ValueError(
                f"{url.netloc} is not on loopback: without TLS, others on the network can read the password and the"
                " data; use https://, or set plain_http = true for a network that nothing else reaches"
            )
        return self

    def secret(self) -> str:
        """Return the password, from its file if one is set; raises Misconfigured if the file is unreadable."""
        if self.password_file is None:
            return self.password.get_secret_value()
        try:
            return self.password_file.read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, ValueError) as error:
            raise Misconfigured(
                f"store.password_file: cannot read {self.password_file} ({error}); check the path and its permissions"
            ) from error


class SinkParams(BaseModel):
    """Settings of blocks, deduplication, retries and the consumer group."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    group: ClassVar[str] = "railsight-persist"
    """The consumer group."""
    linger_s: ClassVar[float] = 1.0
    """A block is closed at most this long after its first record; a row is queryable after at most this time."""
    linger_max_s: ClassVar[float] = 10.0
    """The same limit for continuous streams of samples and events, except for records after a silence of this length.

    Inserts take 2.2 CPU seconds per million rows in blocks of 10,000 rows (one second of a partition of the largest
    fabric), 1.7 in blocks of 20,000, 1.15 of 49,000 and 1.0 of 98,000 (chdb 26.9, the same run)."""
    linger_background_s: ClassVar[float] = 30.0
    """Like `linger_max_s` for events, for tables whose recent rows are rarely queried: statuses, symptoms, progress,
    facts. An insert of a few rows takes ClickHouse 12 ms of CPU, for each partition of each topic."""
    block_rows: ClassVar[int] = 131_072
    """Rows after which a block is closed."""
    block_bytes: ClassVar[int] = 32 << 20
    """Limit of record values in each partition's block, which limits the sink's memory."""
    deduplication_window_s: ClassVar[float] = 6 * 3600.0
    """Retention of a message's identity; the samples topic has the same retention."""
    retry_backoff_s: ClassVar[float] = 0.2
    """The first wait before a failed insert is repeated; it doubles up to `retry_backoff_max_s`."""
    retry_backoff_max_s: ClassVar[float] = 10.0
    """The longest wait before a failed insert is repeated."""
    session_timeout_s: ClassVar[float] = 10.0
    """After this time without a heartbeat, the group assigns a sink's partitions to another sink; brokers refuse less
    than 6 s."""
    report_interval_s: ClassVar[float] = 30.0
    """The interval of the log line with rows and lag."""
    rollups: bool = True
    """Fill samples_1m, sample_lanes_1m and the tables by hour, which boards read for long ranges and for the ports with
    the most pause; DECISIONS.md has their cost."""
