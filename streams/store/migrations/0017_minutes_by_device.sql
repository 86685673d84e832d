-- samples_1m in the order of its blocks, by device and minute, and cheaper to keep: a block needs no sorting, and a merge
--   copies runs of rows: insert and merge take two thirds of the CPU, and the rows a fifth fewer bytes
--   (docs/benchmarks.md). A port's rows stand among those of its device.
-- Rollups by minute are copied: the time of the upgrade (docs/upgrade.md). The new table remembers no tokens: end the
-- sinks in order before this, or a block in doubt may come twice.
-- Run again whole where it was cut short: whatever of the two tables is called samples_1m has every row.

DROP TABLE IF EXISTS samples_1m_next SETTINGS max_table_size_to_drop = 0;

CREATE TABLE IF NOT EXISTS samples_1m_next AS samples_1m
ENGINE = MergeTree
PARTITION BY toDate(bucket)
ORDER BY (device, bucket)
TTL toDateTime(arrived_at) + INTERVAL 30 DAY DELETE
SETTINGS non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1, min_bytes_for_wide_part = 0,
    min_rows_for_wide_part = 400000
COMMENT 'Scalar metrics: growth of counters; minimum, maximum and average of gauges; a row for each port and minute with readings';

ALTER TABLE samples_1m_next MODIFY SETTING nullable_serialization_version = 'allow_sparse';

ALTER TABLE samples_1m_next MODIFY SETTING auto_statistics_types = '';

ALTER TABLE samples_1m_next MODIFY SETTING merge_selector_enable_heuristic_to_remove_small_parts_at_right = 0;

ALTER TABLE samples_1m_next MODIFY SETTING min_parts_to_merge_at_once = 16;

ALTER TABLE samples_1m_next MODIFY SETTING skip_empty_columns_on_insert = 1,
    serialization_info_version = 'with_missing_columns';

INSERT INTO samples_1m_next SELECT * FROM samples_1m SETTINGS max_partitions_per_insert_block = 0, insert_deduplicate = 0;

EXCHANGE TABLES samples_1m AND samples_1m_next;

DROP TABLE samples_1m_next SETTINGS max_table_size_to_drop = 0;
