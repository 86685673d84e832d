-- samples by message, and cheaper to keep: a third of the CPU of 0001's (9.0 -> 3.0 s a million rows in one run on a
-- busy machine, chdb 26.9, blocks of 98,304 rows, 24 metrics of 85, merges included) at 43 bytes a row (44).
--   ORDER BY (device, source, sampled_at): a message stays one run of rows; merging rows one by one cost 1.6 times as
--     much. A port's rows stand in its device's granules, and are found as soon (13 and 11 ms over 9 and 4 parts).
--   T64, LZ4 for counters: as small as Delta, ZSTD(1) in the old order, 0.6 of its CPU at insert; Delta, LZ4 takes 1.5
--     times the bytes.
--   Parts are wide from 400,000 rows: a merge then goes column by column, 1.7 times as cheap; blocks of the sink stay
--     compact, for a file or two for each of 85 columns costs more than the rows.
--   No statistics of columns (0.5 of the CPU of a merge), sparse columns for what is absent (0.9), and merges of at
--     least 32 parts: two merges in the life of a row up to 100 M rows a part, where the default makes seven.
-- Settings that a server does not know are left out (migrate.py): they change what rows cost, not what they are.
-- The new table remembers no tokens: end the sinks in order before this, or a block in doubt may come twice.
-- Run again whole where it was cut short: whatever of the two tables is called samples has every row.

