-- Conclusions and what people and automation answer. Every revision is kept; of two with one id the higher holds,
-- whichever came first, and the views ending in _latest show that one.
-- Rows expire by arrival, never by event time, so that replayed history is not gone on sight.
-- kafka_partition and kafka_offset say which record a row came from; the deduplication window remembers the last
-- 10,000 blocks of a table, more than the sink writes in 20 minutes at the full rate.

CREATE TABLE IF NOT EXISTS findings (
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
    cause LowCardinality(String),
    confidence Nullable(Float64),
    parent_id String,
    occurrences Nullable(UInt32),
    shadow Bool,
    hosts Array(String),
    jobs Array(String),
    gpus Nullable(UInt32),
    capacity_lost_ratio Nullable(Float64),
    coverage_seen Nullable(UInt32),
    coverage_expected Nullable(UInt32),
    coverage_missing Array(String),
    evidence Array(String),
    detector_version LowCardinality(String),
    settings_digest String,
    inventory_digest String,
    runbook_url String,
    dashboard_url String,
    json String CODEC(ZSTD(3)),
    kafka_partition UInt16 CODEC(ZSTD(1)),
    kafka_offset Int64 CODEC(Delta, ZSTD(1)),
    arrived_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    INDEX by_offset kafka_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(arrived_at)
ORDER BY (id, revision)
TTL toDateTime(arrived_at) + INTERVAL 400 DAY DELETE
SETTINGS non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1;

CREATE VIEW IF NOT EXISTS findings_latest AS
SELECT * FROM findings
WHERE (id, revision) IN (SELECT id, max(revision) FROM findings GROUP BY id)
LIMIT 1 BY id;

CREATE TABLE IF NOT EXISTS remediations (
    id String,
    revision UInt64,
    finding_ids Array(String),
    action LowCardinality(String),
    verdict LowCardinality(String),
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
    reason String,
    constraint_name LowCardinality(String),
    constraint_limit Nullable(Float64),
    constraint_observed Nullable(Float64),
    decided_at Nullable(DateTime64(9, 'UTC')),
    expires_at Nullable(DateTime64(9, 'UTC')),
    surviving_capacity_ratio Nullable(Float64),
    repair_hint String,
    approved_by String,
    runbook_url String,
    json String CODEC(ZSTD(3)),
    kafka_partition UInt16 CODEC(ZSTD(1)),
    kafka_offset Int64 CODEC(Delta, ZSTD(1)),
    arrived_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    INDEX by_offset kafka_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(arrived_at)
ORDER BY (id, revision)
TTL toDateTime(arrived_at) + INTERVAL 400 DAY DELETE
SETTINGS non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1;

CREATE VIEW IF NOT EXISTS remediations_latest AS
SELECT * FROM remediations
WHERE (id, revision) IN (SELECT id, max(revision) FROM remediations GROUP BY id)
LIMIT 1 BY id;

CREATE TABLE IF NOT EXISTS remediation_results (
    remediation_id String,
    outcome LowCardinality(String),
    at Nullable(DateTime64(9, 'UTC')),
    actor String,
    detail String,
    kafka_partition UInt16 CODEC(ZSTD(1)),
    kafka_offset Int64 CODEC(Delta, ZSTD(1)),
    arrived_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    INDEX by_offset kafka_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(arrived_at)
ORDER BY (remediation_id, kafka_offset)
TTL toDateTime(arrived_at) + INTERVAL 400 DAY DELETE
SETTINGS non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1;

CREATE TABLE IF NOT EXISTS controls (
    id String,
    kind LowCardinality(String),
    subject_id String,
    at Nullable(DateTime64(9, 'UTC')),
    until Nullable(DateTime64(9, 'UTC')),
    actor String,
    reason String,
    kafka_partition UInt16 CODEC(ZSTD(1)),
    kafka_offset Int64 CODEC(Delta, ZSTD(1)),
    arrived_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    INDEX by_offset kafka_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(arrived_at)
ORDER BY (id, kafka_offset)
TTL toDateTime(arrived_at) + INTERVAL 400 DAY DELETE
SETTINGS non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1;

CREATE TABLE IF NOT EXISTS rejected (
    topic LowCardinality(String),
    partition UInt32,
    offset Int64,
    stage LowCardinality(String),
    reason String,
    at DateTime64(9, 'UTC'),
    value String CODEC(ZSTD(3)),
    kafka_partition UInt16 CODEC(ZSTD(1)),
    kafka_offset Int64 CODEC(Delta, ZSTD(1)),
    arrived_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    INDEX by_offset kafka_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(arrived_at)
ORDER BY (topic, partition, offset)
TTL toDateTime(arrived_at) + INTERVAL 90 DAY DELETE
SETTINGS non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1;
