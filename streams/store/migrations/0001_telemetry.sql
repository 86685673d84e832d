-- Telemetry as it came. samples: a row for each port (or GPU, or device) of a reading, a column for each scalar metric,
-- NULL where it was not read. sample_lanes: what has a lane, a priority, a queue or a bin. sample_messages: one row a
-- message, which is how the sink knows a reading that is sent again.
-- Parts of samples stay compact up to 1 GiB: with a file or two for each of 85 columns, blocks of 16,384 rows cost
-- 2.5 times the CPU, of 131,072 rows 1.5 to 2 times (chdb 26.9, 24 metrics a row, merges included).
-- Rows expire by arrival, never by event time, so that replayed history is not gone on sight.
-- kafka_partition and kafka_offset say which record a row came from; the deduplication window remembers the last
-- 10,000 blocks of a table, more than the sink writes in 20 minutes at the full rate.

CREATE TABLE IF NOT EXISTS samples (
    device LowCardinality(String),
    source LowCardinality(String),
    row_kind LowCardinality(String),
    row LowCardinality(String),
    sampled_at DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1)),
    received_at DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1)),
    boot_id UInt64 CODEC(ZSTD(1)),
    collector LowCardinality(String),
    collector_run UInt64 CODEC(ZSTD(1)),
    sequence UInt64 CODEC(Delta, ZSTD(1)),
    rx_bytes Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    tx_bytes Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    rx_packets Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    tx_packets Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    rx_discards Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    tx_discards Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    rx_errors Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    tx_errors Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    link_down_events Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    rx_fcs_errors Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    rx_symbol_errors Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    fec_corrected_bits Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    rx_bits Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    fec_corrected_codewords Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    fec_uncorrected_codewords Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    link_transitions Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    pcs_symbol_errors Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    link_error_recoveries Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    local_link_integrity_errors Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    excessive_buffer_overruns Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    rx_remote_physical_errors Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    rx_switch_relay_errors Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    oper_up Nullable(Float64) CODEC(ZSTD(1)),
    admin_up Nullable(Float64) CODEC(ZSTD(1)),
    speed_bps Nullable(Float64) CODEC(ZSTD(1)),
    pre_fec_ber Nullable(Float64) CODEC(ZSTD(1)),
    post_fec_ber Nullable(Float64) CODEC(ZSTD(1)),
    fec_flr_observed Nullable(Float64) CODEC(ZSTD(1)),
    fec_flr_predicted Nullable(Float64) CODEC(ZSTD(1)),
    damped Nullable(Float64) CODEC(ZSTD(1)),
    module_temperature_c Nullable(Float64) CODEC(ZSTD(1)),
    module_voltage_v Nullable(Float64) CODEC(ZSTD(1)),
    pause_rx_frames Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    pause_tx_frames Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    pause_storm_warnings Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    pause_storm_errors Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    rx_buffer_nearly_full Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    port_ecn_marked_packets Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    tx_wait_ticks Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    cnp_sent Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    cnp_handled Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    roce_ecn_marked_packets Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    out_of_sequence Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    packet_sequence_errors Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    local_ack_timeouts Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    transport_retries_exceeded Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    adaptive_retransmits Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    roce_slow_restarts Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    rnr_nak_retries Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    out_of_buffer Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    rx_icrc_errors Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    pcie_stalled_read_seconds Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    pcie_stalled_write_seconds Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    cnp_ignored Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    pcie_rx_signal_errors Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    pcie_tx_signal_errors Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    implied_nak_sequence_errors Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    duplicate_requests Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    requester_cqe_errors Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    responder_cqe_errors Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    pcie_buffer_overflows Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    pcie_width_lanes Nullable(Float64) CODEC(ZSTD(1)),
    pcie_speed_gtps Nullable(Float64) CODEC(ZSTD(1)),
    pcie_width_max_lanes Nullable(Float64) CODEC(ZSTD(1)),
    pcie_speed_max_gtps Nullable(Float64) CODEC(ZSTD(1)),
    gpu_temperature_c Nullable(Float64) CODEC(ZSTD(1)),
    gpu_utilization_ratio Nullable(Float64) CODEC(ZSTD(1)),
    gpu_power_w Nullable(Float64) CODEC(ZSTD(1)),
    pcie_replays Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    gpu_ecc_uncorrected Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    kafka_partition UInt16 CODEC(ZSTD(1)),
    kafka_offset Int64 CODEC(Delta, ZSTD(1)),
    arrived_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    INDEX by_offset kafka_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(arrived_at)
