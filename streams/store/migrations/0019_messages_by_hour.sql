-- Messages of a device by hour, so that boards over a week do not read every message. The sink fills it from
-- sample_messages, an hour of arrival at a time (streams/store/persist/message_hours.py): an hour is complete also where
-- the clock of a device is wrong, and a late message does not change the hours before it.
-- ORDER BY the hour of arrival first: the boards of a fabric read all devices of a range.

CREATE TABLE IF NOT EXISTS sample_messages_1h (
    device LowCardinality(String) COMMENT 'name in the inventory',
    source LowCardinality(String) COMMENT 'gnmi, snmp, nic, host, bridge or probe',
    row_kind LowCardinality(String) COMMENT 'port, gpu or device',
    collector LowCardinality(String) COMMENT 'name of the collector',
    bucket DateTime('UTC') CODEC(DoubleDelta, LZ4) COMMENT 'start of the hour, event time',
    arrived_hour DateTime('UTC') CODEC(DoubleDelta, LZ4) COMMENT 'start of the hour of arrival',
    messages UInt32 CODEC(T64, LZ4) COMMENT 'messages sampled in the hour that arrived in arrived_hour',
    rows UInt64 CODEC(T64, LZ4) COMMENT 'rows of these messages',
    minutes UInt64 CODEC(LZ4) COMMENT 'a bit for each minute of the hour in which a message was sampled; the lowest is the first',
    last_sampled_at DateTime64(9, 'UTC') CODEC(Delta, LZ4) COMMENT 'newest time of sampling',
    delay_p99_s Float32 CODEC(LZ4) COMMENT '99th percentile of the time from sampling to arrival, in seconds',
    runs Array(UInt64) CODEC(LZ4) COMMENT 'the starts of the collector of which the messages are (collector_run)',
    arrived_at DateTime64(3, 'UTC') CODEC(DoubleDelta, LZ4) COMMENT 'latest arrival, from which the row expires'
)
ENGINE = ReplacingMergeTree(messages)
PARTITION BY toYYYYMM(arrived_at)
ORDER BY (arrived_hour, device, source, row_kind, collector, bucket)
TTL toDateTime(arrived_at) + INTERVAL 400 DAY DELETE
SETTINGS non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1, min_bytes_for_wide_part = 0,
    min_rows_for_wide_part = 400000
COMMENT 'Messages of a device by hour: how many, of how many rows, in which minutes and how late; a row for each source, collector, hour of sampling and hour of arrival';

ALTER TABLE sample_messages_1h MODIFY SETTING auto_statistics_types = '';

ALTER TABLE sample_messages_1h MODIFY SETTING merge_selector_enable_heuristic_to_remove_small_parts_at_right = 0;

ALTER TABLE sample_messages_1h MODIFY SETTING min_parts_to_merge_at_once = 16;

-- An hour is deleted before it is replaced, and DELETE fails on a part that lacks a column of the order because all its
-- values are the default, such as a collector without a name.
ALTER TABLE sample_messages_1h MODIFY SETTING skip_empty_columns_on_insert = 0;
