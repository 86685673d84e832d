-- job_against_fabric adds up each counter of a port and source as a column before it is joined with the inventory. A row
-- of each counter for each port and bucket took many times as long (`railsight bench queries`). Of several sources the
-- one that counted most counts.

DROP VIEW IF EXISTS job_against_fabric_1m;

CREATE VIEW IF NOT EXISTS job_against_fabric_1m (
    metric String COMMENT 'counter',
    job_ports UInt64 COMMENT 'ports of the job with readings of it',
    job_per_port_hour Nullable(Float64) COMMENT 'growth in an hour of a port of the job',
    fabric_ports UInt64 COMMENT 'ports of other hosts with readings of it',
    fabric_per_port_hour Nullable(Float64) COMMENT 'growth in an hour of a port of other hosts',
    ratio Nullable(Float64) COMMENT 'of the two; NULL where the fabric has none'
)
COMMENT 'Error and congestion counters of the host links of a job against those of all other hosts in the same time, from rollups of a minute: {job}, {since}, {until}'
AS SELECT counter.1 AS metric, sumIf(counter.2, in_job) AS job_ports, sumIf(counter.3, in_job) * 3600 / nullIf(sumIf(counter.4, in_job), 0) AS job_per_port_hour,
    sumIf(counter.2, NOT in_job) AS fabric_ports, sumIf(counter.3, NOT in_job) * 3600 / nullIf(sumIf(counter.4, NOT in_job), 0) AS fabric_per_port_hour,
    job_per_port_hour / nullIf(fabric_per_port_hour, 0) AS ratio
