-- Views of what people would otherwise write. Those with parameters are called like a table function:
--   SELECT * FROM link_ends_1m(link = 'link:…', since = $__fromTime, until = $__toTime)
-- The names and columns are in docs/tables.md, which is made from the comments here.

CREATE VIEW IF NOT EXISTS ports (
    device String COMMENT 'owner of the port',
    port String COMMENT 'name in the inventory',
    end String COMMENT 'a: nearer to the hosts, z: the other',
    link_id String COMMENT 'id of the link as in findings, link:…',
    peer_device String COMMENT 'device at the other end',
    peer_port String COMMENT 'port at the other end',
    role LowCardinality(String) COMMENT 'host-link or fabric-link',
    rail Nullable(Int32) COMMENT 'rail of a host link',
    plane Nullable(Int32) COMMENT 'plane of the fabric',
    pod LowCardinality(String) COMMENT 'pod of the end a',
    speed_bps Nullable(UInt64) COMMENT 'nominal speed, bit/s'
)
COMMENT 'The ports of all links in the inventory that is in effect now, with their peers'
AS SELECT ends.1 AS device, ends.2 AS port, ends.3 AS end, id AS link_id, ends.4 AS peer_device, ends.5 AS peer_port, role, rail, plane, pod,
    speed_bps
FROM (
    SELECT DISTINCT id, a_device, a_port, z_device, z_port, role, rail, plane, pod, speed_bps FROM inventory_links
    WHERE (digest, effective_at) = (
        SELECT digest, effective_at FROM inventory_devices
        ORDER BY effective_at <= now64(9) DESC, if(effective_at <= now64(9), effective_at, toDateTime64(0, 9, 'UTC')) DESC, effective_at LIMIT 1
    )
)
ARRAY JOIN [(a_device, a_port, 'a', z_device, z_port), (z_device, z_port, 'z', a_device, a_port)] AS ends;

CREATE VIEW IF NOT EXISTS port_names (
    device String COMMENT 'owner of the port',
    row String COMMENT 'name in samples, sample_lanes and their rollups',
    port String COMMENT 'name in the inventory'
)
COMMENT 'The names that sources use for a port of the inventory: its own, and the aliases in the Facts of its device'
AS SELECT device, port AS row, port FROM ports
UNION DISTINCT
SELECT known.device AS device, arrayJoin(known.names) AS row, ports.port AS port
FROM (
    SELECT DISTINCT device, arrayConcat([name], aliases) AS names, arrayJoin(names) AS any_name
    FROM (
        SELECT device, components.name AS component_names, components.alias AS component_aliases FROM facts
        ORDER BY observed_at DESC LIMIT 1 BY device, source
    ) ARRAY JOIN component_names AS name, component_aliases AS aliases
) AS known
INNER JOIN ports ON ports.device = known.device AND ports.port = known.any_name;

CREATE VIEW IF NOT EXISTS job_hosts (
    job String COMMENT 'name of the job',
    device String COMMENT 'host',
    start DateTime64(9, 'UTC') COMMENT 'begin of the job on the host',
    end Nullable(DateTime64(9, 'UTC')) COMMENT 'its end; NULL: it runs'
)
COMMENT 'The hosts of each job and when it ran on them, from the inventory and from the jobs topic; the newest report counts'
AS SELECT job, device, argMax(start, order) AS start, tupleElement(argMax(tuple(end), order), 1) AS end
FROM (
    SELECT job, device, start, end, (1, kafka_offset) AS order FROM jobs
    UNION ALL SELECT job, device, start, end, (0, kafka_offset) AS order FROM inventory_jobs
)
GROUP BY job, device;

