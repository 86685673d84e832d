-- Adds the metrics of fabrics of 2026 to samples, their rollups and the view of rates (hardware retransmits, NVLinks,
-- limits of power, links that send frames again, trimmed packets, InfiniBand), and the NVLink domain of hosts and the
-- load balancing of switches to the inventory.

ALTER TABLE samples
    ADD COLUMN IF NOT EXISTS retransmitted_packets Nullable(UInt64) CODEC(T64, LZ4) AFTER pcie_buffer_overflows,
    ADD COLUMN IF NOT EXISTS retransmitted_bytes Nullable(UInt64) CODEC(T64, LZ4) AFTER retransmitted_packets,
    ADD COLUMN IF NOT EXISTS unresponsive_remotes Nullable(UInt64) CODEC(T64, LZ4) AFTER retransmitted_bytes,
    ADD COLUMN IF NOT EXISTS impaired_connections Nullable(UInt64) CODEC(T64, LZ4) AFTER unresponsive_remotes,
    ADD COLUMN IF NOT EXISTS nvlink_links Nullable(Float64) CODEC(LZ4) AFTER gpu_ecc_uncorrected,
    ADD COLUMN IF NOT EXISTS nvlink_links_up Nullable(Float64) CODEC(LZ4) AFTER nvlink_links,
    ADD COLUMN IF NOT EXISTS gpu_fabric_state Nullable(Float64) CODEC(LZ4) AFTER nvlink_links_up,
    ADD COLUMN IF NOT EXISTS gpu_power_limit_w Nullable(Float64) CODEC(LZ4) AFTER gpu_fabric_state,
    ADD COLUMN IF NOT EXISTS gpu_power_limit_set_w Nullable(Float64) CODEC(LZ4) AFTER gpu_power_limit_w,
    ADD COLUMN IF NOT EXISTS gpu_recovery_action Nullable(Float64) CODEC(LZ4) AFTER gpu_power_limit_set_w,
    ADD COLUMN IF NOT EXISTS llr_tx_replays Nullable(UInt64) CODEC(T64, LZ4) AFTER gpu_recovery_action,
    ADD COLUMN IF NOT EXISTS llr_tx_discards Nullable(UInt64) CODEC(T64, LZ4) AFTER llr_tx_replays,
    ADD COLUMN IF NOT EXISTS llr_rx_ok Nullable(UInt64) CODEC(T64, LZ4) AFTER llr_tx_discards,
    ADD COLUMN IF NOT EXISTS llr_rx_bad Nullable(UInt64) CODEC(T64, LZ4) AFTER llr_rx_ok,
    ADD COLUMN IF NOT EXISTS llr_rx_poisoned Nullable(UInt64) CODEC(T64, LZ4) AFTER llr_rx_bad,
    ADD COLUMN IF NOT EXISTS trimmed_packets Nullable(UInt64) CODEC(T64, LZ4) AFTER llr_rx_poisoned,
    ADD COLUMN IF NOT EXISTS trimmed_tx_packets Nullable(UInt64) CODEC(T64, LZ4) AFTER trimmed_packets,
    ADD COLUMN IF NOT EXISTS trimmed_dropped_packets Nullable(UInt64) CODEC(T64, LZ4) AFTER trimmed_tx_packets,
    ADD COLUMN IF NOT EXISTS tx_wait_bytes Nullable(UInt64) CODEC(T64, LZ4) AFTER gpu_ecc_uncorrected,
    ADD COLUMN IF NOT EXISTS hoq_lifetime_discards Nullable(UInt64) CODEC(T64, LZ4) AFTER tx_wait_bytes,
    ADD COLUMN IF NOT EXISTS uncorrected_symbols Nullable(UInt64) CODEC(T64, LZ4) AFTER hoq_lifetime_discards,
    ADD COLUMN IF NOT EXISTS plr_rx_errors Nullable(UInt64) CODEC(T64, LZ4) AFTER uncorrected_symbols,
    ADD COLUMN IF NOT EXISTS plr_rx_uncorrectable Nullable(UInt64) CODEC(T64, LZ4) AFTER plr_rx_errors,
    ADD COLUMN IF NOT EXISTS plr_tx_retries Nullable(UInt64) CODEC(T64, LZ4) AFTER plr_rx_uncorrectable,
    ADD COLUMN IF NOT EXISTS plr_tx_retry_events Nullable(UInt64) CODEC(T64, LZ4) AFTER plr_tx_retries;