FROM (
    SELECT in_job, [
        ('rx_discards', count(rx_discards), sum(rx_discards), sumIf(rx_discards_s, rx_discards IS NOT NULL)),
        ('tx_discards', count(tx_discards), sum(tx_discards), sumIf(tx_discards_s, tx_discards IS NOT NULL)),
        ('rx_errors', count(rx_errors), sum(rx_errors), sumIf(rx_errors_s, rx_errors IS NOT NULL)),
        ('tx_errors', count(tx_errors), sum(tx_errors), sumIf(tx_errors_s, tx_errors IS NOT NULL)),
        ('rx_fcs_errors', count(rx_fcs_errors), sum(rx_fcs_errors), sumIf(rx_fcs_errors_s, rx_fcs_errors IS NOT NULL)),
        ('rx_symbol_errors', count(rx_symbol_errors), sum(rx_symbol_errors), sumIf(rx_symbol_errors_s, rx_symbol_errors IS NOT NULL)),
        ('fec_uncorrected_codewords', count(fec_uncorrected_codewords), sum(fec_uncorrected_codewords), sumIf(fec_uncorrected_codewords_s, fec_uncorrected_codewords IS NOT NULL)),
        ('link_down_events', count(link_down_events), sum(link_down_events), sumIf(link_down_events_s, link_down_events IS NOT NULL)),
        ('link_transitions', count(link_transitions), sum(link_transitions), sumIf(link_transitions_s, link_transitions IS NOT NULL)),
        ('pause_rx_frames', count(pause_rx_frames), sum(pause_rx_frames), sumIf(pause_rx_frames_s, pause_rx_frames IS NOT NULL)),
        ('pause_tx_frames', count(pause_tx_frames), sum(pause_tx_frames), sumIf(pause_tx_frames_s, pause_tx_frames IS NOT NULL)),
        ('cnp_sent', count(cnp_sent), sum(cnp_sent), sumIf(cnp_sent_s, cnp_sent IS NOT NULL)),
        ('cnp_handled', count(cnp_handled), sum(cnp_handled), sumIf(cnp_handled_s, cnp_handled IS NOT NULL)),
        ('roce_ecn_marked_packets', count(roce_ecn_marked_packets), sum(roce_ecn_marked_packets), sumIf(roce_ecn_marked_packets_s, roce_ecn_marked_packets IS NOT NULL)),
        ('out_of_sequence', count(out_of_sequence), sum(out_of_sequence), sumIf(out_of_sequence_s, out_of_sequence IS NOT NULL)),
        ('packet_sequence_errors', count(packet_sequence_errors), sum(packet_sequence_errors), sumIf(packet_sequence_errors_s, packet_sequence_errors IS NOT NULL)),
        ('local_ack_timeouts', count(local_ack_timeouts), sum(local_ack_timeouts), sumIf(local_ack_timeouts_s, local_ack_timeouts IS NOT NULL)),
        ('adaptive_retransmits', count(adaptive_retransmits), sum(adaptive_retransmits), sumIf(adaptive_retransmits_s, adaptive_retransmits IS NOT NULL)),
        ('rnr_nak_retries', count(rnr_nak_retries), sum(rnr_nak_retries), sumIf(rnr_nak_retries_s, rnr_nak_retries IS NOT NULL)),
        ('rx_icrc_errors', count(rx_icrc_errors), sum(rx_icrc_errors), sumIf(rx_icrc_errors_s, rx_icrc_errors IS NOT NULL))
    ] AS counters
    FROM (
        SELECT hosts.device AS device, hosts.port AS port, device IN (SELECT device FROM job_hosts WHERE job = {job:String}) AS in_job,
            max(rx_discards_grown) AS rx_discards, max(rx_discards_seconds) AS rx_discards_s,
            max(tx_discards_grown) AS tx_discards, max(tx_discards_seconds) AS tx_discards_s,
            max(rx_errors_grown) AS rx_errors, max(rx_errors_seconds) AS rx_errors_s,
            max(tx_errors_grown) AS tx_errors, max(tx_errors_seconds) AS tx_errors_s,
            max(rx_fcs_errors_grown) AS rx_fcs_errors, max(rx_fcs_errors_seconds) AS rx_fcs_errors_s,
            max(rx_symbol_errors_grown) AS rx_symbol_errors, max(rx_symbol_errors_seconds) AS rx_symbol_errors_s,
            max(fec_uncorrected_codewords_grown) AS fec_uncorrected_codewords, max(fec_uncorrected_codewords_seconds) AS fec_uncorrected_codewords_s,
            max(link_down_events_grown) AS link_down_events, max(link_down_events_seconds) AS link_down_events_s,
            max(link_transitions_grown) AS link_transitions, max(link_transitions_seconds) AS link_transitions_s,
            max(pause_rx_frames_grown) AS pause_rx_frames, max(pause_rx_frames_seconds) AS pause_rx_frames_s,
            max(pause_tx_frames_grown) AS pause_tx_frames, max(pause_tx_frames_seconds) AS pause_tx_frames_s,
            max(cnp_sent_grown) AS cnp_sent, max(cnp_sent_seconds) AS cnp_sent_s,
            max(cnp_handled_grown) AS cnp_handled, max(cnp_handled_seconds) AS cnp_handled_s,
            max(roce_ecn_marked_packets_grown) AS roce_ecn_marked_packets, max(roce_ecn_marked_packets_seconds) AS roce_ecn_marked_packets_s,
            max(out_of_sequence_grown) AS out_of_sequence, max(out_of_sequence_seconds) AS out_of_sequence_s,
            max(packet_sequence_errors_grown) AS packet_sequence_errors, max(packet_sequence_errors_seconds) AS packet_sequence_errors_s,
            max(local_ack_timeouts_grown) AS local_ack_timeouts, max(local_ack_timeouts_seconds) AS local_ack_timeouts_s,
            max(adaptive_retransmits_grown) AS adaptive_retransmits, max(adaptive_retransmits_seconds) AS adaptive_retransmits_s,
            max(rnr_nak_retries_grown) AS rnr_nak_retries, max(rnr_nak_retries_seconds) AS rnr_nak_retries_s,
            max(rx_icrc_errors_grown) AS rx_icrc_errors, max(rx_icrc_errors_seconds) AS rx_icrc_errors_s
        FROM (
            SELECT readings.device AS device, readings.row AS row, source,
                sum(rx_discards_increase) AS rx_discards_grown, sumIf(toFloat64(observed_s), rx_discards_increase IS NOT NULL) AS rx_discards_seconds,
                sum(tx_discards_increase) AS tx_discards_grown, sumIf(toFloat64(observed_s), tx_discards_increase IS NOT NULL) AS tx_discards_seconds,
                sum(rx_errors_increase) AS rx_errors_grown, sumIf(toFloat64(observed_s), rx_errors_increase IS NOT NULL) AS rx_errors_seconds,
                sum(tx_errors_increase) AS tx_errors_grown, sumIf(toFloat64(observed_s), tx_errors_increase IS NOT NULL) AS tx_errors_seconds,
                sum(rx_fcs_errors_increase) AS rx_fcs_errors_grown, sumIf(toFloat64(observed_s), rx_fcs_errors_increase IS NOT NULL) AS rx_fcs_errors_seconds,
                sum(rx_symbol_errors_increase) AS rx_symbol_errors_grown, sumIf(toFloat64(observed_s), rx_symbol_errors_increase IS NOT NULL) AS rx_symbol_errors_seconds,
                sum(fec_uncorrected_codewords_increase) AS fec_uncorrected_codewords_grown, sumIf(toFloat64(observed_s), fec_uncorrected_codewords_increase IS NOT NULL) AS fec_uncorrected_codewords_seconds,
                sum(link_down_events_increase) AS link_down_events_grown, sumIf(toFloat64(observed_s), link_down_events_increase IS NOT NULL) AS link_down_events_seconds,
                sum(link_transitions_increase) AS link_transitions_grown, sumIf(toFloat64(observed_s), link_transitions_increase IS NOT NULL) AS link_transitions_seconds,
                sum(pause_rx_frames_increase) AS pause_rx_frames_grown, sumIf(toFloat64(observed_s), pause_rx_frames_increase IS NOT NULL) AS pause_rx_frames_seconds,
                sum(pause_tx_frames_increase) AS pause_tx_frames_grown, sumIf(toFloat64(observed_s), pause_tx_frames_increase IS NOT NULL) AS pause_tx_frames_seconds,
                sum(cnp_sent_increase) AS cnp_sent_grown, sumIf(toFloat64(observed_s), cnp_sent_increase IS NOT NULL) AS cnp_sent_seconds,
                sum(cnp_handled_increase) AS cnp_handled_grown, sumIf(toFloat64(observed_s), cnp_handled_increase IS NOT NULL) AS cnp_handled_seconds,
                sum(roce_ecn_marked_packets_increase) AS roce_ecn_marked_packets_grown, sumIf(toFloat64(observed_s), roce_ecn_marked_packets_increase IS NOT NULL) AS roce_ecn_marked_packets_seconds,
                sum(out_of_sequence_increase) AS out_of_sequence_grown, sumIf(toFloat64(observed_s), out_of_sequence_increase IS NOT NULL) AS out_of_sequence_seconds,
                sum(packet_sequence_errors_increase) AS packet_sequence_errors_grown, sumIf(toFloat64(observed_s), packet_sequence_errors_increase IS NOT NULL) AS packet_sequence_errors_seconds,
                sum(local_ack_timeouts_increase) AS local_ack_timeouts_grown, sumIf(toFloat64(observed_s), local_ack_timeouts_increase IS NOT NULL) AS local_ack_timeouts_seconds,
                sum(adaptive_retransmits_increase) AS adaptive_retransmits_grown, sumIf(toFloat64(observed_s), adaptive_retransmits_increase IS NOT NULL) AS adaptive_retransmits_seconds,
                sum(rnr_nak_retries_increase) AS rnr_nak_retries_grown, sumIf(toFloat64(observed_s), rnr_nak_retries_increase IS NOT NULL) AS rnr_nak_retries_seconds,
                sum(rx_icrc_errors_increase) AS rx_icrc_errors_grown, sumIf(toFloat64(observed_s), rx_icrc_errors_increase IS NOT NULL) AS rx_icrc_errors_seconds
            FROM samples_1m AS readings
            WHERE row_kind = 'port' AND bucket >= {since:DateTime('UTC')} AND bucket < {until:DateTime('UTC')} AND observed_s > 0
                AND readings.device IN (SELECT device FROM ports WHERE role = 'host-link' AND end = 'a')
                AND bucket >= (SELECT toDateTime(min(start), 'UTC') FROM job_hosts WHERE job = {job:String})
                AND bucket < (SELECT ifNull(if(countIf(end IS NULL) > 0, NULL, max(end)), {until:DateTime('UTC')}) FROM job_hosts WHERE job = {job:String})
            GROUP BY device, row, source
        ) AS readings
        INNER JOIN (
            SELECT ports.device AS device, names.row AS row, ports.port AS port FROM ports
            INNER JOIN port_names AS names ON names.device = ports.device AND names.port = ports.port
            WHERE ports.role = 'host-link' AND ports.end = 'a'
        ) AS hosts ON hosts.device = readings.device AND hosts.row = readings.row
        GROUP BY device, port, in_job
    )
    GROUP BY in_job
)
ARRAY JOIN counters AS counter
WHERE counter.2 > 0
GROUP BY metric
ORDER BY metric;