CREATE VIEW IF NOT EXISTS counter_rates (
    at DateTime64(9, 'UTC') COMMENT 'time of the reading',
    source LowCardinality(String) COMMENT 'gnmi, snmp, nic, host, bridge or probe',
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
                [rx_bytes, tx_bytes, rx_packets, tx_packets, rx_discards, tx_discards, rx_errors, tx_errors, link_down_events,
                rx_fcs_errors, rx_symbol_errors, fec_corrected_bits, rx_bits, fec_corrected_codewords,
                fec_uncorrected_codewords, link_transitions, pcs_symbol_errors, link_error_recoveries,
                local_link_integrity_errors, excessive_buffer_overruns, rx_remote_physical_errors, rx_switch_relay_errors,
                pause_rx_frames, pause_tx_frames, pause_storm_warnings, pause_storm_errors, rx_buffer_nearly_full,
                port_ecn_marked_packets, tx_wait_ticks, cnp_sent, cnp_handled, roce_ecn_marked_packets, out_of_sequence,
                packet_sequence_errors, local_ack_timeouts, transport_retries_exceeded, adaptive_retransmits,
                roce_slow_restarts, rnr_nak_retries, out_of_buffer, rx_icrc_errors, pcie_stalled_read_seconds,
                pcie_stalled_write_seconds, cnp_ignored, pcie_rx_signal_errors, pcie_tx_signal_errors,
                implied_nak_sequence_errors, duplicate_requests, requester_cqe_errors, responder_cqe_errors,
                pcie_buffer_overflows, pcie_replays, gpu_ecc_uncorrected],
                indexOf(['rx_bytes', 'tx_bytes', 'rx_packets', 'tx_packets', 'rx_discards', 'tx_discards', 'rx_errors', 'tx_errors',
                'link_down_events', 'rx_fcs_errors', 'rx_symbol_errors', 'fec_corrected_bits', 'rx_bits',
                'fec_corrected_codewords', 'fec_uncorrected_codewords', 'link_transitions', 'pcs_symbol_errors',
                'link_error_recoveries', 'local_link_integrity_errors', 'excessive_buffer_overruns',
                'rx_remote_physical_errors', 'rx_switch_relay_errors', 'pause_rx_frames', 'pause_tx_frames',
                'pause_storm_warnings', 'pause_storm_errors', 'rx_buffer_nearly_full', 'port_ecn_marked_packets',
                'tx_wait_ticks', 'cnp_sent', 'cnp_handled', 'roce_ecn_marked_packets', 'out_of_sequence',
                'packet_sequence_errors', 'local_ack_timeouts', 'transport_retries_exceeded', 'adaptive_retransmits',
                'roce_slow_restarts', 'rnr_nak_retries', 'out_of_buffer', 'rx_icrc_errors', 'pcie_stalled_read_seconds',
                'pcie_stalled_write_seconds', 'cnp_ignored', 'pcie_rx_signal_errors', 'pcie_tx_signal_errors',
                'implied_nak_sequence_errors', 'duplicate_requests', 'requester_cqe_errors', 'responder_cqe_errors',
                'pcie_buffer_overflows', 'pcie_replays', 'gpu_ecc_uncorrected'], {metric:String})
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

CREATE VIEW IF NOT EXISTS lane_rates (
    at DateTime64(9, 'UTC') COMMENT 'time of the reading',
    source LowCardinality(String) COMMENT 'gnmi, snmp, nic, host, bridge or probe',
    row LowCardinality(String) COMMENT 'name of the port at this source',
    `index` Int32 COMMENT 'lane, priority, queue, bin, link or kind',
    value UInt64 COMMENT 'reading of the counter',
    seconds Nullable(Float64) COMMENT 'since the reading before; NULL: the first',
    increase Nullable(UInt64) COMMENT 'since the reading before; NULL: the first, or after a reset',
    rate Nullable(Float64) COMMENT 'increase a second',
    is_reset Bool COMMENT 'the counter decreased, or the device has another boot id'
)
COMMENT 'Rates of a counter by lane, priority or queue between its readings: {device}, {port} (name in the inventory), {metric}, {since}, {until}'
AS SELECT at, source, row, `index`, value, if(is_first, NULL, dateDiff('millisecond', before_at, at) / 1000) AS seconds,
    if(is_first OR is_reset, NULL, toNullable(value - before)) AS increase, increase / nullIf(seconds, 0) AS rate, NOT is_first AND decreased AS is_reset
FROM (
    SELECT *, lagInFrame(value, 1, 0) OVER w AS before, lagInFrame(at, 1, at) OVER w AS before_at, row_number() OVER w = 1 AS is_first,
        value < before OR boot_id != lagInFrame(boot_id, 1, boot_id) OVER w AS decreased
    FROM (
        SELECT sampled_at AS at, source, row, `index`, 0 AS boot_id, assumeNotNull(counter) AS value
        FROM sample_lanes
        WHERE device = {device:String} AND metric = {metric:String} AND counter IS NOT NULL
            AND sampled_at >= {since:DateTime64(9, 'UTC')} AND sampled_at < {until:DateTime64(9, 'UTC')}
            AND (row = {port:String} OR row IN (SELECT row FROM port_names WHERE device = {device:String} AND port = {port:String}))
    )
    WINDOW w AS (PARTITION BY source, row, `index` ORDER BY at ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)
)
ORDER BY source, row, `index`, at;

CREATE VIEW IF NOT EXISTS link_ends_1m (
    bucket DateTime('UTC') COMMENT 'start of the minute',
    a_rx_bps Nullable(Float64) COMMENT 'end a: received, bit/s',
    a_tx_bps Nullable(Float64) COMMENT 'end a: sent, bit/s',
    a_errors Nullable(UInt64) COMMENT 'end a: errors received and sent, FCS and symbol errors',
    a_discards Nullable(UInt64) COMMENT 'end a: packets discarded, received and sent',
    a_fec_corrected Nullable(UInt64) COMMENT 'end a: bits (else codewords) that FEC corrected',
    a_fec_uncorrected Nullable(UInt64) COMMENT 'end a: codewords that FEC could not correct',
    a_pre_fec_ber Nullable(Float64) COMMENT 'end a: highest bit error ratio before FEC',
    a_link_downs Nullable(UInt64) COMMENT 'end a: times the link went down (else transitions)',
    a_oper_up Nullable(Float64) COMMENT 'end a: 1: up in all readings, 0: down in at least one',
    a_temperature_c Nullable(Float64) COMMENT 'end a: highest temperature of the module, °C',
    a_pause_rx Nullable(UInt64) COMMENT 'end a: pause frames received',
    a_pause_tx Nullable(UInt64) COMMENT 'end a: pause frames sent',
    z_rx_bps Nullable(Float64) COMMENT 'end z: received, bit/s',
    z_tx_bps Nullable(Float64) COMMENT 'end z: sent, bit/s',
    z_errors Nullable(UInt64) COMMENT 'end z: errors received and sent, FCS and symbol errors',
    z_discards Nullable(UInt64) COMMENT 'end z: packets discarded, received and sent',
    z_fec_corrected Nullable(UInt64) COMMENT 'end z: bits (else codewords) that FEC corrected',
    z_fec_uncorrected Nullable(UInt64) COMMENT 'end z: codewords that FEC could not correct',
    z_pre_fec_ber Nullable(Float64) COMMENT 'end z: highest bit error ratio before FEC',
    z_link_downs Nullable(UInt64) COMMENT 'end z: times the link went down (else transitions)',
    z_oper_up Nullable(Float64) COMMENT 'end z: 1: up in all readings, 0: down in at least one',
    z_temperature_c Nullable(Float64) COMMENT 'end z: highest temperature of the module, °C',
    z_pause_rx Nullable(UInt64) COMMENT 'end z: pause frames received',
    z_pause_tx Nullable(UInt64) COMMENT 'end z: pause frames sent'
)
COMMENT 'Both ends of a link side by side, by minute: {link} (its id, link:…), {since}, {until}. Of several sources the highest value counts'
AS SELECT bucket,
    maxIf(rx_bps, end = 'a') AS a_rx_bps,
    maxIf(tx_bps, end = 'a') AS a_tx_bps,
    maxIf(errors, end = 'a') AS a_errors,
    maxIf(discards, end = 'a') AS a_discards,
    maxIf(fec_corrected, end = 'a') AS a_fec_corrected,
    maxIf(fec_uncorrected, end = 'a') AS a_fec_uncorrected,
    maxIf(pre_fec_ber, end = 'a') AS a_pre_fec_ber,
    maxIf(link_downs, end = 'a') AS a_link_downs,
    maxIf(oper_up, end = 'a') AS a_oper_up,
    maxIf(temperature_c, end = 'a') AS a_temperature_c,
    maxIf(pause_rx, end = 'a') AS a_pause_rx,
    maxIf(pause_tx, end = 'a') AS a_pause_tx,
    maxIf(rx_bps, end = 'z') AS z_rx_bps,
    maxIf(tx_bps, end = 'z') AS z_tx_bps,
    maxIf(errors, end = 'z') AS z_errors,
    maxIf(discards, end = 'z') AS z_discards,
    maxIf(fec_corrected, end = 'z') AS z_fec_corrected,
    maxIf(fec_uncorrected, end = 'z') AS z_fec_uncorrected,
    maxIf(pre_fec_ber, end = 'z') AS z_pre_fec_ber,
    maxIf(link_downs, end = 'z') AS z_link_downs,
    maxIf(oper_up, end = 'z') AS z_oper_up,
    maxIf(temperature_c, end = 'z') AS z_temperature_c,
    maxIf(pause_rx, end = 'z') AS z_pause_rx,
    maxIf(pause_tx, end = 'z') AS z_pause_tx
FROM (
    SELECT bucket, ends.end AS end,
            toFloat64(8 * rx_bytes_increase / nullIf(observed_s, 0)) AS rx_bps,
            toFloat64(8 * tx_bytes_increase / nullIf(observed_s, 0)) AS tx_bps,
            if(rx_errors_increase IS NULL AND tx_errors_increase IS NULL AND rx_fcs_errors_increase IS NULL AND rx_symbol_errors_increase IS NULL, NULL, ifNull(rx_errors_increase, 0) + ifNull(tx_errors_increase, 0) + ifNull(rx_fcs_errors_increase, 0) + ifNull(rx_symbol_errors_increase, 0)) AS errors,
            if(rx_discards_increase IS NULL AND tx_discards_increase IS NULL, NULL, ifNull(rx_discards_increase, 0) + ifNull(tx_discards_increase, 0)) AS discards,
            coalesce(fec_corrected_bits_increase, fec_corrected_codewords_increase) AS fec_corrected,
            fec_uncorrected_codewords_increase AS fec_uncorrected,
            toFloat64(pre_fec_ber_max) AS pre_fec_ber,
            coalesce(link_down_events_increase, link_transitions_increase) AS link_downs,
            toFloat64(oper_up_min) AS oper_up,
            toFloat64(module_temperature_c_max) AS temperature_c,
            pause_rx_frames_increase AS pause_rx,
            pause_tx_frames_increase AS pause_tx
    FROM samples_1m AS readings
    INNER JOIN (
        SELECT ports.end AS end, names.device AS device, names.row AS row FROM ports
        INNER JOIN port_names AS names ON names.device = ports.device AND names.port = ports.port
        WHERE ports.link_id = {link:String}
    ) AS ends ON ends.device = readings.device AND ends.row = readings.row
    WHERE readings.row_kind = 'port' AND bucket >= {since:DateTime('UTC')} AND bucket < {until:DateTime('UTC')}
        AND readings.device IN (SELECT device FROM ports WHERE link_id = {link:String})
)
GROUP BY bucket
ORDER BY bucket;

CREATE VIEW IF NOT EXISTS link_lanes_1m (
    bucket DateTime('UTC') COMMENT 'start of the minute',
    end String COMMENT 'a or z',
    metric LowCardinality(String) COMMENT 'rx_power_dbm, pfc_rx_frames and so on',
    `index` Int32 COMMENT 'lane, priority, queue, bin or kind',
    increase Nullable(UInt64) COMMENT 'of a counter',
    rate Nullable(Float64) COMMENT 'increase a second',
    value_min Nullable(Float64) COMMENT 'of a gauge',
    value_max Nullable(Float64) COMMENT 'of a gauge',
    value_avg Nullable(Float64) COMMENT 'of a gauge'
)
COMMENT 'Both ends of a link by lane, priority or queue, by minute: {link} (its id, link:…), {since}, {until}'
AS SELECT bucket, end, metric, `index`, max(grown) AS increase, max(grown / nullIf(observed_s, 0)) AS rate, min(lowest) AS value_min,
    max(highest) AS value_max, avg(mean) AS value_avg
FROM (
    SELECT bucket, ends.end AS end, metric, `index`, readings.increase AS grown, observed_s, toFloat64(readings.value_min) AS lowest,
        toFloat64(readings.value_max) AS highest, toFloat64(readings.value_avg) AS mean
    FROM sample_lanes_1m AS readings
    INNER JOIN (
        SELECT ports.end AS end, names.device AS device, names.row AS row FROM ports
        INNER JOIN port_names AS names ON names.device = ports.device AND names.port = ports.port
        WHERE ports.link_id = {link:String}
    ) AS ends ON ends.device = readings.device AND ends.row = readings.row
    WHERE bucket >= {since:DateTime('UTC')} AND bucket < {until:DateTime('UTC')}
        AND readings.device IN (SELECT device FROM ports WHERE link_id = {link:String})
)
GROUP BY bucket, end, metric, `index`
ORDER BY metric, end, `index`, bucket;

CREATE VIEW IF NOT EXISTS port_against_peers_1m (
    bucket DateTime('UTC') COMMENT 'start of the minute',
    port String COMMENT 'name in the inventory',
    role LowCardinality(String) COMMENT 'host-link or fabric-link',
    rail Nullable(Int32) COMMENT 'rail',
    peers UInt64 COMMENT 'number of peers with readings',
    tx_bps Nullable(Float64) COMMENT 'sent, bit/s',
    tx_peers_bps Nullable(Float64) COMMENT 'median of the peers; NULL without any',
    tx_ratio Nullable(Float64) COMMENT 'tx_bps / tx_peers_bps',
    rx_bps Nullable(Float64) COMMENT 'received, bit/s',
    rx_peers_bps Nullable(Float64) COMMENT 'median of the peers; NULL without any',
    rx_ratio Nullable(Float64) COMMENT 'rx_bps / rx_peers_bps'
)
COMMENT 'The ports of a device against their peers (its other ports of the same role), by minute: {device}, {since}, {until}'
AS SELECT bucket, one.1 AS port, role, one.2 AS rail, length(others) AS peers, one.3 AS tx_bps,
    if(peers = 0, NULL, arrayReduce('median', arrayMap(x -> x.3, others))) AS tx_peers_bps, tx_bps / nullIf(tx_peers_bps, 0) AS tx_ratio, one.4 AS rx_bps,
    if(peers = 0, NULL, arrayReduce('median', arrayMap(x -> x.4, others))) AS rx_peers_bps, rx_bps / nullIf(rx_peers_bps, 0) AS rx_ratio
FROM (
    SELECT bucket, role, groupArray((port, rail, tx, rx)) AS all_ports
    FROM (
        SELECT bucket, ports.role AS role, ports.port AS port, any(ports.rail) AS rail, max(8 * tx_bytes_increase / nullIf(observed_s, 0)) AS tx,
            max(8 * rx_bytes_increase / nullIf(observed_s, 0)) AS rx
        FROM samples_1m AS readings
        INNER JOIN (SELECT row, port FROM port_names WHERE device = {device:String}) AS names ON names.row = readings.row
        INNER JOIN (SELECT port, role, rail FROM ports WHERE device = {device:String}) AS ports ON ports.port = names.port
        WHERE readings.device = {device:String} AND row_kind = 'port' AND bucket >= {since:DateTime('UTC')} AND bucket < {until:DateTime('UTC')}
        GROUP BY bucket, role, port
        HAVING tx IS NOT NULL AND rx IS NOT NULL
    )
    GROUP BY bucket, role
)
ARRAY JOIN all_ports AS one, arrayMap(x -> arrayFilter(y -> y.1 != x.1, all_ports), all_ports) AS others
ORDER BY port, bucket;

CREATE VIEW IF NOT EXISTS rail_bandwidth_1m (
    job String COMMENT 'name of the job',
    rail Nullable(Int32) COMMENT 'rail',
    ports UInt64 COMMENT 'host ports with readings',
    nominal_bps Nullable(Float64) COMMENT 'mean nominal speed of a port, bit/s',
    tx_bps Nullable(Float64) COMMENT 'mean of a port, bit/s',
    rx_bps Nullable(Float64) COMMENT 'mean of a port, bit/s',
    delivered_ratio Nullable(Float64) COMMENT 'the larger of tx_bps and rx_bps / nominal_bps',
    slowest_device String COMMENT 'host whose port delivered least',
    slowest_ratio Nullable(Float64) COMMENT 'its share of nominal'
)
COMMENT 'Delivered against nominal bandwidth of the host links of a job by rail, from rollups of a minute within its life: {job} (empty: all jobs), {since}, {until}'
AS SELECT job, rail, count() AS ports, avg(nominal) AS nominal_bps, avg(tx) AS tx_bps, avg(rx) AS rx_bps, greatest(tx_bps, rx_bps) / nominal_bps AS delivered_ratio,
    argMin(device, greatest(tx, rx) / nominal) AS slowest_device, min(greatest(tx, rx) / nominal) AS slowest_ratio
FROM (
    SELECT job, rail, device, port, any(speed) AS nominal, sum(sent) * 8 / nullIf(sum(seconds), 0) AS tx, sum(received) * 8 / nullIf(sum(seconds), 0) AS rx
    FROM (
        SELECT jobs.job AS job, hosts.rail AS rail, readings.device AS device, hosts.port AS port, bucket, any(hosts.speed_bps) AS speed,
            max(readings.tx_bytes_increase) AS sent, max(readings.rx_bytes_increase) AS received, max(toFloat64(observed_s)) AS seconds
        FROM samples_1m AS readings
        INNER JOIN (
            SELECT ports.device AS device, names.row AS row, ports.port AS port, ports.rail AS rail, toFloat64(ports.speed_bps) AS speed_bps FROM ports
            INNER JOIN port_names AS names ON names.device = ports.device AND names.port = ports.port
            WHERE ports.role = 'host-link' AND ports.end = 'a' AND ports.speed_bps IS NOT NULL
        ) AS hosts ON hosts.device = readings.device AND hosts.row = readings.row
        INNER JOIN (SELECT * FROM job_hosts WHERE {job:String} IN ('', job)) AS jobs ON jobs.device = readings.device
        WHERE row_kind = 'port' AND bucket >= {since:DateTime('UTC')} AND bucket < {until:DateTime('UTC')} AND toDateTime(jobs.start, 'UTC') <= bucket AND (jobs.end IS NULL OR bucket < jobs.end)
            AND readings.device IN (SELECT device FROM job_hosts WHERE {job:String} IN ('', job))
            AND readings.tx_bytes_increase IS NOT NULL AND readings.rx_bytes_increase IS NOT NULL AND observed_s > 0
        GROUP BY job, rail, device, port, bucket
    )
    GROUP BY job, rail, device, port
)
GROUP BY job, rail
ORDER BY job, rail;

CREATE VIEW IF NOT EXISTS job_against_fabric_1m (
    metric String COMMENT 'counter',
    job_ports UInt64 COMMENT 'ports of the job with readings of it',
    job_per_port_hour Nullable(Float64) COMMENT 'growth in an hour of a port of the job',
    fabric_ports UInt64 COMMENT 'ports of other hosts with readings of it',
    fabric_per_port_hour Nullable(Float64) COMMENT 'growth in an hour of a port of other hosts',
    ratio Nullable(Float64) COMMENT 'of the two; NULL where the fabric has none'
)
COMMENT 'Error and congestion counters of the host links of a job against those of all other hosts in the same time, from rollups of a minute: {job}, {since}, {until}'
AS SELECT metric, uniqExactIf((device, port), in_job) AS job_ports, sumIf(grown, in_job) * 3600 / nullIf(sumIf(seconds, in_job), 0) AS job_per_port_hour,
    uniqExactIf((device, port), NOT in_job) AS fabric_ports, sumIf(grown, NOT in_job) * 3600 / nullIf(sumIf(seconds, NOT in_job), 0) AS fabric_per_port_hour,
    job_per_port_hour / nullIf(fabric_per_port_hour, 0) AS ratio
FROM (
    SELECT device, port, in_job, pair.1 AS metric, max(pair.2) AS grown, max(observed) AS seconds
    FROM (
        SELECT readings.device AS device, hosts.port AS port, bucket, toFloat64(observed_s) AS observed,
            readings.device IN (SELECT device FROM job_hosts WHERE job = {job:String}) AS in_job,
            [('rx_discards', rx_discards_increase), ('tx_discards', tx_discards_increase), ('rx_errors',
            rx_errors_increase), ('tx_errors', tx_errors_increase), ('rx_fcs_errors', rx_fcs_errors_increase),
            ('rx_symbol_errors', rx_symbol_errors_increase), ('fec_uncorrected_codewords',
            fec_uncorrected_codewords_increase), ('link_down_events', link_down_events_increase), ('link_transitions',
            link_transitions_increase), ('pause_rx_frames', pause_rx_frames_increase), ('pause_tx_frames',
            pause_tx_frames_increase), ('cnp_sent', cnp_sent_increase), ('cnp_handled', cnp_handled_increase),
            ('roce_ecn_marked_packets', roce_ecn_marked_packets_increase), ('out_of_sequence', out_of_sequence_increase),
            ('packet_sequence_errors', packet_sequence_errors_increase), ('local_ack_timeouts',
            local_ack_timeouts_increase), ('adaptive_retransmits', adaptive_retransmits_increase), ('rnr_nak_retries',
            rnr_nak_retries_increase), ('rx_icrc_errors', rx_icrc_errors_increase)] AS pairs
        FROM samples_1m AS readings
        INNER JOIN (
            SELECT ports.device AS device, names.row AS row, ports.port AS port FROM ports
            INNER JOIN port_names AS names ON names.device = ports.device AND names.port = ports.port
            WHERE ports.role = 'host-link' AND ports.end = 'a'
        ) AS hosts ON hosts.device = readings.device AND hosts.row = readings.row
        WHERE row_kind = 'port' AND bucket >= {since:DateTime('UTC')} AND bucket < {until:DateTime('UTC')} AND observed_s > 0
            AND bucket >= (SELECT toDateTime(min(start), 'UTC') FROM job_hosts WHERE job = {job:String})
            AND bucket < (SELECT ifNull(if(countIf(end IS NULL) > 0, NULL, max(end)), {until:DateTime('UTC')}) FROM job_hosts WHERE job = {job:String})
    ) ARRAY JOIN pairs AS pair
    WHERE pair.2 IS NOT NULL
    GROUP BY device, port, in_job, metric, bucket
)
GROUP BY metric
ORDER BY metric;

CREATE VIEW IF NOT EXISTS link_ends_1h (
    bucket DateTime('UTC') COMMENT 'start of the hour',
    a_rx_bps Nullable(Float64) COMMENT 'end a: received, bit/s',
    a_tx_bps Nullable(Float64) COMMENT 'end a: sent, bit/s',
    a_errors Nullable(UInt64) COMMENT 'end a: errors received and sent, FCS and symbol errors',
    a_discards Nullable(UInt64) COMMENT 'end a: packets discarded, received and sent',
    a_fec_corrected Nullable(UInt64) COMMENT 'end a: bits (else codewords) that FEC corrected',
    a_fec_uncorrected Nullable(UInt64) COMMENT 'end a: codewords that FEC could not correct',
    a_pre_fec_ber Nullable(Float64) COMMENT 'end a: highest bit error ratio before FEC',
    a_link_downs Nullable(UInt64) COMMENT 'end a: times the link went down (else transitions)',
    a_oper_up Nullable(Float64) COMMENT 'end a: 1: up in all readings, 0: down in at least one',
    a_temperature_c Nullable(Float64) COMMENT 'end a: highest temperature of the module, °C',
    a_pause_rx Nullable(UInt64) COMMENT 'end a: pause frames received',
    a_pause_tx Nullable(UInt64) COMMENT 'end a: pause frames sent',
    z_rx_bps Nullable(Float64) COMMENT 'end z: received, bit/s',
    z_tx_bps Nullable(Float64) COMMENT 'end z: sent, bit/s',
    z_errors Nullable(UInt64) COMMENT 'end z: errors received and sent, FCS and symbol errors',
    z_discards Nullable(UInt64) COMMENT 'end z: packets discarded, received and sent',
    z_fec_corrected Nullable(UInt64) COMMENT 'end z: bits (else codewords) that FEC corrected',
    z_fec_uncorrected Nullable(UInt64) COMMENT 'end z: codewords that FEC could not correct',
    z_pre_fec_ber Nullable(Float64) COMMENT 'end z: highest bit error ratio before FEC',
    z_link_downs Nullable(UInt64) COMMENT 'end z: times the link went down (else transitions)',
    z_oper_up Nullable(Float64) COMMENT 'end z: 1: up in all readings, 0: down in at least one',
    z_temperature_c Nullable(Float64) COMMENT 'end z: highest temperature of the module, °C',
    z_pause_rx Nullable(UInt64) COMMENT 'end z: pause frames received',
    z_pause_tx Nullable(UInt64) COMMENT 'end z: pause frames sent'
)
COMMENT 'Both ends of a link side by side, by hour: {link} (its id, link:…), {since}, {until}. Of several sources the highest value counts'
AS SELECT bucket,
    maxIf(rx_bps, end = 'a') AS a_rx_bps,
    maxIf(tx_bps, end = 'a') AS a_tx_bps,
    maxIf(errors, end = 'a') AS a_errors,
    maxIf(discards, end = 'a') AS a_discards,
    maxIf(fec_corrected, end = 'a') AS a_fec_corrected,
    maxIf(fec_uncorrected, end = 'a') AS a_fec_uncorrected,
    maxIf(pre_fec_ber, end = 'a') AS a_pre_fec_ber,
    maxIf(link_downs, end = 'a') AS a_link_downs,
    maxIf(oper_up, end = 'a') AS a_oper_up,
    maxIf(temperature_c, end = 'a') AS a_temperature_c,
    maxIf(pause_rx, end = 'a') AS a_pause_rx,
    maxIf(pause_tx, end = 'a') AS a_pause_tx,
    maxIf(rx_bps, end = 'z') AS z_rx_bps,
    maxIf(tx_bps, end = 'z') AS z_tx_bps,
    maxIf(errors, end = 'z') AS z_errors,
    maxIf(discards, end = 'z') AS z_discards,
    maxIf(fec_corrected, end = 'z') AS z_fec_corrected,
    maxIf(fec_uncorrected, end = 'z') AS z_fec_uncorrected,
    maxIf(pre_fec_ber, end = 'z') AS z_pre_fec_ber,
    maxIf(link_downs, end = 'z') AS z_link_downs,
    maxIf(oper_up, end = 'z') AS z_oper_up,
    maxIf(temperature_c, end = 'z') AS z_temperature_c,
    maxIf(pause_rx, end = 'z') AS z_pause_rx,
    maxIf(pause_tx, end = 'z') AS z_pause_tx
FROM (
    SELECT bucket, ends.end AS end,
            toFloat64(8 * rx_bytes_increase / nullIf(observed_s, 0)) AS rx_bps,
            toFloat64(8 * tx_bytes_increase / nullIf(observed_s, 0)) AS tx_bps,
            if(rx_errors_increase IS NULL AND tx_errors_increase IS NULL AND rx_fcs_errors_increase IS NULL AND rx_symbol_errors_increase IS NULL, NULL, ifNull(rx_errors_increase, 0) + ifNull(tx_errors_increase, 0) + ifNull(rx_fcs_errors_increase, 0) + ifNull(rx_symbol_errors_increase, 0)) AS errors,
            if(rx_discards_increase IS NULL AND tx_discards_increase IS NULL, NULL, ifNull(rx_discards_increase, 0) + ifNull(tx_discards_increase, 0)) AS discards,
            coalesce(fec_corrected_bits_increase, fec_corrected_codewords_increase) AS fec_corrected,
            fec_uncorrected_codewords_increase AS fec_uncorrected,
            toFloat64(pre_fec_ber_max) AS pre_fec_ber,
            coalesce(link_down_events_increase, link_transitions_increase) AS link_downs,
            toFloat64(oper_up_min) AS oper_up,
            toFloat64(module_temperature_c_max) AS temperature_c,
            pause_rx_frames_increase AS pause_rx,
            pause_tx_frames_increase AS pause_tx
    FROM samples_1h AS readings
    INNER JOIN (
        SELECT ports.end AS end, names.device AS device, names.row AS row FROM ports
        INNER JOIN port_names AS names ON names.device = ports.device AND names.port = ports.port
        WHERE ports.link_id = {link:String}
    ) AS ends ON ends.device = readings.device AND ends.row = readings.row
    WHERE readings.row_kind = 'port' AND bucket >= {since:DateTime('UTC')} AND bucket < {until:DateTime('UTC')}
        AND readings.device IN (SELECT device FROM ports WHERE link_id = {link:String})
)
GROUP BY bucket
ORDER BY bucket;

CREATE VIEW IF NOT EXISTS link_lanes_1h (
    bucket DateTime('UTC') COMMENT 'start of the hour',
    end String COMMENT 'a or z',
    metric LowCardinality(String) COMMENT 'rx_power_dbm, pfc_rx_frames and so on',
    `index` Int32 COMMENT 'lane, priority, queue, bin or kind',
    increase Nullable(UInt64) COMMENT 'of a counter',
    rate Nullable(Float64) COMMENT 'increase a second',
    value_min Nullable(Float64) COMMENT 'of a gauge',
    value_max Nullable(Float64) COMMENT 'of a gauge',
    value_avg Nullable(Float64) COMMENT 'of a gauge'
)
COMMENT 'Both ends of a link by lane, priority or queue, by hour: {link} (its id, link:…), {since}, {until}'
AS SELECT bucket, end, metric, `index`, max(grown) AS increase, max(grown / nullIf(observed_s, 0)) AS rate, min(lowest) AS value_min,
    max(highest) AS value_max, avg(mean) AS value_avg
FROM (
    SELECT bucket, ends.end AS end, metric, `index`, readings.increase AS grown, observed_s, toFloat64(readings.value_min) AS lowest,
        toFloat64(readings.value_max) AS highest, toFloat64(readings.value_avg) AS mean
    FROM sample_lanes_1h AS readings
    INNER JOIN (
        SELECT ports.end AS end, names.device AS device, names.row AS row FROM ports
        INNER JOIN port_names AS names ON names.device = ports.device AND names.port = ports.port
        WHERE ports.link_id = {link:String}
    ) AS ends ON ends.device = readings.device AND ends.row = readings.row
    WHERE bucket >= {since:DateTime('UTC')} AND bucket < {until:DateTime('UTC')}
        AND readings.device IN (SELECT device FROM ports WHERE link_id = {link:String})
)
GROUP BY bucket, end, metric, `index`
ORDER BY metric, end, `index`, bucket;

CREATE VIEW IF NOT EXISTS port_against_peers_1h (
    bucket DateTime('UTC') COMMENT 'start of the hour',
    port String COMMENT 'name in the inventory',
    role LowCardinality(String) COMMENT 'host-link or fabric-link',
    rail Nullable(Int32) COMMENT 'rail',
    peers UInt64 COMMENT 'number of peers with readings',
    tx_bps Nullable(Float64) COMMENT 'sent, bit/s',
    tx_peers_bps Nullable(Float64) COMMENT 'median of the peers; NULL without any',
    tx_ratio Nullable(Float64) COMMENT 'tx_bps / tx_peers_bps',
    rx_bps Nullable(Float64) COMMENT 'received, bit/s',
    rx_peers_bps Nullable(Float64) COMMENT 'median of the peers; NULL without any',
    rx_ratio Nullable(Float64) COMMENT 'rx_bps / rx_peers_bps'
)
COMMENT 'The ports of a device against their peers (its other ports of the same role), by hour: {device}, {since}, {until}'
AS SELECT bucket, one.1 AS port, role, one.2 AS rail, length(others) AS peers, one.3 AS tx_bps,
    if(peers = 0, NULL, arrayReduce('median', arrayMap(x -> x.3, others))) AS tx_peers_bps, tx_bps / nullIf(tx_peers_bps, 0) AS tx_ratio, one.4 AS rx_bps,
    if(peers = 0, NULL, arrayReduce('median', arrayMap(x -> x.4, others))) AS rx_peers_bps, rx_bps / nullIf(rx_peers_bps, 0) AS rx_ratio
FROM (
    SELECT bucket, role, groupArray((port, rail, tx, rx)) AS all_ports
    FROM (
        SELECT bucket, ports.role AS role, ports.port AS port, any(ports.rail) AS rail, max(8 * tx_bytes_increase / nullIf(observed_s, 0)) AS tx,
            max(8 * rx_bytes_increase / nullIf(observed_s, 0)) AS rx
        FROM samples_1h AS readings
        INNER JOIN (SELECT row, port FROM port_names WHERE device = {device:String}) AS names ON names.row = readings.row
        INNER JOIN (SELECT port, role, rail FROM ports WHERE device = {device:String}) AS ports ON ports.port = names.port
        WHERE readings.device = {device:String} AND row_kind = 'port' AND bucket >= {since:DateTime('UTC')} AND bucket < {until:DateTime('UTC')}
        GROUP BY bucket, role, port
        HAVING tx IS NOT NULL AND rx IS NOT NULL
    )
    GROUP BY bucket, role
)
ARRAY JOIN all_ports AS one, arrayMap(x -> arrayFilter(y -> y.1 != x.1, all_ports), all_ports) AS others
ORDER BY port, bucket;

CREATE VIEW IF NOT EXISTS rail_bandwidth_1h (
    job String COMMENT 'name of the job',
    rail Nullable(Int32) COMMENT 'rail',
    ports UInt64 COMMENT 'host ports with readings',
    nominal_bps Nullable(Float64) COMMENT 'mean nominal speed of a port, bit/s',
    tx_bps Nullable(Float64) COMMENT 'mean of a port, bit/s',
    rx_bps Nullable(Float64) COMMENT 'mean of a port, bit/s',
    delivered_ratio Nullable(Float64) COMMENT 'the larger of tx_bps and rx_bps / nominal_bps',
    slowest_device String COMMENT 'host whose port delivered least',
    slowest_ratio Nullable(Float64) COMMENT 'its share of nominal'
)
COMMENT 'Delivered against nominal bandwidth of the host links of a job by rail, from rollups of a hour within its life: {job} (empty: all jobs), {since}, {until}'
AS SELECT job, rail, count() AS ports, avg(nominal) AS nominal_bps, avg(tx) AS tx_bps, avg(rx) AS rx_bps, greatest(tx_bps, rx_bps) / nominal_bps AS delivered_ratio,
    argMin(device, greatest(tx, rx) / nominal) AS slowest_device, min(greatest(tx, rx) / nominal) AS slowest_ratio
FROM (
    SELECT job, rail, device, port, any(speed) AS nominal, sum(sent) * 8 / nullIf(sum(seconds), 0) AS tx, sum(received) * 8 / nullIf(sum(seconds), 0) AS rx
    FROM (
        SELECT jobs.job AS job, hosts.rail AS rail, readings.device AS device, hosts.port AS port, bucket, any(hosts.speed_bps) AS speed,
            max(readings.tx_bytes_increase) AS sent, max(readings.rx_bytes_increase) AS received, max(toFloat64(observed_s)) AS seconds
        FROM samples_1h AS readings
        INNER JOIN (
            SELECT ports.device AS device, names.row AS row, ports.port AS port, ports.rail AS rail, toFloat64(ports.speed_bps) AS speed_bps FROM ports
            INNER JOIN port_names AS names ON names.device = ports.device AND names.port = ports.port
            WHERE ports.role = 'host-link' AND ports.end = 'a' AND ports.speed_bps IS NOT NULL
        ) AS hosts ON hosts.device = readings.device AND hosts.row = readings.row
        INNER JOIN (SELECT * FROM job_hosts WHERE {job:String} IN ('', job)) AS jobs ON jobs.device = readings.device
        WHERE row_kind = 'port' AND bucket >= {since:DateTime('UTC')} AND bucket < {until:DateTime('UTC')} AND toDateTime(jobs.start, 'UTC') <= bucket AND (jobs.end IS NULL OR bucket < jobs.end)
            AND readings.device IN (SELECT device FROM job_hosts WHERE {job:String} IN ('', job))
            AND readings.tx_bytes_increase IS NOT NULL AND readings.rx_bytes_increase IS NOT NULL AND observed_s > 0
        GROUP BY job, rail, device, port, bucket
    )
    GROUP BY job, rail, device, port
)
GROUP BY job, rail
ORDER BY job, rail;

CREATE VIEW IF NOT EXISTS job_against_fabric_1h (
    metric String COMMENT 'counter',
    job_ports UInt64 COMMENT 'ports of the job with readings of it',
    job_per_port_hour Nullable(Float64) COMMENT 'growth in an hour of a port of the job',
    fabric_ports UInt64 COMMENT 'ports of other hosts with readings of it',
    fabric_per_port_hour Nullable(Float64) COMMENT 'growth in an hour of a port of other hosts',
    ratio Nullable(Float64) COMMENT 'of the two; NULL where the fabric has none'
)
COMMENT 'Error and congestion counters of the host links of a job against those of all other hosts in the same time, from rollups of a hour: {job}, {since}, {until}'
AS SELECT metric, uniqExactIf((device, port), in_job) AS job_ports, sumIf(grown, in_job) * 3600 / nullIf(sumIf(seconds, in_job), 0) AS job_per_port_hour,
    uniqExactIf((device, port), NOT in_job) AS fabric_ports, sumIf(grown, NOT in_job) * 3600 / nullIf(sumIf(seconds, NOT in_job), 0) AS fabric_per_port_hour,
    job_per_port_hour / nullIf(fabric_per_port_hour, 0) AS ratio
FROM (
    SELECT device, port, in_job, pair.1 AS metric, max(pair.2) AS grown, max(observed) AS seconds
    FROM (
        SELECT readings.device AS device, hosts.port AS port, bucket, toFloat64(observed_s) AS observed,
            readings.device IN (SELECT device FROM job_hosts WHERE job = {job:String}) AS in_job,
            [('rx_discards', rx_discards_increase), ('tx_discards', tx_discards_increase), ('rx_errors',
            rx_errors_increase), ('tx_errors', tx_errors_increase), ('rx_fcs_errors', rx_fcs_errors_increase),
            ('rx_symbol_errors', rx_symbol_errors_increase), ('fec_uncorrected_codewords',
            fec_uncorrected_codewords_increase), ('link_down_events', link_down_events_increase), ('link_transitions',
            link_transitions_increase), ('pause_rx_frames', pause_rx_frames_increase), ('pause_tx_frames',
            pause_tx_frames_increase), ('cnp_sent', cnp_sent_increase), ('cnp_handled', cnp_handled_increase),
            ('roce_ecn_marked_packets', roce_ecn_marked_packets_increase), ('out_of_sequence', out_of_sequence_increase),
            ('packet_sequence_errors', packet_sequence_errors_increase), ('local_ack_timeouts',
            local_ack_timeouts_increase), ('adaptive_retransmits', adaptive_retransmits_increase), ('rnr_nak_retries',
            rnr_nak_retries_increase), ('rx_icrc_errors', rx_icrc_errors_increase)] AS pairs
        FROM samples_1h AS readings
        INNER JOIN (
            SELECT ports.device AS device, names.row AS row, ports.port AS port FROM ports
            INNER JOIN port_names AS names ON names.device = ports.device AND names.port = ports.port
            WHERE ports.role = 'host-link' AND ports.end = 'a'
        ) AS hosts ON hosts.device = readings.device AND hosts.row = readings.row
        WHERE row_kind = 'port' AND bucket >= {since:DateTime('UTC')} AND bucket < {until:DateTime('UTC')} AND observed_s > 0
            AND bucket >= (SELECT toDateTime(min(start), 'UTC') FROM job_hosts WHERE job = {job:String})
            AND bucket < (SELECT ifNull(if(countIf(end IS NULL) > 0, NULL, max(end)), {until:DateTime('UTC')}) FROM job_hosts WHERE job = {job:String})
    ) ARRAY JOIN pairs AS pair
    WHERE pair.2 IS NOT NULL
    GROUP BY device, port, in_job, metric, bucket
)
GROUP BY metric
ORDER BY metric;

CREATE VIEW IF NOT EXISTS open_episodes_at (
    id String COMMENT 'id of the episode',
    revision UInt64 COMMENT 'revision that was the newest',
    detector LowCardinality(String) COMMENT 'link/flap and so on',
    status LowCardinality(String) COMMENT 'open, updated or resolved',
    severity LowCardinality(String) COMMENT 'critical, warning or info',
    subject_id String COMMENT 'link:…, port:…, rail:…, device:…',
    a_device LowCardinality(String) COMMENT 'end nearer to the hosts',
    a_port LowCardinality(String) COMMENT 'its port',
    z_device LowCardinality(String) COMMENT 'other end',
    z_port LowCardinality(String) COMMENT 'its port',
    rail Nullable(Int32) COMMENT 'rail',
    plane Nullable(Int32) COMMENT 'plane',
    pod LowCardinality(String) COMMENT 'pod',
    started_at DateTime64(9, 'UTC') COMMENT 'begin, event time',
    resolved_at Nullable(DateTime64(9, 'UTC')) COMMENT 'end, event time, as far as it was known',
    summary String COMMENT 'sentence for people',
    known_at DateTime64(3, 'UTC') COMMENT 'arrival of the revision'
)
COMMENT 'The episodes that were open at {at} (event time), by what was known at {known_at} (arrival). A later resolution with an earlier end does not change the answer'
AS SELECT id, revision, detector, status, severity, subject_id, a_device, a_port, z_device, z_port, rail, plane, pod, started_at, resolved_at, summary,
    arrived_at AS known_at
FROM episodes
WHERE arrived_at <= {known_at:DateTime64(3, 'UTC')} AND (id, revision) IN (
        SELECT id, max(revision) FROM episodes WHERE arrived_at <= {known_at:DateTime64(3, 'UTC')} GROUP BY id
    ) AND status != 'retracted' AND started_at <= {at:DateTime64(9, 'UTC')}
    AND (resolved_at IS NULL OR resolved_at > {at:DateTime64(9, 'UTC')})
ORDER BY started_at, id
LIMIT 1 BY id;

CREATE VIEW IF NOT EXISTS open_findings_at (
    id String COMMENT 'id of the finding',
    revision UInt64 COMMENT 'revision that was the newest',
    detector LowCardinality(String) COMMENT 'link/flap and so on',
    status LowCardinality(String) COMMENT 'open, updated or resolved',
    severity LowCardinality(String) COMMENT 'critical, warning or info',
    subject_id String COMMENT 'link:…, port:…, rail:…, device:…',
    a_device LowCardinality(String) COMMENT 'end nearer to the hosts',
    a_port LowCardinality(String) COMMENT 'its port',
    z_device LowCardinality(String) COMMENT 'other end',
    z_port LowCardinality(String) COMMENT 'its port',
    rail Nullable(Int32) COMMENT 'rail',
    plane Nullable(Int32) COMMENT 'plane',
    pod LowCardinality(String) COMMENT 'pod',
    started_at DateTime64(9, 'UTC') COMMENT 'begin, event time',
    resolved_at Nullable(DateTime64(9, 'UTC')) COMMENT 'end, event time, as far as it was known',
    summary String COMMENT 'sentence for people',
    known_at DateTime64(3, 'UTC') COMMENT 'arrival of the revision',
    parent_id String COMMENT 'id of the root finding; empty: a root',
    cause LowCardinality(String) COMMENT 'most probable cause',
    confidence Nullable(Float64) COMMENT 'of the finding, 0 to 1',
    hosts Array(String) COMMENT 'hosts affected',
    jobs Array(String) COMMENT 'jobs affected',
    gpus Nullable(UInt32) COMMENT 'GPUs of these hosts',
    runbook_url String COMMENT 'page of the runbook'
)
COMMENT 'The findings that were open at {at} (event time), by what was known at {known_at} (arrival). A later resolution with an earlier end does not change the answer'
AS SELECT id, revision, detector, status, severity, subject_id, a_device, a_port, z_device, z_port, rail, plane, pod, started_at, resolved_at, summary,
    arrived_at AS known_at, parent_id, cause, confidence, hosts, jobs, gpus, runbook_url
FROM findings
WHERE arrived_at <= {known_at:DateTime64(3, 'UTC')} AND (id, revision) IN (
        SELECT id, max(revision) FROM findings WHERE arrived_at <= {known_at:DateTime64(3, 'UTC')} GROUP BY id
    ) AND status != 'retracted' AND NOT shadow AND started_at <= {at:DateTime64(9, 'UTC')}
    AND (resolved_at IS NULL OR resolved_at > {at:DateTime64(9, 'UTC')})
ORDER BY started_at, id
LIMIT 1 BY id;

CREATE VIEW IF NOT EXISTS repeat_offenders (
    subject_id String COMMENT 'link:…, port:…, rail:…, device:…',
    a_device LowCardinality(String) COMMENT 'end nearer to the hosts',
    a_port LowCardinality(String) COMMENT 'its port',
    z_device LowCardinality(String) COMMENT 'other end',
    z_port LowCardinality(String) COMMENT 'its port',
    rail Nullable(Int32) COMMENT 'rail',
    pod LowCardinality(String) COMMENT 'pod',
    findings UInt64 COMMENT 'root findings that began in this time',
    detectors Array(String) COMMENT 'their detectors',
    first_at DateTime64(9, 'UTC') COMMENT 'begin of the first',
    last_at DateTime64(9, 'UTC') COMMENT 'begin of the last',
    open_now UInt64 COMMENT 'of them without an end',
    affected_h Float64 COMMENT 'hours in findings, until {until}; overlaps count twice'
)
COMMENT 'Subjects with at least two root findings in the {days} days before {until}'
AS SELECT subject_id, any(a_device) AS a_device, any(a_port) AS a_port, any(z_device) AS z_device, any(z_port) AS z_port, any(rail) AS rail, any(pod) AS pod, count() AS findings,
    arraySort(groupUniqArray(toString(detector))) AS detectors, min(started_at) AS first_at, max(started_at) AS last_at, countIf(resolved_at IS NULL) AS open_now,
    sum(dateDiff('millisecond', started_at, least(ifNull(resolved_at, {until:DateTime64(9, 'UTC')}), {until:DateTime64(9, 'UTC')}))) / 3600000 AS affected_h
FROM findings_latest
WHERE status != 'retracted' AND NOT shadow AND parent_id = '' AND started_at < {until:DateTime64(9, 'UTC')}
    AND started_at >= subtractDays({until:DateTime64(9, 'UTC')}, {days:UInt32})
GROUP BY subject_id
HAVING findings >= 2
ORDER BY findings DESC, affected_h DESC, subject_id;

CREATE VIEW IF NOT EXISTS mtbf_by_part (
    kind String COMMENT 'transceiver, nic and so on',
    part_number String COMMENT 'part number',
    firmware String COMMENT 'firmware',
    parts UInt64 COMMENT 'parts in use',
    part_hours Float64 COMMENT 'time in use',
    failures UInt64 COMMENT 'findings at these parts',
    mtbf_h Nullable(Float64) COMMENT 'part_hours / failures; NULL without failures',
    mtbf_low_h Float64 COMMENT 'lower limit',
    mtbf_high_h Nullable(Float64) COMMENT 'upper limit; NULL without failures'
)
COMMENT 'Mean time between failures by part number and firmware in [{since}, {until}), from the Facts of devices and the root findings of link and host hardware. A failure of a link counts for the part at each of its ends. The interval (90 %) is that of a Poisson process, chi-squared by Wilson and Hilferty (within 3 %), the upper limit of one failure exactly'
AS SELECT kind, part_number, firmware, count() AS parts, sum(hours) AS part_hours, sum(failed) AS failures, part_hours / nullIf(failures, 0) AS mtbf_h,
    2 * part_hours / ((2 * failures + 2) * pow(1 - 2 / (9 * (2 * failures + 2)) + 1.6448536 * sqrt(2 / (9 * (2 * failures + 2))), 3)) AS mtbf_low_h,
    multiIf(failures = 0, NULL, failures = 1, part_hours / 0.05129329,
        2 * part_hours / (2 * failures * pow(1 - 2 / (9 * 2 * failures) - 1.6448536 * sqrt(2 / (9 * 2 * failures)), 3))) AS mtbf_high_h
FROM (
    SELECT used.device AS device, used.name AS name, kind, part_number, firmware, any(used.hours) AS hours,
        countIf(faults.at >= used.from AND faults.at < used.to AND has(used.names, faults.port)) AS failed
    FROM (
        SELECT device, source, name, kind, part_number, firmware, serial_number, any(names) AS names, greatest(min(observed_at), {since:DateTime64(9, 'UTC')}) AS from,
            least(max(observed_at), {until:DateTime64(9, 'UTC')}) AS to, greatest(dateDiff('second', from, to), 0) / 3600 AS hours
        FROM (
            SELECT device, source, observed_at, name, kind, part_number, firmware, serial_number, arrayConcat([name], aliases) AS names
            FROM (
                SELECT device, source, observed_at, components.name AS component_names, components.kind AS kinds, components.part_number AS part_numbers,
                    components.firmware AS firmwares, components.serial AS serials, components.alias AS component_aliases
                FROM facts WHERE observed_at < {until:DateTime64(9, 'UTC')}
            )
            ARRAY JOIN component_names AS name, kinds AS kind, part_numbers AS part_number, firmwares AS firmware, serials AS serial_number,
                component_aliases AS aliases
            WHERE part_number != ''
        )
        GROUP BY device, source, name, kind, part_number, firmware, serial_number
        HAVING hours > 0
    ) AS used
    LEFT JOIN (
        SELECT DISTINCT end.1 AS device, end.2 AS port, started_at AS at, id
        FROM (
            SELECT id, started_at, [(toString(a_device), toString(a_port)), (toString(z_device), toString(z_port))] AS ends FROM findings_latest
            WHERE status != 'retracted' AND NOT shadow AND parent_id = '' AND started_at >= {since:DateTime64(9, 'UTC')} AND started_at < {until:DateTime64(9, 'UTC')}
                AND detector IN ('link/flap', 'link/down', 'link/degrading', 'host/pcie-degraded', 'host/gpu-fault', 'host/thermal-throttle')
        ) ARRAY JOIN ends AS end WHERE end.1 != ''
    ) AS faults ON faults.device = used.device
    GROUP BY device, name, kind, part_number, firmware, used.serial_number
)
GROUP BY kind, part_number, firmware
ORDER BY failures DESC, part_hours DESC;

CREATE VIEW IF NOT EXISTS gpu_hours_lost (
    job String COMMENT 'name of the job',
    device String COMMENT 'host',
    finding_id String COMMENT 'worst finding of this time',
    detector String COMMENT 'its detector',
    begin DateTime64(9, 'UTC') COMMENT 'begin of the loss',
    end DateTime64(9, 'UTC') COMMENT 'its end',
    gpus UInt32 COMMENT 'GPUs of the host',
    lost_ratio Float64 COMMENT 'capacity lost',
    gpu_hours Float64 COMMENT 'lost'
)
COMMENT 'GPU-hours that jobs lost to root findings in [{since}, {until}): GPUs of the host × hours × capacity lost (all of it where the finding has no ratio). Where findings overlap at a host, the worst counts'
AS SELECT job, device, worst.3 AS finding_id, worst.4 AS detector, segment.1 AS begin, segment.2 AS end, gpus, worst.5 AS lost_ratio,
    gpus * lost_ratio * dateDiff('millisecond', begin, end) / 3600000 AS gpu_hours
FROM (
    SELECT job, device, gpus, losses, arraySort(arrayDistinct(arrayConcat(arrayMap(x -> x.1, losses), arrayMap(x -> x.2, losses)))) AS times
    FROM (
        SELECT jobs.job AS job, hit.device AS device, any(hosts.gpus) AS gpus,
            groupArray((greatest(hit.begin, jobs.start), least(hit.end, ifNull(jobs.end, {until:DateTime64(9, 'UTC')})), hit.id, hit.detector, hit.ratio)) AS losses
        FROM (
            SELECT id, toString(detector) AS detector, arrayJoin(hosts) AS device, ifNull(capacity_lost_ratio, 1) AS ratio,
                greatest(started_at, {since:DateTime64(9, 'UTC')}) AS begin,
                least(ifNull(resolved_at, {until:DateTime64(9, 'UTC')}), {until:DateTime64(9, 'UTC')}) AS end
            FROM findings_latest
            WHERE status != 'retracted' AND NOT shadow AND parent_id = '' AND started_at < {until:DateTime64(9, 'UTC')} AND (resolved_at IS NULL OR resolved_at > {since:DateTime64(9, 'UTC')})
        ) AS hit
        INNER JOIN job_hosts AS jobs ON jobs.device = hit.device
        INNER JOIN (
            SELECT name, any(gpus) AS gpus FROM inventory_devices WHERE (digest, effective_at) = (
        SELECT digest, effective_at FROM inventory_devices
        ORDER BY effective_at <= now64(9) DESC, if(effective_at <= now64(9), effective_at, toDateTime64(0, 9, 'UTC')) DESC, effective_at LIMIT 1
    )
            GROUP BY name
        ) AS hosts ON hosts.name = hit.device
        WHERE jobs.start < hit.end AND (jobs.end IS NULL OR jobs.end > hit.begin)
        GROUP BY job, device
    )
)
ARRAY JOIN arrayZip(arrayPopBack(times), arrayPopFront(times)) AS segment
ARRAY JOIN [arraySort(x -> (-x.5, x.1, x.3), arrayFilter(x -> x.1 <= segment.1 AND x.2 >= segment.2, losses))[1]] AS worst
WHERE worst.3 != '' AND lost_ratio > 0
ORDER BY job, device, begin;