ALTER TABLE samples_1m
    ADD COLUMN IF NOT EXISTS retransmitted_packets_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'packets; NULL: not read, or reset' AFTER pcie_buffer_overflows_increase,
    ADD COLUMN IF NOT EXISTS retransmitted_bytes_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'bytes; NULL: not read, or reset' AFTER retransmitted_packets_increase,
    ADD COLUMN IF NOT EXISTS unresponsive_remotes_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset' AFTER retransmitted_bytes_increase,
    ADD COLUMN IF NOT EXISTS impaired_connections_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset' AFTER unresponsive_remotes_increase,
    ADD COLUMN IF NOT EXISTS nvlink_links_min Nullable(Float32) CODEC(LZ4) COMMENT 'links; NULL: not read' AFTER gpu_ecc_uncorrected_increase,
    ADD COLUMN IF NOT EXISTS nvlink_links_max Nullable(Float32) CODEC(LZ4) COMMENT 'links; NULL: not read' AFTER nvlink_links_min,
    ADD COLUMN IF NOT EXISTS nvlink_links_avg Nullable(Float32) CODEC(LZ4) COMMENT 'links; NULL: not read' AFTER nvlink_links_max,
    ADD COLUMN IF NOT EXISTS nvlink_links_up_min Nullable(Float32) CODEC(LZ4) COMMENT 'links; NULL: not read' AFTER nvlink_links_avg,
    ADD COLUMN IF NOT EXISTS nvlink_links_up_max Nullable(Float32) CODEC(LZ4) COMMENT 'links; NULL: not read' AFTER nvlink_links_up_min,
    ADD COLUMN IF NOT EXISTS nvlink_links_up_avg Nullable(Float32) CODEC(LZ4) COMMENT 'links; NULL: not read' AFTER nvlink_links_up_max,
    ADD COLUMN IF NOT EXISTS gpu_fabric_state_min Nullable(Float32) CODEC(LZ4) COMMENT 'state; NULL: not read' AFTER nvlink_links_up_avg,
    ADD COLUMN IF NOT EXISTS gpu_fabric_state_max Nullable(Float32) CODEC(LZ4) COMMENT 'state; NULL: not read' AFTER gpu_fabric_state_min,
    ADD COLUMN IF NOT EXISTS gpu_fabric_state_avg Nullable(Float32) CODEC(LZ4) COMMENT 'state; NULL: not read' AFTER gpu_fabric_state_max,
    ADD COLUMN IF NOT EXISTS gpu_power_limit_w_min Nullable(Float32) CODEC(LZ4) COMMENT 'W; NULL: not read' AFTER gpu_fabric_state_avg,
    ADD COLUMN IF NOT EXISTS gpu_power_limit_w_max Nullable(Float32) CODEC(LZ4) COMMENT 'W; NULL: not read' AFTER gpu_power_limit_w_min,
    ADD COLUMN IF NOT EXISTS gpu_power_limit_w_avg Nullable(Float32) CODEC(LZ4) COMMENT 'W; NULL: not read' AFTER gpu_power_limit_w_max,
    ADD COLUMN IF NOT EXISTS gpu_power_limit_set_w_min Nullable(Float32) CODEC(LZ4) COMMENT 'W; NULL: not read' AFTER gpu_power_limit_w_avg,
    ADD COLUMN IF NOT EXISTS gpu_power_limit_set_w_max Nullable(Float32) CODEC(LZ4) COMMENT 'W; NULL: not read' AFTER gpu_power_limit_set_w_min,
    ADD COLUMN IF NOT EXISTS gpu_power_limit_set_w_avg Nullable(Float32) CODEC(LZ4) COMMENT 'W; NULL: not read' AFTER gpu_power_limit_set_w_max,
    ADD COLUMN IF NOT EXISTS gpu_recovery_action_min Nullable(Float32) CODEC(LZ4) COMMENT 'state; NULL: not read' AFTER gpu_power_limit_set_w_avg,
    ADD COLUMN IF NOT EXISTS gpu_recovery_action_max Nullable(Float32) CODEC(LZ4) COMMENT 'state; NULL: not read' AFTER gpu_recovery_action_min,
    ADD COLUMN IF NOT EXISTS gpu_recovery_action_avg Nullable(Float32) CODEC(LZ4) COMMENT 'state; NULL: not read' AFTER gpu_recovery_action_max,
    ADD COLUMN IF NOT EXISTS llr_tx_replays_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset' AFTER gpu_recovery_action_avg,
    ADD COLUMN IF NOT EXISTS llr_tx_discards_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'frames; NULL: not read, or reset' AFTER llr_tx_replays_increase,
    ADD COLUMN IF NOT EXISTS llr_rx_ok_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'frames; NULL: not read, or reset' AFTER llr_tx_discards_increase,
    ADD COLUMN IF NOT EXISTS llr_rx_bad_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'frames; NULL: not read, or reset' AFTER llr_rx_ok_increase,
    ADD COLUMN IF NOT EXISTS llr_rx_poisoned_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'frames; NULL: not read, or reset' AFTER llr_rx_bad_increase,
    ADD COLUMN IF NOT EXISTS trimmed_packets_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'packets; NULL: not read, or reset' AFTER llr_rx_poisoned_increase,
    ADD COLUMN IF NOT EXISTS trimmed_tx_packets_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'packets; NULL: not read, or reset' AFTER trimmed_packets_increase,
    ADD COLUMN IF NOT EXISTS trimmed_dropped_packets_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'packets; NULL: not read, or reset' AFTER trimmed_tx_packets_increase,
    ADD COLUMN IF NOT EXISTS tx_wait_bytes_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'bytes; NULL: not read, or reset' AFTER gpu_ecc_uncorrected_increase,
    ADD COLUMN IF NOT EXISTS hoq_lifetime_discards_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'packets; NULL: not read, or reset' AFTER tx_wait_bytes_increase,
    ADD COLUMN IF NOT EXISTS uncorrected_symbols_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'errors; NULL: not read, or reset' AFTER hoq_lifetime_discards_increase,
    ADD COLUMN IF NOT EXISTS plr_rx_errors_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'codes; NULL: not read, or reset' AFTER uncorrected_symbols_increase,
    ADD COLUMN IF NOT EXISTS plr_rx_uncorrectable_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'codes; NULL: not read, or reset' AFTER plr_rx_errors_increase,
    ADD COLUMN IF NOT EXISTS plr_tx_retries_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'codes; NULL: not read, or reset' AFTER plr_rx_uncorrectable_increase,
    ADD COLUMN IF NOT EXISTS plr_tx_retry_events_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset' AFTER plr_tx_retries_increase;

