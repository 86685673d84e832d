-- Adds what the repair desk needs: of each revision of a remediation the cause, the repair step, the part number and the
-- outcome of the repair; and the lemon scores, of which every calculation is retained.
-- A view stores its columns when it is created, so the view is created again.

ALTER TABLE remediations ADD COLUMN IF NOT EXISTS cause LowCardinality(String) AFTER penalty;

ALTER TABLE remediations ADD COLUMN IF NOT EXISTS repair_step LowCardinality(String) AFTER cause;

ALTER TABLE remediations ADD COLUMN IF NOT EXISTS part_number LowCardinality(String) AFTER repair_step;

ALTER TABLE remediations ADD COLUMN IF NOT EXISTS repair_outcome LowCardinality(String) AFTER part_number;

DROP VIEW IF EXISTS remediations_latest;

CREATE VIEW IF NOT EXISTS remediations_latest AS
SELECT * FROM remediations
WHERE (id, revision) IN (SELECT id, max(revision) FROM remediations GROUP BY id)
LIMIT 1 BY id;

CREATE TABLE IF NOT EXISTS lemons (
    kind LowCardinality(String),
    subject_id String,
    part_kind LowCardinality(String),
    since Nullable(DateTime64(9, 'UTC')),
    until Nullable(DateTime64(9, 'UTC')),
    findings UInt32,
    failed_repairs UInt32,
    relapses UInt32,
    events UInt32,
    exposure UInt32,
    fleet_events UInt32,
    fleet_exposure UInt32,
    ratio Nullable(Float64),
    ratio_low Nullable(Float64),
    ratio_high Nullable(Float64),
    kafka_partition UInt16 CODEC(ZSTD(1)),
    kafka_offset Int64 CODEC(Delta, ZSTD(1)),
    arrived_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    INDEX by_offset kafka_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(arrived_at)
ORDER BY (kind, subject_id, kafka_offset)
TTL toDateTime(arrived_at) + INTERVAL 400 DAY DELETE
SETTINGS non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1;