DROP VIEW IF EXISTS job_against_fabric_1h;

CREATE VIEW IF NOT EXISTS job_against_fabric_1h (
    metric String COMMENT 'counter',
    job_ports UInt64 COMMENT 'ports of the job with readings of it',
    job_per_port_hour Nullable(Float64) COMMENT 'growth in an hour of a port of the job',
    fabric_ports UInt64 COMMENT 'ports of other hosts with readings of it',
    fabric_per_port_hour Nullable(Float64) COMMENT 'growth in an hour of a port of other hosts',
    ratio Nullable(Float64) COMMENT 'of the two; NULL where the fabric has none'
)
COMMENT 'Error and congestion counters of the host links of a job against those of all other hosts in the same time, from rollups of an hour: {job}, {since}, {until}'
AS SELECT counter.1 AS metric, sumIf(counter.2, in_job) AS job_ports, sumIf(counter.3, in_job) * 3600 / nullIf(sumIf(counter.4, in_job), 0) AS job_per_port_hour,
    sumIf(counter.2, NOT in_job) AS fabric_ports, sumIf(counter.3, NOT in_job) * 3600 / nullIf(sumIf(counter.4, NOT in_job), 0) AS fabric_per_port_hour,
    job_per_port_hour / nullIf(fabric_per_port_hour, 0) AS ratio