CREATE TABLE IF NOT EXISTS samples_next (
    device LowCardinality(String),
    source LowCardinality(String),
    row_kind LowCardinality(String),
    row LowCardinality(String),
    sampled_at DateTime64(9, 'UTC') CODEC(Delta, LZ4),
    received_at DateTime64(9, 'UTC') CODEC(Delta, LZ4),
    boot_id UInt64 CODEC(LZ4),
    collector LowCardinality(String),
    collector_run UInt64 CODEC(LZ4),
    sequence UInt64 CODEC(Delta, LZ4),
    rx_bytes Nullable(UInt64) CODEC(T64, LZ4),
    tx_bytes Nullable(UInt64) CODEC(T64, LZ4),
    rx_packets Nullable(UInt64) CODEC(T64, LZ4),
    tx_packets Nullable(UInt64) CODEC(T64, LZ4),
    rx_discards Nullable(UInt64) CODEC(T64, LZ4),
    tx_discards Nullable(UInt64) CODEC(T64, LZ4),
    rx_errors Nullable(UInt64) CODEC(T64, LZ4),
    tx_errors Nullable(UInt64) CODEC(T64, LZ4),
    link_down_events Nullable(UInt64) CODEC(T64, LZ4),
    rx_fcs_errors Nullable(UInt64) CODEC(T64, LZ4),
    rx_symbol_errors Nullable(UInt64) CODEC(T64, LZ4),
    fec_corrected_bits Nullable(UInt64) CODEC(T64, LZ4),
    rx_bits Nullable(UInt64) CODEC(T64, LZ4),
    fec_corrected_codewords Nullable(UInt64) CODEC(T64, LZ4),
    fec_uncorrected_codewords Nullable(UInt64) CODEC(T64, LZ4),
    link_transitions Nullable(UInt64) CODEC(T64, LZ4),
    pcs_symbol_errors Nullable(UInt64) CODEC(T64, LZ4),
    link_error_recoveries Nullable(UInt64) CODEC(T64, LZ4),
    local_link_integrity_errors Nullable(UInt64) CODEC(T64, LZ4),
    excessive_buffer_overruns Nullable(UInt64) CODEC(T64, LZ4),
    rx_remote_physical_errors Nullable(UInt64) CODEC(T64, LZ4),
    rx_switch_relay_errors Nullable(UInt64) CODEC(T64, LZ4),
    oper_up Nullable(Float64) CODEC(LZ4),
    admin_up Nullable(Float64) CODEC(LZ4),
    speed_bps Nullable(Float64) CODEC(LZ4),
    pre_fec_ber Nullable(Float64) CODEC(LZ4),
    post_fec_ber Nullable(Float64) CODEC(LZ4),
    fec_flr_observed Nullable(Float64) CODEC(LZ4),
    fec_flr_predicted Nullable(Float64) CODEC(LZ4),
    damped Nullable(Float64) CODEC(LZ4),
    module_temperature_c Nullable(Float64) CODEC(LZ4),
    module_voltage_v Nullable(Float64) CODEC(LZ4),
    pause_rx_frames Nullable(UInt64) CODEC(T64, LZ4),
    pause_tx_frames Nullable(UInt64) CODEC(T64, LZ4),
    pause_storm_warnings Nullable(UInt64) CODEC(T64, LZ4),
    pause_storm_errors Nullable(UInt64) CODEC(T64, LZ4),
    rx_buffer_nearly_full Nullable(UInt64) CODEC(T64, LZ4),
    port_ecn_marked_packets Nullable(UInt64) CODEC(T64, LZ4),
    tx_wait_ticks Nullable(UInt64) CODEC(T64, LZ4),
    cnp_sent Nullable(UInt64) CODEC(T64, LZ4),
    cnp_handled Nullable(UInt64) CODEC(T64, LZ4),
    roce_ecn_marked_packets Nullable(UInt64) CODEC(T64, LZ4),
    out_of_sequence Nullable(UInt64) CODEC(T64, LZ4),
    packet_sequence_errors Nullable(UInt64) CODEC(T64, LZ4),
    local_ack_timeouts Nullable(UInt64) CODEC(T64, LZ4),
    transport_retries_exceeded Nullable(UInt64) CODEC(T64, LZ4),
    adaptive_retransmits Nullable(UInt64) CODEC(T64, LZ4),
    roce_slow_restarts Nullable(UInt64) CODEC(T64, LZ4),
    rnr_nak_retries Nullable(UInt64) CODEC(T64, LZ4),
    out_of_buffer Nullable(UInt64) CODEC(T64, LZ4),
    rx_icrc_errors Nullable(UInt64) CODEC(T64, LZ4),
    pcie_stalled_read_seconds Nullable(UInt64) CODEC(T64, LZ4),
    pcie_stalled_write_seconds Nullable(UInt64) CODEC(T64, LZ4),
    cnp_ignored Nullable(UInt64) CODEC(T64, LZ4),
    pcie_rx_signal_errors Nullable(UInt64) CODEC(T64, LZ4),
    pcie_tx_signal_errors Nullable(UInt64) CODEC(T64, LZ4),
    implied_nak_sequence_errors Nullable(UInt64) CODEC(T64, LZ4),
    duplicate_requests Nullable(UInt64) CODEC(T64, LZ4),
    requester_cqe_errors Nullable(UInt64) CODEC(T64, LZ4),
    responder_cqe_errors Nullable(UInt64) CODEC(T64, LZ4),
    pcie_buffer_overflows Nullable(UInt64) CODEC(T64, LZ4),
    pcie_width_lanes Nullable(Float64) CODEC(LZ4),
    pcie_speed_gtps Nullable(Float64) CODEC(LZ4),
    pcie_width_max_lanes Nullable(Float64) CODEC(LZ4),
    pcie_speed_max_gtps Nullable(Float64) CODEC(LZ4),
    gpu_temperature_c Nullable(Float64) CODEC(LZ4),
    gpu_utilization_ratio Nullable(Float64) CODEC(LZ4),
    gpu_power_w Nullable(Float64) CODEC(LZ4),
    pcie_replays Nullable(UInt64) CODEC(T64, LZ4),
    gpu_ecc_uncorrected Nullable(UInt64) CODEC(T64, LZ4),
    kafka_partition UInt16 CODEC(LZ4),
    kafka_offset Int64 CODEC(Delta, LZ4),
    arrived_at DateTime64(3, 'UTC') CODEC(Delta, LZ4),
    INDEX by_offset kafka_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(arrived_at)
ORDER BY (device, source, sampled_at)
TTL toDateTime(arrived_at) + INTERVAL 7 DAY DELETE
SETTINGS non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1, min_bytes_for_wide_part = 0,
    min_rows_for_wide_part = 400000;

TRUNCATE TABLE samples_next SETTINGS max_table_size_to_drop = 0;

INSERT INTO samples_next SELECT * FROM samples SETTINGS max_partitions_per_insert_block = 0, insert_deduplicate = 0;

EXCHANGE TABLES samples AND samples_next;

DROP TABLE samples_next SETTINGS max_table_size_to_drop = 0;

ALTER TABLE samples MODIFY SETTING nullable_serialization_version = 'allow_sparse';

ALTER TABLE samples MODIFY SETTING min_parts_to_merge_at_once = 32;

ALTER TABLE samples MODIFY SETTING max_bytes_to_merge_at_max_space_in_pool = 4294967296;

ALTER TABLE samples MODIFY SETTING auto_statistics_types = '';

ALTER TABLE sample_lanes MODIFY SETTING auto_statistics_types = '';

ALTER TABLE sample_messages MODIFY SETTING auto_statistics_types = '';