ALTER TABLE samples_1h
    ADD COLUMN IF NOT EXISTS retransmitted_packets_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'packets; NULL: not read, or reset' AFTER pcie_buffer_overflows_increase,
    ADD COLUMN IF NOT EXISTS retransmitted_bytes_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'bytes; NULL: not read, or reset' AFTER retransmitted_packets_increase,
    ADD COLUMN IF NOT EXISTS unresponsive_remotes_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset' AFTER retransmitted_bytes_increase,
    ADD COLUMN IF NOT EXISTS impaired_connections_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset' AFTER unresponsive_remotes_increase,
    ADD COLUMN IF NOT EXISTS nvlink_links_min Nullable(Float32) CODEC(LZ4) COMMENT 'links; NULL: not read' AFTER gpu_ecc_uncorrected_increase,
    ADD COLUMN IF NOT EXISTS nvlink_links_max Nullable(Float32) CODEC(LZ4) COMMENT 'links; NULL: not read' AFTER nvlink_links_min,
    ADD COLUMN IF NOT EXISTS nvlink_links_avg Nullable(Float32) CODEC(LZ4) COMMENT 'links; NULL: not read' AFTER nvlink_links_max,
    ADD COLUMN IF NOT EXISTS nvlink_links_up_min Nullable(Float32) CODEC(LZ4) COMMENT 'links; NULL: not read' AFTER nvlink_links_avg,
    ADD COLUMN IF NOT EXISTS nvlink_links_up_max Nullable(Float32) CODEC(LZ4) COMMENT 'links; NULL: not read' AFTER nvlink_links_up_min,
    ADD COLUMN IF NOT EXISTS nvlink_links_up_avg Nullable(Float32) CODEC(LZ4) COMMENT 'links; NULL: not read' AFTER nvlink_links_up_max,
    ADD COLUMN IF NOT EXISTS gpu_fabric_state_min Nullable(Float32) CODEC(LZ4) COMMENT 'state; NULL: not read' AFTER nvlink_links_up_avg,
    ADD COLUMN IF NOT EXISTS gpu_fabric_state_max Nullable(Float32) CODEC(LZ4) COMMENT 'state; NULL: not read' AFTER gpu_fabric_state_min,
    ADD COLUMN IF NOT EXISTS gpu_fabric_state_avg Nullable(Float32) CODEC(LZ4) COMMENT 'state; NULL: not read' AFTER gpu_fabric_state_max,
    ADD COLUMN IF NOT EXISTS gpu_power_limit_w_min Nullable(Float32) CODEC(LZ4) COMMENT 'W; NULL: not read' AFTER gpu_fabric_state_avg,
    ADD COLUMN IF NOT EXISTS gpu_power_limit_w_max Nullable(Float32) CODEC(LZ4) COMMENT 'W; NULL: not read' AFTER gpu_power_limit_w_min,
    ADD COLUMN IF NOT EXISTS gpu_power_limit_w_avg Nullable(Float32) CODEC(LZ4) COMMENT 'W; NULL: not read' AFTER gpu_power_limit_w_max,
    ADD COLUMN IF NOT EXISTS gpu_power_limit_set_w_min Nullable(Float32) CODEC(LZ4) COMMENT 'W; NULL: not read' AFTER gpu_power_limit_w_avg,
    ADD COLUMN IF NOT EXISTS gpu_power_limit_set_w_max Nullable(Float32) CODEC(LZ4) COMMENT 'W; NULL: not read' AFTER gpu_power_limit_set_w_min,
    ADD COLUMN IF NOT EXISTS gpu_power_limit_set_w_avg Nullable(Float32) CODEC(LZ4) COMMENT 'W; NULL: not read' AFTER gpu_power_limit_set_w_max,
    ADD COLUMN IF NOT EXISTS gpu_recovery_action_min Nullable(Float32) CODEC(LZ4) COMMENT 'state; NULL: not read' AFTER gpu_power_limit_set_w_avg,
    ADD COLUMN IF NOT EXISTS gpu_recovery_action_max Nullable(Float32) CODEC(LZ4) COMMENT 'state; NULL: not read' AFTER gpu_recovery_action_min,
    ADD COLUMN IF NOT EXISTS gpu_recovery_action_avg Nullable(Float32) CODEC(LZ4) COMMENT 'state; NULL: not read' AFTER gpu_recovery_action_max,
    ADD COLUMN IF NOT EXISTS llr_tx_replays_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset' AFTER gpu_recovery_action_avg,
    ADD COLUMN IF NOT EXISTS llr_tx_discards_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'frames; NULL: not read, or reset' AFTER llr_tx_replays_increase,
    ADD COLUMN IF NOT EXISTS llr_rx_ok_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'frames; NULL: not read, or reset' AFTER llr_tx_discards_increase,
    ADD COLUMN IF NOT EXISTS llr_rx_bad_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'frames; NULL: not read, or reset' AFTER llr_rx_ok_increase,
    ADD COLUMN IF NOT EXISTS llr_rx_poisoned_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'frames; NULL: not read, or reset' AFTER llr_rx_bad_increase,
    ADD COLUMN IF NOT EXISTS trimmed_packets_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'packets; NULL: not read, or reset' AFTER llr_rx_poisoned_increase,
    ADD COLUMN IF NOT EXISTS trimmed_tx_packets_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'packets; NULL: not read, or reset' AFTER trimmed_packets_increase,
    ADD COLUMN IF NOT EXISTS trimmed_dropped_packets_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'packets; NULL: not read, or reset' AFTER trimmed_tx_packets_increase,
    ADD COLUMN IF NOT EXISTS tx_wait_bytes_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'bytes; NULL: not read, or reset' AFTER gpu_ecc_uncorrected_increase,
    ADD COLUMN IF NOT EXISTS hoq_lifetime_discards_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'packets; NULL: not read, or reset' AFTER tx_wait_bytes_increase,
    ADD COLUMN IF NOT EXISTS uncorrected_symbols_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'errors; NULL: not read, or reset' AFTER hoq_lifetime_discards_increase,
    ADD COLUMN IF NOT EXISTS plr_rx_errors_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'codes; NULL: not read, or reset' AFTER uncorrected_symbols_increase,
    ADD COLUMN IF NOT EXISTS plr_rx_uncorrectable_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'codes; NULL: not read, or reset' AFTER plr_rx_errors_increase,
    ADD COLUMN IF NOT EXISTS plr_tx_retries_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'codes; NULL: not read, or reset' AFTER plr_rx_uncorrectable_increase,
    ADD COLUMN IF NOT EXISTS plr_tx_retry_events_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset' AFTER plr_tx_retries_increase;