FROM (
    SELECT in_job, [
        ('rx_discards', count(rx_discards), sum(rx_discards), sumIf(rx_discards_s, rx_discards IS NOT NULL)),
        ('tx_discards', count(tx_discards), sum(tx_discards), sumIf(tx_discards_s, tx_discards IS NOT NULL)),
        ('rx_errors', count(rx_errors), sum(rx_errors), sumIf(rx_errors_s, rx_errors IS NOT NULL)),
        ('tx_errors', count(tx_errors), sum(tx_errors), sumIf(tx_errors_s, tx_errors IS NOT NULL)),
        ('rx_fcs_errors', count(rx_fcs_errors), sum(rx_fcs_errors), sumIf(rx_fcs_errors_s, rx_fcs_errors IS NOT NULL)),
        ('rx_symbol_errors', count(rx_symbol_errors), sum(rx_symbol_errors), sumIf(rx_symbol_errors_s, rx_symbol_errors IS NOT NULL)),
        ('fec_uncorrected_codewords', count(fec_uncorrected_codewords), sum(fec_uncorrected_codewords), sumIf(fec_uncorrected_codewords_s, fec_uncorrected_codewords IS NOT NULL)),
        ('link_down_events', count(link_down_events), sum(link_down_events), sumIf(link_down_events_s, link_down_events IS NOT NULL)),
        ('link_transitions', count(link_transitions), sum(link_transitions), sumIf(link_transitions_s, link_transitions IS NOT NULL)),
        ('pause_rx_frames', count(pause_rx_frames), sum(pause_rx_frames), sumIf(pause_rx_frames_s, pause_rx_frames IS NOT NULL)),
        ('pause_tx_frames', count(pause_tx_frames), sum(pause_tx_frames), sumIf(pause_tx_frames_s, pause_tx_frames IS NOT NULL)),
        ('cnp_sent', count(cnp_sent), sum(cnp_sent), sumIf(cnp_sent_s, cnp_sent IS NOT NULL)),
        ('cnp_handled', count(cnp_handled), sum(cnp_handled), sumIf(cnp_handled_s, cnp_handled IS NOT NULL)),
        ('roce_ecn_marked_packets', count(roce_ecn_marked_packets), sum(roce_ecn_marked_packets), sumIf(roce_ecn_marked_packets_s, roce_ecn_marked_packets IS NOT NULL)),
        ('out_of_sequence', count(out_of_sequence), sum(out_of_sequence), sumIf(out_of_sequence_s, out_of_sequence IS NOT NULL)),
        ('packet_sequence_errors', count(packet_sequence_errors), sum(packet_sequence_errors), sumIf(packet_sequence_errors_s, packet_sequence_errors IS NOT NULL)),
        ('local_ack_timeouts', count(local_ack_timeouts), sum(local_ack_timeouts), sumIf(local_ack_timeouts_s, local_ack_timeouts IS NOT NULL)),
        ('adaptive_retransmits', count(adaptive_retransmits), sum(adaptive_retransmits), sumIf(adaptive_retransmits_s, adaptive_retransmits IS NOT NULL)),
        ('rnr_nak_retries', count(rnr_nak_retries), sum(rnr_nak_retries), sumIf(rnr_nak_retries_s, rnr_nak_retries IS NOT NULL)),
        ('rx_icrc_errors', count(rx_icrc_errors), sum(rx_icrc_errors), sumIf(rx_icrc_errors_s, rx_icrc_errors IS NOT NULL))
    ] AS counters
    FROM (
        SELECT hosts.device AS device, hosts.port AS port, device IN (SELECT device FROM job_hosts WHERE job = {job:String}) AS in_job,
            max(rx_discards_grown) AS rx_discards, max(rx_discards_seconds) AS rx_discards_s,
            max(tx_discards_grown) AS tx_discards, max(tx_discards_seconds) AS tx_discards_s,
            max(rx_errors_grown) AS rx_errors, max(rx_errors_seconds) AS rx_errors_s,
            max(tx_errors_grown) AS tx_errors, max(tx_errors_seconds) AS tx_errors_s,
            max(rx_fcs_errors_grown) AS rx_fcs_errors, max(rx_fcs_errors_seconds) AS rx_fcs_errors_s,
            max(rx_symbol_errors_grown) AS rx_symbol_errors, max(rx_symbol_errors_seconds) AS rx_symbol_errors_s,
            max(fec_uncorrected_codewords_grown) AS fec_uncorrected_codewords, max(fec_uncorrected_codewords_seconds) AS fec_uncorrected_codewords_s,
            max(link_down_events_grown) AS link_down_events, max(link_down_events_seconds) AS link_down_events_s,
            max(link_transitions_grown) AS link_transitions, max(link_transitions_seconds) AS link_transitions_s,
            max(pause_rx_frames_grown) AS pause_rx_frames, max(pause_rx_frames_seconds) AS pause_rx_frames_s,
            max(pause_tx_frames_grown) AS pause_tx_frames, max(pause_tx_frames_seconds) AS pause_tx_frames_s,
            max(cnp_sent_grown) AS cnp_sent, max(cnp_sent_seconds) AS cnp_sent_s,
            max(cnp_handled_grown) AS cnp_handled, max(cnp_handled_seconds) AS cnp_handled_s,
            max(roce_ecn_marked_packets_grown) AS roce_ecn_marked_packets, max(roce_ecn_marked_packets_seconds) AS roce_ecn_marked_packets_s,
            max(out_of_sequence_grown) AS out_of_sequence, max(out_of_sequence_seconds) AS out_of_sequence_s,
            max(packet_sequence_errors_grown) AS packet_sequence_errors, max(packet_sequence_errors_seconds) AS packet_sequence_errors_s,
            max(local_ack_timeouts_grown) AS local_ack_timeouts, max(local_ack_timeouts_seconds) AS local_ack_timeouts_s,
            max(adaptive_retransmits_grown) AS adaptive_retransmits, max(adaptive_retransmits_seconds) AS adaptive_retransmits_s,
            max(rnr_nak_retries_grown) AS rnr_nak_retries, max(rnr_nak_retries_seconds) AS rnr_nak_retries_s,
            max(rx_icrc_errors_grown) AS rx_icrc_errors, max(rx_icrc_errors_seconds) AS rx_icrc_errors_s
        FROM (
            SELECT readings.device AS device, readings.row AS row, source,
                sum(rx_discards_increase) AS rx_discards_grown, sumIf(toFloat64(observed_s), rx_discards_increase IS NOT NULL) AS rx_discards_seconds,
                sum(tx_discards_increase) AS tx_discards_grown, sumIf(toFloat64(observed_s), tx_discards_increase IS NOT NULL) AS tx_discards_seconds,
                sum(rx_errors_increase) AS rx_errors_grown, sumIf(toFloat64(observed_s), rx_errors_increase IS NOT NULL) AS rx_errors_seconds,
                sum(tx_errors_increase) AS tx_errors_grown, sumIf(toFloat64(observed_s), tx_errors_increase IS NOT NULL) AS tx_errors_seconds,
                sum(rx_fcs_errors_increase) AS rx_fcs_errors_grown, sumIf(toFloat64(observed_s), rx_fcs_errors_increase IS NOT NULL) AS rx_fcs_errors_seconds,
                sum(rx_symbol_errors_increase) AS rx_symbol_errors_grown, sumIf(toFloat64(observed_s), rx_symbol_errors_increase IS NOT NULL) AS rx_symbol_errors_seconds,
                sum(fec_uncorrected_codewords_increase) AS fec_uncorrected_codewords_grown, sumIf(toFloat64(observed_s), fec_uncorrected_codewords_increase IS NOT NULL) AS fec_uncorrected_codewords_seconds,
                sum(link_down_events_increase) AS link_down_events_grown, sumIf(toFloat64(observed_s), link_down_events_increase IS NOT NULL) AS link_down_events_seconds,
                sum(link_transitions_increase) AS link_transitions_grown, sumIf(toFloat64(observed_s), link_transitions_increase IS NOT NULL) AS link_transitions_seconds,
                sum(pause_rx_frames_increase) AS pause_rx_frames_grown, sumIf(toFloat64(observed_s), pause_rx_frames_increase IS NOT NULL) AS pause_rx_frames_seconds,
                sum(pause_tx_frames_increase) AS pause_tx_frames_grown, sumIf(toFloat64(observed_s), pause_tx_frames_increase IS NOT NULL) AS pause_tx_frames_seconds,
                sum(cnp_sent_increase) AS cnp_sent_grown, sumIf(toFloat64(observed_s), cnp_sent_increase IS NOT NULL) AS cnp_sent_seconds,
                sum(cnp_handled_increase) AS cnp_handled_grown, sumIf(toFloat64(observed_s), cnp_handled_increase IS NOT NULL) AS cnp_handled_seconds,
                sum(roce_ecn_marked_packets_increase) AS roce_ecn_marked_packets_grown, sumIf(toFloat64(observed_s), roce_ecn_marked_packets_increase IS NOT NULL) AS roce_ecn_marked_packets_seconds,
                sum(out_of_sequence_increase) AS out_of_sequence_grown, sumIf(toFloat64(observed_s), out_of_sequence_increase IS NOT NULL) AS out_of_sequence_seconds,
                sum(packet_sequence_errors_increase) AS packet_sequence_errors_grown, sumIf(toFloat64(observed_s), packet_sequence_errors_increase IS NOT NULL) AS packet_sequence_errors_seconds,
                sum(local_ack_timeouts_increase) AS local_ack_timeouts_grown, sumIf(toFloat64(observed_s), local_ack_timeouts_increase IS NOT NULL) AS local_ack_timeouts_seconds,
                sum(adaptive_retransmits_increase) AS adaptive_retransmits_grown, sumIf(toFloat64(observed_s), adaptive_retransmits_increase IS NOT NULL) AS adaptive_retransmits_seconds,
                sum(rnr_nak_retries_increase) AS rnr_nak_retries_grown, sumIf(toFloat64(observed_s), rnr_nak_retries_increase IS NOT NULL) AS rnr_nak_retries_seconds,
                sum(rx_icrc_errors_increase) AS rx_icrc_errors_grown, sumIf(toFloat64(observed_s), rx_icrc_errors_increase IS NOT NULL) AS rx_icrc_errors_seconds
            FROM samples_1h AS readings
            WHERE row_kind = 'port' AND bucket >= {since:DateTime('UTC')} AND bucket < {until:DateTime('UTC')} AND observed_s > 0
                AND readings.device IN (SELECT device FROM ports WHERE role = 'host-link' AND end = 'a')
                AND bucket >= (SELECT toDateTime(min(start), 'UTC') FROM job_hosts WHERE job = {job:String})
                AND bucket < (SELECT ifNull(if(countIf(end IS NULL) > 0, NULL, max(end)), {until:DateTime('UTC')}) FROM job_hosts WHERE job = {job:String})
            GROUP BY device, row, source
        ) AS readings
        INNER JOIN (
            SELECT ports.device AS device, names.row AS row, ports.port AS port FROM ports
            INNER JOIN port_names AS names ON names.device = ports.device AND names.port = ports.port
            WHERE ports.role = 'host-link' AND ports.end = 'a'
        ) AS hosts ON hosts.device = readings.device AND hosts.row = readings.row
        GROUP BY device, port, in_job
    )
    GROUP BY in_job
)
ARRAY JOIN counters AS counter
WHERE counter.2 > 0
GROUP BY metric
ORDER BY metric;
