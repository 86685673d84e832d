-- What the stages say to each other, and the inventory, for those who look into the pipeline.
-- Rows expire by arrival, never by event time, so that replayed history is not gone on sight.
-- kafka_partition and kafka_offset say which record a row came from; the deduplication window remembers the last
-- 10,000 blocks of a table, more than the sink writes in 20 minutes at the full rate.

CREATE TABLE IF NOT EXISTS progress (
    stage LowCardinality(String),
    partition UInt32,
    epoch UInt64,
    watermark Nullable(DateTime64(9, 'UTC')),
    after_offset Int64,
    records UInt64,
    lag Int64,
    kafka_partition UInt16 CODEC(ZSTD(1)),
    kafka_offset Int64 CODEC(Delta, ZSTD(1)),
    arrived_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    INDEX by_offset kafka_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(arrived_at)
ORDER BY (stage, partition, arrived_at)
TTL toDateTime(arrived_at) + INTERVAL 30 DAY DELETE
SETTINGS non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1;

CREATE TABLE IF NOT EXISTS symptoms (
    device LowCardinality(String),
    port LowCardinality(String),
    kind LowCardinality(String),
    at DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1)),
    since Nullable(DateTime64(9, 'UTC')),
    source LowCardinality(String),
    by_event Bool,
    count UInt64,
    boot_id UInt64,
    collector LowCardinality(String),
    collector_silent Bool,
    detail String,
    cadence_ns Int64,
    kafka_partition UInt16 CODEC(ZSTD(1)),
    kafka_offset Int64 CODEC(Delta, ZSTD(1)),
    arrived_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    INDEX by_offset kafka_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(arrived_at)
ORDER BY (device, port, at)
TTL toDateTime(arrived_at) + INTERVAL 30 DAY DELETE
SETTINGS non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1;

CREATE TABLE IF NOT EXISTS episodes (
    id String,
    revision UInt64,
    final Bool,
    condition LowCardinality(String),
    detector LowCardinality(String),
    status LowCardinality(String),
    severity LowCardinality(String),
    subject_id String,
    a_device LowCardinality(String),
    a_port LowCardinality(String),
    z_device LowCardinality(String),
    z_port LowCardinality(String),
    role LowCardinality(String),
    rail Nullable(Int32),
    plane Nullable(Int32),
    pod LowCardinality(String),
    site LowCardinality(String),
    team LowCardinality(String),
    former_ids Array(String),
    started_at DateTime64(9, 'UTC'),
    observed_at DateTime64(9, 'UTC'),
    resolved_at Nullable(DateTime64(9, 'UTC')),
    detected_at Nullable(DateTime64(9, 'UTC')),
    summary String,
    down_at Array(DateTime64(9, 'UTC')),
    json String CODEC(ZSTD(3)),
    kafka_partition UInt16 CODEC(ZSTD(1)),
    kafka_offset Int64 CODEC(Delta, ZSTD(1)),
    arrived_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    INDEX by_offset kafka_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(arrived_at)
ORDER BY (id, revision)
TTL toDateTime(arrived_at) + INTERVAL 30 DAY DELETE
SETTINGS non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1;

CREATE TABLE IF NOT EXISTS inventory_devices (
    digest String,
    effective_at DateTime64(9, 'UTC'),
    name String,
    kind LowCardinality(String),
    tier LowCardinality(String),
    pod LowCardinality(String),
    plane Nullable(Int32),
    vendor LowCardinality(String),
    model LowCardinality(String),
    gpus UInt32,
    id String,
    serial String,
    firmware LowCardinality(String),
    site LowCardinality(String),
    team LowCardinality(String),
    maintenance_until Nullable(DateTime64(9, 'UTC')),
    kafka_partition UInt16 CODEC(ZSTD(1)),
    kafka_offset Int64 CODEC(Delta, ZSTD(1)),
    arrived_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    INDEX by_offset kafka_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(arrived_at)
ORDER BY (effective_at, digest, name)
TTL toDateTime(arrived_at) + INTERVAL 400 DAY DELETE
SETTINGS non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1;

CREATE TABLE IF NOT EXISTS inventory_links (
    digest String,
    effective_at DateTime64(9, 'UTC'),
    id String,
    a_device String,
    a_port LowCardinality(String),
    z_device String,
    z_port LowCardinality(String),
    role LowCardinality(String),
    rail Nullable(Int32),
    plane Nullable(Int32),
    pod LowCardinality(String),
    speed_bps Nullable(UInt64),
    kafka_partition UInt16 CODEC(ZSTD(1)),
    kafka_offset Int64 CODEC(Delta, ZSTD(1)),
    arrived_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    INDEX by_offset kafka_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(arrived_at)
ORDER BY (effective_at, digest, id)
TTL toDateTime(arrived_at) + INTERVAL 400 DAY DELETE
SETTINGS non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1;

CREATE TABLE IF NOT EXISTS inventory_jobs (
    digest String,
    effective_at DateTime64(9, 'UTC'),
    job String,
    device String,
    start DateTime64(9, 'UTC'),
    end Nullable(DateTime64(9, 'UTC')),
    kafka_partition UInt16 CODEC(ZSTD(1)),
    kafka_offset Int64 CODEC(Delta, ZSTD(1)),
    arrived_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    INDEX by_offset kafka_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(arrived_at)
ORDER BY (effective_at, digest, job, device)
TTL toDateTime(arrived_at) + INTERVAL 400 DAY DELETE
SETTINGS non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1;

CREATE TABLE IF NOT EXISTS jobs (
    job String,
    device String,
    start DateTime64(9, 'UTC'),
    end Nullable(DateTime64(9, 'UTC')),
    kafka_partition UInt16 CODEC(ZSTD(1)),
    kafka_offset Int64 CODEC(Delta, ZSTD(1)),
    arrived_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    INDEX by_offset kafka_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(arrived_at)
ORDER BY (job, device, kafka_offset)
TTL toDateTime(arrived_at) + INTERVAL 400 DAY DELETE
SETTINGS non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1;