ALTER TABLE inventory_devices
    ADD COLUMN IF NOT EXISTS domain LowCardinality(String) AFTER tenant,
    ADD COLUMN IF NOT EXISTS load_balancing LowCardinality(String) AFTER domain;

DROP VIEW IF EXISTS counter_rates;

CREATE VIEW IF NOT EXISTS counter_rates (
    at DateTime64(9, 'UTC') COMMENT 'time of the reading',
    source LowCardinality(String) COMMENT 'gnmi, snmp, nic, host, bridge, probe, ib or otlp',
    row LowCardinality(String) COMMENT 'name of the port at this source',
    value UInt64 COMMENT 'reading of the counter',
    seconds Nullable(Float64) COMMENT 'since the reading before; NULL: the first',
    increase Nullable(UInt64) COMMENT 'since the reading before; NULL: the first, or after a reset',
    rate Nullable(Float64) COMMENT 'increase a second',
    is_reset Bool COMMENT 'the counter decreased, or the device has another boot id'
)
COMMENT 'Rates of a scalar counter of a port between its readings: {device}, {port} (name in the inventory), {metric}, {since}, {until}'
AS SELECT at, source, row, value, if(is_first, NULL, dateDiff('millisecond', before_at, at) / 1000) AS seconds,
    if(is_first OR is_reset, NULL, toNullable(value - before)) AS increase, increase / nullIf(seconds, 0) AS rate, NOT is_first AND decreased AS is_reset