ORDER BY (device, row, source, sampled_at)
TTL toDateTime(arrived_at) + INTERVAL 7 DAY DELETE
SETTINGS non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1, min_bytes_for_wide_part = 1073741824;

CREATE TABLE IF NOT EXISTS sample_lanes (
    device LowCardinality(String),
    source LowCardinality(String),
    row_kind LowCardinality(String),
    row LowCardinality(String),
    metric LowCardinality(String),
    `index` Int32 CODEC(ZSTD(1)),
    sampled_at DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1)),
    counter Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    gauge Nullable(Float64) CODEC(ZSTD(1)),
    value Float64 ALIAS coalesce(toFloat64(counter), gauge, nan),
    kafka_partition UInt16 CODEC(ZSTD(1)),
    kafka_offset Int64 CODEC(Delta, ZSTD(1)),
    arrived_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    INDEX by_offset kafka_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(arrived_at)
ORDER BY (device, row, metric, `index`, source, sampled_at)
TTL toDateTime(arrived_at) + INTERVAL 7 DAY DELETE
SETTINGS non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1;

CREATE TABLE IF NOT EXISTS sample_messages (
    device LowCardinality(String),
    source LowCardinality(String),
    row_kind LowCardinality(String),
    collector LowCardinality(String),
    collector_run UInt64 CODEC(ZSTD(1)),
    sequence UInt64 CODEC(Delta, ZSTD(1)),
    rows UInt32 CODEC(ZSTD(1)),
    boot_id UInt64 CODEC(ZSTD(1)),
    sampled_at DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1)),
    received_at DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1)),
    kafka_partition UInt16 CODEC(ZSTD(1)),
    kafka_offset Int64 CODEC(Delta, ZSTD(1)),
    arrived_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    INDEX by_offset kafka_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(arrived_at)
ORDER BY (device, source, sampled_at)
TTL toDateTime(arrived_at) + INTERVAL 30 DAY DELETE
SETTINGS non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1;

CREATE TABLE IF NOT EXISTS events (
    device LowCardinality(String),
    port LowCardinality(String),
    kind LowCardinality(String),
    at DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1)),
    received_at DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1)),
    source LowCardinality(String),
    collector LowCardinality(String),
    collector_run UInt64,
    sequence UInt64,
    code Int64,
    detail String CODEC(ZSTD(1)),
    kafka_partition UInt16 CODEC(ZSTD(1)),
    kafka_offset Int64 CODEC(Delta, ZSTD(1)),
    arrived_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    INDEX by_offset kafka_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(arrived_at)
ORDER BY (device, port, at)
TTL toDateTime(arrived_at) + INTERVAL 90 DAY DELETE
SETTINGS non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1;

CREATE TABLE IF NOT EXISTS facts (
    device LowCardinality(String),
    source LowCardinality(String),
    observed_at DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1)),
    vendor LowCardinality(String),
    model LowCardinality(String),
    os_version LowCardinality(String),
    booted_at Nullable(DateTime64(9, 'UTC')),
    serial String,
    components Nested(name String, kind String, part_number String, serial String, firmware String, alias Array(String), limits String),
    neighbors Nested(port String, remote_device String, remote_port String),
    kafka_partition UInt16 CODEC(ZSTD(1)),
    kafka_offset Int64 CODEC(Delta, ZSTD(1)),
    arrived_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    INDEX by_offset kafka_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(arrived_at)
ORDER BY (device, source, observed_at)
TTL toDateTime(arrived_at) + INTERVAL 90 DAY DELETE
SETTINGS non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1;

CREATE TABLE IF NOT EXISTS collector_status (
    device LowCardinality(String),
    source LowCardinality(String),
    collector LowCardinality(String),
    collector_run UInt64,
    at DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1)),
    reachable Bool,
    error String,
    last_sample_at Nullable(DateTime64(9, 'UTC')),
    clock_offset_ns Int64,
    cadence_ns Int64,
    kafka_partition UInt16 CODEC(ZSTD(1)),
    kafka_offset Int64 CODEC(Delta, ZSTD(1)),
    arrived_at DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    INDEX by_offset kafka_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(arrived_at)
ORDER BY (device, source, collector, at)
TTL toDateTime(arrived_at) + INTERVAL 90 DAY DELETE
SETTINGS non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1;
