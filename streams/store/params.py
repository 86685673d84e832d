"""Settings of the ClickHouse connection and of the sink."""

from pydantic import BaseModel, ConfigDict, Field, SecretStr


class StoreParams(BaseModel):
    """One ClickHouse server or cluster, over HTTP."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str = Field(default="http://127.0.0.1:8123", pattern=r"^https?://[^/?#@\s]+/?$")
    user: str = "default"
    password: SecretStr = SecretStr("")
    database: str = Field(default="railsight", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    timeout_s: float = Field(default=60.0, gt=0)
    """Limit of one request; a request that takes longer is repeated, which duplicates nothing."""


class SinkParams(BaseModel):
    """Settings of blocks, deduplication, retries and the consumer group."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    group: str = "railsight-persist"
    instance: str | None = None
    """A static group member id, unique in the group: after a kill the sink gets its partitions back at once."""
    linger_s: float = Field(default=1.0, gt=0)
    """A block is closed at most this long after its first record, so a row is at most this old when it can be read."""
    linger_max_s: float = Field(default=10.0, gt=0)
    """The same limit for samples whose block has `bulk_rows` after `linger_s`, and for continuous streams of events,
    except for records that follow a silence of this length.

    Inserts take 2.2 CPU seconds a million rows in blocks of 10,000 rows (a second of a partition of the largest
    fabric), 1.7 of 20,000, 1.15 of 49,000 and 1.0 of 98,000 (chdb 26.9, the same run)."""
    linger_background_s: float = Field(default=30.0, gt=0)
    """As `linger_max_s` for events, for tables that are rarely queried for recent rows: statuses, symptoms, progress,
    facts. An insert of a few rows takes ClickHouse 12 ms of CPU, and each partition of each topic has its own."""
    bulk_rows: int = Field(default=1000, ge=1)
    """A block with fewer rows after `linger_s` is stored at once: at that rate a million rows take a quarter of an
    hour."""
    block_rows: int = Field(default=131_072, ge=1, le=1_000_000)
    block_bytes: int = Field(default=32 << 20, ge=1024)
    """Limit of record values in each partition's block; it bounds the sink's memory."""
    deduplication_window_s: float = Field(default=6 * 3600.0, gt=0)
    """Retention of a message's identity; the samples topic has the same retention."""
    retry_backoff_s: float = Field(default=0.2, gt=0)
    retry_backoff_max_s: float = Field(default=10.0, gt=0)
    session_timeout_s: float = Field(default=10.0, ge=6.0, le=300.0)
    """After this long without a heartbeat the group assigns a sink's partitions to another; brokers refuse less than
    6 s."""
    report_interval_s: float = Field(default=30.0, gt=0)
    rollups: bool = True
    """Fill samples_1m, sample_lanes_1m and the tables by hour, which boards read for long times; docs/benchmarks.md has
    what they cost."""