FROM (
    SELECT *, lagInFrame(value, 1, 0) OVER w AS before, lagInFrame(at, 1, at) OVER w AS before_at, row_number() OVER w = 1 AS is_first,
        value < before OR boot_id != lagInFrame(boot_id, 1, boot_id) OVER w AS decreased
    FROM (
        SELECT sampled_at AS at, source, row, boot_id, assumeNotNull(reading) AS value
        FROM (
            SELECT sampled_at, source, row, boot_id, arrayElement(
                [rx_bytes, tx_bytes, rx_packets, tx_packets, rx_discards, tx_discards, rx_errors, tx_errors,
                link_down_events, rx_fcs_errors, rx_symbol_errors, fec_corrected_bits, rx_bits, fec_corrected_codewords,
                fec_uncorrected_codewords, link_transitions, pcs_symbol_errors, link_error_recoveries,
                local_link_integrity_errors, excessive_buffer_overruns, rx_remote_physical_errors,
                rx_switch_relay_errors, pause_rx_frames, pause_tx_frames, pause_storm_warnings, pause_storm_errors,
                rx_buffer_nearly_full, port_ecn_marked_packets, tx_wait_ticks, cnp_sent, cnp_handled,
                roce_ecn_marked_packets, out_of_sequence, packet_sequence_errors, local_ack_timeouts,
                transport_retries_exceeded, adaptive_retransmits, roce_slow_restarts, rnr_nak_retries, out_of_buffer,
                rx_icrc_errors, pcie_stalled_read_seconds, pcie_stalled_write_seconds, cnp_ignored,
                pcie_rx_signal_errors, pcie_tx_signal_errors, implied_nak_sequence_errors, duplicate_requests,
                requester_cqe_errors, responder_cqe_errors, pcie_buffer_overflows, pcie_replays, gpu_ecc_uncorrected,
                retransmitted_packets, retransmitted_bytes, unresponsive_remotes, impaired_connections, llr_tx_replays,
                llr_tx_discards, llr_rx_ok, llr_rx_bad, llr_rx_poisoned, tx_wait_bytes, hoq_lifetime_discards,
                uncorrected_symbols, plr_rx_errors, plr_rx_uncorrectable, plr_tx_retries, plr_tx_retry_events,
                trimmed_packets, trimmed_tx_packets, trimmed_dropped_packets],
                indexOf(['rx_bytes', 'tx_bytes', 'rx_packets', 'tx_packets', 'rx_discards', 'tx_discards', 'rx_errors',
                'tx_errors', 'link_down_events', 'rx_fcs_errors', 'rx_symbol_errors', 'fec_corrected_bits', 'rx_bits',
                'fec_corrected_codewords', 'fec_uncorrected_codewords', 'link_transitions', 'pcs_symbol_errors',
                'link_error_recoveries', 'local_link_integrity_errors', 'excessive_buffer_overruns',
                'rx_remote_physical_errors', 'rx_switch_relay_errors', 'pause_rx_frames', 'pause_tx_frames',
                'pause_storm_warnings', 'pause_storm_errors', 'rx_buffer_nearly_full', 'port_ecn_marked_packets',
                'tx_wait_ticks', 'cnp_sent', 'cnp_handled', 'roce_ecn_marked_packets', 'out_of_sequence',
                'packet_sequence_errors', 'local_ack_timeouts', 'transport_retries_exceeded', 'adaptive_retransmits',
                'roce_slow_restarts', 'rnr_nak_retries', 'out_of_buffer', 'rx_icrc_errors', 'pcie_stalled_read_seconds',
                'pcie_stalled_write_seconds', 'cnp_ignored', 'pcie_rx_signal_errors', 'pcie_tx_signal_errors',
                'implied_nak_sequence_errors', 'duplicate_requests', 'requester_cqe_errors', 'responder_cqe_errors',
                'pcie_buffer_overflows', 'pcie_replays', 'gpu_ecc_uncorrected', 'retransmitted_packets',
                'retransmitted_bytes', 'unresponsive_remotes', 'impaired_connections', 'llr_tx_replays',
                'llr_tx_discards', 'llr_rx_ok', 'llr_rx_bad', 'llr_rx_poisoned', 'tx_wait_bytes',
                'hoq_lifetime_discards', 'uncorrected_symbols', 'plr_rx_errors', 'plr_rx_uncorrectable',
                'plr_tx_retries', 'plr_tx_retry_events', 'trimmed_packets', 'trimmed_tx_packets',
                'trimmed_dropped_packets'], {metric:String})
            ) AS reading
            FROM samples
            WHERE device = {device:String} AND sampled_at >= {since:DateTime64(9, 'UTC')} AND sampled_at < {until:DateTime64(9, 'UTC')}
                AND (row = {port:String} OR row IN (SELECT row FROM port_names WHERE device = {device:String} AND port = {port:String}))
        )
        WHERE reading IS NOT NULL
    )
    WINDOW w AS (PARTITION BY source, row ORDER BY at ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)
)
ORDER BY source, row, at;
