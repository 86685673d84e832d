-- Rollups: what a port or lane did in a minute and in an hour, so that a week is read in seconds.
-- samples_1m and sample_lanes_1m are filled by the sink with the block of samples that completes a minute, and so are
-- stored exactly once like it; a materialized view costs more (docs/adr/0010). samples_1h and sample_lanes_1h are
-- filled by the sink from them, an hour at a time, and again if a reading of the hour arrives later.
-- The increase of a counter goes from the first reading of a bucket to the first reading after it: no growth is lost
-- between buckets, and after a gap observed_s is longer than the bucket. increase / observed_s is the rate.
-- ORDER BY port first: boards read few ports over a long time. PARTITION BY bucket: queries of the whole fabric read few
-- days. Rows expire by arrival, never by event time, so that replayed history is not expired on sight.

CREATE TABLE IF NOT EXISTS samples_1m (
    device LowCardinality(String) COMMENT 'name in the inventory',
    row LowCardinality(String) COMMENT 'port, GPU or device name of the source (see the view port_names)',
    row_kind LowCardinality(String) COMMENT 'port, gpu or device',
    source LowCardinality(String) COMMENT 'gnmi, snmp, nic, host, bridge or probe',
    bucket DateTime('UTC') CODEC(DoubleDelta, LZ4) COMMENT 'start of the minute, event time',
    readings UInt32 CODEC(T64, LZ4) COMMENT 'readings in the minute',
    observed_s Float32 CODEC(LZ4) COMMENT 'seconds that the increases cover: first reading of the minute to first reading after it; 0: increases unknown',
    resets UInt16 CODEC(T64, LZ4) COMMENT 'counters of the port that decreased; their increase is NULL',
    rx_bytes_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'bytes; NULL: not read, or reset',
    tx_bytes_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'bytes; NULL: not read, or reset',
    rx_packets_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'packets; NULL: not read, or reset',
    tx_packets_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'packets; NULL: not read, or reset',
    rx_discards_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'packets; NULL: not read, or reset',
    tx_discards_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'packets; NULL: not read, or reset',
    rx_errors_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'errors; NULL: not read, or reset',
    tx_errors_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'errors; NULL: not read, or reset',
    link_down_events_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    rx_fcs_errors_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'errors; NULL: not read, or reset',
    rx_symbol_errors_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'errors; NULL: not read, or reset',
    fec_corrected_bits_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'bits; NULL: not read, or reset',
    rx_bits_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'bits; NULL: not read, or reset',
    fec_corrected_codewords_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'codewords; NULL: not read, or reset',
    fec_uncorrected_codewords_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'codewords; NULL: not read, or reset',
    link_transitions_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    pcs_symbol_errors_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'errors; NULL: not read, or reset',
    link_error_recoveries_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    local_link_integrity_errors_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'errors; NULL: not read, or reset',
    excessive_buffer_overruns_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    rx_remote_physical_errors_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'errors; NULL: not read, or reset',
    rx_switch_relay_errors_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'errors; NULL: not read, or reset',
    pause_rx_frames_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'frames; NULL: not read, or reset',
    pause_tx_frames_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'frames; NULL: not read, or reset',
    pause_storm_warnings_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    pause_storm_errors_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'errors; NULL: not read, or reset',
    rx_buffer_nearly_full_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    port_ecn_marked_packets_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'packets; NULL: not read, or reset',
    tx_wait_ticks_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'ticks; NULL: not read, or reset',
    cnp_sent_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    cnp_handled_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    roce_ecn_marked_packets_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'packets; NULL: not read, or reset',
    out_of_sequence_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    packet_sequence_errors_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'errors; NULL: not read, or reset',
    local_ack_timeouts_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    transport_retries_exceeded_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    adaptive_retransmits_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    roce_slow_restarts_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    rnr_nak_retries_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    out_of_buffer_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    rx_icrc_errors_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'errors; NULL: not read, or reset',
    pcie_stalled_read_seconds_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 's; NULL: not read, or reset',
    pcie_stalled_write_seconds_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 's; NULL: not read, or reset',
    cnp_ignored_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    pcie_rx_signal_errors_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'errors; NULL: not read, or reset',
    pcie_tx_signal_errors_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'errors; NULL: not read, or reset',
    implied_nak_sequence_errors_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'errors; NULL: not read, or reset',
    duplicate_requests_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    requester_cqe_errors_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'errors; NULL: not read, or reset',
    responder_cqe_errors_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'errors; NULL: not read, or reset',
    pcie_buffer_overflows_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    pcie_replays_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    gpu_ecc_uncorrected_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    oper_up_min Nullable(Float32) CODEC(LZ4) COMMENT 'bool; NULL: not read',
    oper_up_max Nullable(Float32) CODEC(LZ4) COMMENT 'bool; NULL: not read',
    oper_up_avg Nullable(Float32) CODEC(LZ4) COMMENT 'bool; NULL: not read',
    admin_up_min Nullable(Float32) CODEC(LZ4) COMMENT 'bool; NULL: not read',
    admin_up_max Nullable(Float32) CODEC(LZ4) COMMENT 'bool; NULL: not read',
    admin_up_avg Nullable(Float32) CODEC(LZ4) COMMENT 'bool; NULL: not read',
    speed_bps_min Nullable(Float32) CODEC(LZ4) COMMENT 'bit/s; NULL: not read',
    speed_bps_max Nullable(Float32) CODEC(LZ4) COMMENT 'bit/s; NULL: not read',
    speed_bps_avg Nullable(Float32) CODEC(LZ4) COMMENT 'bit/s; NULL: not read',
    pre_fec_ber_min Nullable(Float32) CODEC(LZ4) COMMENT 'ratio; NULL: not read',
    pre_fec_ber_max Nullable(Float32) CODEC(LZ4) COMMENT 'ratio; NULL: not read',
    pre_fec_ber_avg Nullable(Float32) CODEC(LZ4) COMMENT 'ratio; NULL: not read',
    post_fec_ber_min Nullable(Float32) CODEC(LZ4) COMMENT 'ratio; NULL: not read',
    post_fec_ber_max Nullable(Float32) CODEC(LZ4) COMMENT 'ratio; NULL: not read',
    post_fec_ber_avg Nullable(Float32) CODEC(LZ4) COMMENT 'ratio; NULL: not read',
    fec_flr_observed_min Nullable(Float32) CODEC(LZ4) COMMENT 'ratio; NULL: not read',
    fec_flr_observed_max Nullable(Float32) CODEC(LZ4) COMMENT 'ratio; NULL: not read',
    fec_flr_observed_avg Nullable(Float32) CODEC(LZ4) COMMENT 'ratio; NULL: not read',
    fec_flr_predicted_min Nullable(Float32) CODEC(LZ4) COMMENT 'ratio; NULL: not read',
    fec_flr_predicted_max Nullable(Float32) CODEC(LZ4) COMMENT 'ratio; NULL: not read',
    fec_flr_predicted_avg Nullable(Float32) CODEC(LZ4) COMMENT 'ratio; NULL: not read',
    damped_min Nullable(Float32) CODEC(LZ4) COMMENT 'bool; NULL: not read',
    damped_max Nullable(Float32) CODEC(LZ4) COMMENT 'bool; NULL: not read',
    damped_avg Nullable(Float32) CODEC(LZ4) COMMENT 'bool; NULL: not read',
    module_temperature_c_min Nullable(Float32) CODEC(LZ4) COMMENT '°C; NULL: not read',
    module_temperature_c_max Nullable(Float32) CODEC(LZ4) COMMENT '°C; NULL: not read',
    module_temperature_c_avg Nullable(Float32) CODEC(LZ4) COMMENT '°C; NULL: not read',
    module_voltage_v_min Nullable(Float32) CODEC(LZ4) COMMENT 'V; NULL: not read',
    module_voltage_v_max Nullable(Float32) CODEC(LZ4) COMMENT 'V; NULL: not read',
    module_voltage_v_avg Nullable(Float32) CODEC(LZ4) COMMENT 'V; NULL: not read',
    pcie_width_lanes_min Nullable(Float32) CODEC(LZ4) COMMENT 'lanes; NULL: not read',
    pcie_width_lanes_max Nullable(Float32) CODEC(LZ4) COMMENT 'lanes; NULL: not read',
    pcie_width_lanes_avg Nullable(Float32) CODEC(LZ4) COMMENT 'lanes; NULL: not read',
    pcie_speed_gtps_min Nullable(Float32) CODEC(LZ4) COMMENT 'GT/s; NULL: not read',
    pcie_speed_gtps_max Nullable(Float32) CODEC(LZ4) COMMENT 'GT/s; NULL: not read',
    pcie_speed_gtps_avg Nullable(Float32) CODEC(LZ4) COMMENT 'GT/s; NULL: not read',
    pcie_width_max_lanes_min Nullable(Float32) CODEC(LZ4) COMMENT 'lanes; NULL: not read',
    pcie_width_max_lanes_max Nullable(Float32) CODEC(LZ4) COMMENT 'lanes; NULL: not read',
    pcie_width_max_lanes_avg Nullable(Float32) CODEC(LZ4) COMMENT 'lanes; NULL: not read',
    pcie_speed_max_gtps_min Nullable(Float32) CODEC(LZ4) COMMENT 'GT/s; NULL: not read',
    pcie_speed_max_gtps_max Nullable(Float32) CODEC(LZ4) COMMENT 'GT/s; NULL: not read',
    pcie_speed_max_gtps_avg Nullable(Float32) CODEC(LZ4) COMMENT 'GT/s; NULL: not read',
    gpu_temperature_c_min Nullable(Float32) CODEC(LZ4) COMMENT '°C; NULL: not read',
    gpu_temperature_c_max Nullable(Float32) CODEC(LZ4) COMMENT '°C; NULL: not read',
    gpu_temperature_c_avg Nullable(Float32) CODEC(LZ4) COMMENT '°C; NULL: not read',
    gpu_utilization_ratio_min Nullable(Float32) CODEC(LZ4) COMMENT 'ratio; NULL: not read',
    gpu_utilization_ratio_max Nullable(Float32) CODEC(LZ4) COMMENT 'ratio; NULL: not read',
    gpu_utilization_ratio_avg Nullable(Float32) CODEC(LZ4) COMMENT 'ratio; NULL: not read',
    gpu_power_w_min Nullable(Float32) CODEC(LZ4) COMMENT 'W; NULL: not read',
    gpu_power_w_max Nullable(Float32) CODEC(LZ4) COMMENT 'W; NULL: not read',
    gpu_power_w_avg Nullable(Float32) CODEC(LZ4) COMMENT 'W; NULL: not read',
    kafka_partition UInt16 CODEC(LZ4) COMMENT 'of the record that completed the minute',
    kafka_offset Int64 CODEC(Delta, LZ4) COMMENT 'of the record that completed the minute',
    arrived_at DateTime64(3, 'UTC') CODEC(Delta, LZ4) COMMENT 'arrival of that record, from which the row expires',
    INDEX by_offset kafka_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(bucket)
ORDER BY (device, row, row_kind, source, bucket)
TTL toDateTime(arrived_at) + INTERVAL 30 DAY DELETE
SETTINGS non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1, min_bytes_for_wide_part = 0,
    min_rows_for_wide_part = 400000
COMMENT 'Scalar metrics: growth of counters; minimum, maximum and average of gauges; a row for each port and minute with readings';

CREATE TABLE IF NOT EXISTS samples_1h (
    device LowCardinality(String) COMMENT 'name in the inventory',
    row LowCardinality(String) COMMENT 'port, GPU or device name of the source (see the view port_names)',
    row_kind LowCardinality(String) COMMENT 'port, gpu or device',
    source LowCardinality(String) COMMENT 'gnmi, snmp, nic, host, bridge or probe',
    bucket DateTime('UTC') CODEC(DoubleDelta, LZ4) COMMENT 'start of the hour, event time',
    minutes UInt16 CODEC(T64, LZ4) COMMENT 'minutes of the hour with readings; 60: complete',
    readings UInt32 CODEC(T64, LZ4) COMMENT 'readings in the hour',
    observed_s Float32 CODEC(LZ4) COMMENT 'seconds that the increases cover',
    resets UInt16 CODEC(T64, LZ4) COMMENT 'decreases of counters',
    rx_bytes_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'bytes; NULL: not read, or reset',
    tx_bytes_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'bytes; NULL: not read, or reset',
    rx_packets_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'packets; NULL: not read, or reset',
    tx_packets_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'packets; NULL: not read, or reset',
    rx_discards_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'packets; NULL: not read, or reset',
    tx_discards_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'packets; NULL: not read, or reset',
    rx_errors_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'errors; NULL: not read, or reset',
    tx_errors_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'errors; NULL: not read, or reset',
    link_down_events_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    rx_fcs_errors_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'errors; NULL: not read, or reset',
    rx_symbol_errors_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'errors; NULL: not read, or reset',
    fec_corrected_bits_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'bits; NULL: not read, or reset',
    rx_bits_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'bits; NULL: not read, or reset',
    fec_corrected_codewords_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'codewords; NULL: not read, or reset',
    fec_uncorrected_codewords_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'codewords; NULL: not read, or reset',
    link_transitions_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    pcs_symbol_errors_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'errors; NULL: not read, or reset',
    link_error_recoveries_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    local_link_integrity_errors_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'errors; NULL: not read, or reset',
    excessive_buffer_overruns_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    rx_remote_physical_errors_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'errors; NULL: not read, or reset',
    rx_switch_relay_errors_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'errors; NULL: not read, or reset',
    pause_rx_frames_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'frames; NULL: not read, or reset',
    pause_tx_frames_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'frames; NULL: not read, or reset',
    pause_storm_warnings_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    pause_storm_errors_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'errors; NULL: not read, or reset',
    rx_buffer_nearly_full_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    port_ecn_marked_packets_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'packets; NULL: not read, or reset',
    tx_wait_ticks_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'ticks; NULL: not read, or reset',
    cnp_sent_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    cnp_handled_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    roce_ecn_marked_packets_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'packets; NULL: not read, or reset',
    out_of_sequence_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    packet_sequence_errors_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'errors; NULL: not read, or reset',
    local_ack_timeouts_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    transport_retries_exceeded_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    adaptive_retransmits_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    roce_slow_restarts_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    rnr_nak_retries_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    out_of_buffer_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    rx_icrc_errors_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'errors; NULL: not read, or reset',
    pcie_stalled_read_seconds_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 's; NULL: not read, or reset',
    pcie_stalled_write_seconds_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 's; NULL: not read, or reset',
    cnp_ignored_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    pcie_rx_signal_errors_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'errors; NULL: not read, or reset',
    pcie_tx_signal_errors_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'errors; NULL: not read, or reset',
    implied_nak_sequence_errors_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'errors; NULL: not read, or reset',
    duplicate_requests_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    requester_cqe_errors_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'errors; NULL: not read, or reset',
    responder_cqe_errors_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'errors; NULL: not read, or reset',
    pcie_buffer_overflows_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    pcie_replays_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    gpu_ecc_uncorrected_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset',
    oper_up_min Nullable(Float32) CODEC(LZ4) COMMENT 'bool; NULL: not read',
    oper_up_max Nullable(Float32) CODEC(LZ4) COMMENT 'bool; NULL: not read',
    oper_up_avg Nullable(Float32) CODEC(LZ4) COMMENT 'bool; NULL: not read',
    admin_up_min Nullable(Float32) CODEC(LZ4) COMMENT 'bool; NULL: not read',
    admin_up_max Nullable(Float32) CODEC(LZ4) COMMENT 'bool; NULL: not read',
    admin_up_avg Nullable(Float32) CODEC(LZ4) COMMENT 'bool; NULL: not read',
    speed_bps_min Nullable(Float32) CODEC(LZ4) COMMENT 'bit/s; NULL: not read',
    speed_bps_max Nullable(Float32) CODEC(LZ4) COMMENT 'bit/s; NULL: not read',
    speed_bps_avg Nullable(Float32) CODEC(LZ4) COMMENT 'bit/s; NULL: not read',
    pre_fec_ber_min Nullable(Float32) CODEC(LZ4) COMMENT 'ratio; NULL: not read',
    pre_fec_ber_max Nullable(Float32) CODEC(LZ4) COMMENT 'ratio; NULL: not read',
    pre_fec_ber_avg Nullable(Float32) CODEC(LZ4) COMMENT 'ratio; NULL: not read',
    post_fec_ber_min Nullable(Float32) CODEC(LZ4) COMMENT 'ratio; NULL: not read',
    post_fec_ber_max Nullable(Float32) CODEC(LZ4) COMMENT 'ratio; NULL: not read',
    post_fec_ber_avg Nullable(Float32) CODEC(LZ4) COMMENT 'ratio; NULL: not read',
    fec_flr_observed_min Nullable(Float32) CODEC(LZ4) COMMENT 'ratio; NULL: not read',
    fec_flr_observed_max Nullable(Float32) CODEC(LZ4) COMMENT 'ratio; NULL: not read',
    fec_flr_observed_avg Nullable(Float32) CODEC(LZ4) COMMENT 'ratio; NULL: not read',
    fec_flr_predicted_min Nullable(Float32) CODEC(LZ4) COMMENT 'ratio; NULL: not read',
    fec_flr_predicted_max Nullable(Float32) CODEC(LZ4) COMMENT 'ratio; NULL: not read',
    fec_flr_predicted_avg Nullable(Float32) CODEC(LZ4) COMMENT 'ratio; NULL: not read',
    damped_min Nullable(Float32) CODEC(LZ4) COMMENT 'bool; NULL: not read',
    damped_max Nullable(Float32) CODEC(LZ4) COMMENT 'bool; NULL: not read',
    damped_avg Nullable(Float32) CODEC(LZ4) COMMENT 'bool; NULL: not read',
    module_temperature_c_min Nullable(Float32) CODEC(LZ4) COMMENT '°C; NULL: not read',
    module_temperature_c_max Nullable(Float32) CODEC(LZ4) COMMENT '°C; NULL: not read',
    module_temperature_c_avg Nullable(Float32) CODEC(LZ4) COMMENT '°C; NULL: not read',
    module_voltage_v_min Nullable(Float32) CODEC(LZ4) COMMENT 'V; NULL: not read',
    module_voltage_v_max Nullable(Float32) CODEC(LZ4) COMMENT 'V; NULL: not read',
    module_voltage_v_avg Nullable(Float32) CODEC(LZ4) COMMENT 'V; NULL: not read',
    pcie_width_lanes_min Nullable(Float32) CODEC(LZ4) COMMENT 'lanes; NULL: not read',
    pcie_width_lanes_max Nullable(Float32) CODEC(LZ4) COMMENT 'lanes; NULL: not read',
    pcie_width_lanes_avg Nullable(Float32) CODEC(LZ4) COMMENT 'lanes; NULL: not read',
    pcie_speed_gtps_min Nullable(Float32) CODEC(LZ4) COMMENT 'GT/s; NULL: not read',
    pcie_speed_gtps_max Nullable(Float32) CODEC(LZ4) COMMENT 'GT/s; NULL: not read',
    pcie_speed_gtps_avg Nullable(Float32) CODEC(LZ4) COMMENT 'GT/s; NULL: not read',
    pcie_width_max_lanes_min Nullable(Float32) CODEC(LZ4) COMMENT 'lanes; NULL: not read',
    pcie_width_max_lanes_max Nullable(Float32) CODEC(LZ4) COMMENT 'lanes; NULL: not read',
    pcie_width_max_lanes_avg Nullable(Float32) CODEC(LZ4) COMMENT 'lanes; NULL: not read',
    pcie_speed_max_gtps_min Nullable(Float32) CODEC(LZ4) COMMENT 'GT/s; NULL: not read',
    pcie_speed_max_gtps_max Nullable(Float32) CODEC(LZ4) COMMENT 'GT/s; NULL: not read',
    pcie_speed_max_gtps_avg Nullable(Float32) CODEC(LZ4) COMMENT 'GT/s; NULL: not read',
    gpu_temperature_c_min Nullable(Float32) CODEC(LZ4) COMMENT '°C; NULL: not read',
    gpu_temperature_c_max Nullable(Float32) CODEC(LZ4) COMMENT '°C; NULL: not read',
    gpu_temperature_c_avg Nullable(Float32) CODEC(LZ4) COMMENT '°C; NULL: not read',
    gpu_utilization_ratio_min Nullable(Float32) CODEC(LZ4) COMMENT 'ratio; NULL: not read',
    gpu_utilization_ratio_max Nullable(Float32) CODEC(LZ4) COMMENT 'ratio; NULL: not read',
    gpu_utilization_ratio_avg Nullable(Float32) CODEC(LZ4) COMMENT 'ratio; NULL: not read',
    gpu_power_w_min Nullable(Float32) CODEC(LZ4) COMMENT 'W; NULL: not read',
    gpu_power_w_max Nullable(Float32) CODEC(LZ4) COMMENT 'W; NULL: not read',
    gpu_power_w_avg Nullable(Float32) CODEC(LZ4) COMMENT 'W; NULL: not read',
    arrived_at DateTime64(3, 'UTC') CODEC(Delta, LZ4) COMMENT 'latest arrival in the hour, from which the row expires'
)
ENGINE = ReplacingMergeTree(minutes)
PARTITION BY toYYYYMM(bucket)
ORDER BY (device, row, row_kind, source, bucket)
TTL toDateTime(arrived_at) + INTERVAL 400 DAY DELETE
SETTINGS non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1, min_bytes_for_wide_part = 0,
    min_rows_for_wide_part = 400000
COMMENT 'Scalar metrics: growth of counters; minimum, maximum and average of gauges; a row for each port and hour with readings';

CREATE TABLE IF NOT EXISTS sample_lanes_1m (
    device LowCardinality(String) COMMENT 'name in the inventory',
    row LowCardinality(String) COMMENT 'port, GPU or device name of the source (see the view port_names)',
    row_kind LowCardinality(String) COMMENT 'port, gpu or device',
    source LowCardinality(String) COMMENT 'gnmi, snmp, nic, host, bridge or probe',
    metric LowCardinality(String) COMMENT 'metric with a lane, priority, queue, bin, link or kind',
    `index` Int32 COMMENT 'number of the lane, priority, queue, bin, link or kind',
    bucket DateTime('UTC') CODEC(DoubleDelta, LZ4) COMMENT 'start of the minute, event time',
    readings UInt32 CODEC(T64, LZ4) COMMENT 'readings in the minute',
    observed_s Float32 CODEC(LZ4) COMMENT 'seconds that the increases cover: first reading of the minute to first reading after it; 0: increases unknown',
    resets UInt16 CODEC(T64, LZ4) COMMENT 'counters of the metric that decreased; their increase is NULL',
    increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'of a counter; NULL: a gauge, not read, or reset',
    value_min Nullable(Float32) CODEC(LZ4) COMMENT 'of a gauge; NULL: a counter, or not read',
    value_max Nullable(Float32) CODEC(LZ4) COMMENT 'of a gauge; NULL: a counter, or not read',
    value_avg Nullable(Float32) CODEC(LZ4) COMMENT 'of a gauge; NULL: a counter, or not read',
    kafka_partition UInt16 CODEC(LZ4) COMMENT 'of the record that completed the minute',
    kafka_offset Int64 CODEC(Delta, LZ4) COMMENT 'of the record that completed the minute',
    arrived_at DateTime64(3, 'UTC') CODEC(Delta, LZ4) COMMENT 'arrival of that record, from which the row expires',
    INDEX by_offset kafka_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(bucket)
ORDER BY (device, row, row_kind, source, metric, `index`, bucket)
TTL toDateTime(arrived_at) + INTERVAL 30 DAY DELETE
SETTINGS non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1, min_bytes_for_wide_part = 0,
    min_rows_for_wide_part = 400000
COMMENT 'Metrics by lane, priority or queue: growth of counters; minimum, maximum and average of gauges; a row for each lane and minute with readings';

CREATE TABLE IF NOT EXISTS sample_lanes_1h (
    device LowCardinality(String) COMMENT 'name in the inventory',
    row LowCardinality(String) COMMENT 'port, GPU or device name of the source (see the view port_names)',
    row_kind LowCardinality(String) COMMENT 'port, gpu or device',
    source LowCardinality(String) COMMENT 'gnmi, snmp, nic, host, bridge or probe',
    metric LowCardinality(String) COMMENT 'metric with a lane, priority, queue, bin, link or kind',
    `index` Int32 COMMENT 'number of the lane, priority, queue, bin, link or kind',
    bucket DateTime('UTC') CODEC(DoubleDelta, LZ4) COMMENT 'start of the hour, event time',
    minutes UInt16 CODEC(T64, LZ4) COMMENT 'minutes of the hour with readings; 60: complete',
    readings UInt32 CODEC(T64, LZ4) COMMENT 'readings in the hour',
    observed_s Float32 CODEC(LZ4) COMMENT 'seconds that the increases cover',
    resets UInt16 CODEC(T64, LZ4) COMMENT 'decreases of counters',
    increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'of a counter; NULL: a gauge, not read, or reset',
    value_min Nullable(Float32) CODEC(LZ4) COMMENT 'of a gauge; NULL: a counter, or not read',
    value_max Nullable(Float32) CODEC(LZ4) COMMENT 'of a gauge; NULL: a counter, or not read',
    value_avg Nullable(Float32) CODEC(LZ4) COMMENT 'of a gauge; NULL: a counter, or not read',
    arrived_at DateTime64(3, 'UTC') CODEC(Delta, LZ4) COMMENT 'latest arrival in the hour, from which the row expires'
)
ENGINE = ReplacingMergeTree(minutes)
PARTITION BY toYYYYMM(bucket)
ORDER BY (device, row, row_kind, source, metric, `index`, bucket)
TTL toDateTime(arrived_at) + INTERVAL 400 DAY DELETE
SETTINGS non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1, min_bytes_for_wide_part = 0,
    min_rows_for_wide_part = 400000
COMMENT 'Metrics by lane, priority or queue: growth of counters; minimum, maximum and average of gauges; a row for each lane and hour with readings';

ALTER TABLE samples_1m MODIFY SETTING nullable_serialization_version = 'allow_sparse';

ALTER TABLE samples_1m MODIFY SETTING auto_statistics_types = '';

ALTER TABLE samples_1m MODIFY SETTING merge_selector_enable_heuristic_to_remove_small_parts_at_right = 0;

ALTER TABLE samples_1m MODIFY SETTING min_parts_to_merge_at_once = 16;

ALTER TABLE sample_lanes_1m MODIFY SETTING nullable_serialization_version = 'allow_sparse';

ALTER TABLE sample_lanes_1m MODIFY SETTING auto_statistics_types = '';

ALTER TABLE sample_lanes_1m MODIFY SETTING merge_selector_enable_heuristic_to_remove_small_parts_at_right = 0;

ALTER TABLE sample_lanes_1m MODIFY SETTING min_parts_to_merge_at_once = 16;

ALTER TABLE samples_1h MODIFY SETTING nullable_serialization_version = 'allow_sparse';

ALTER TABLE samples_1h MODIFY SETTING auto_statistics_types = '';

ALTER TABLE samples_1h MODIFY SETTING merge_selector_enable_heuristic_to_remove_small_parts_at_right = 0;

ALTER TABLE samples_1h MODIFY SETTING min_parts_to_merge_at_once = 16;

ALTER TABLE sample_lanes_1h MODIFY SETTING nullable_serialization_version = 'allow_sparse';

ALTER TABLE sample_lanes_1h MODIFY SETTING auto_statistics_types = '';

ALTER TABLE sample_lanes_1h MODIFY SETTING merge_selector_enable_heuristic_to_remove_small_parts_at_right = 0;

ALTER TABLE sample_lanes_1h MODIFY SETTING min_parts_to_merge_at_once = 16;
