-- Groups of ports by hour, so that what a board shows of a whole fabric over a week is not read port by port: 132 million
-- rows of samples_1h at the largest fabric, some 8 million here. A group is the ports of a switch that lead to hosts on
-- one rail, those that lead to switches, a pod's NICs on one rail, or the NICs of a host. Filled by the sink from
-- samples_1h and sample_lanes_1h with the inventory of the hour; hours of before the upgrade follow, the newest first
-- (group_rollups.py).

CREATE TABLE IF NOT EXISTS port_groups_1h (
    statistic LowCardinality(String) COMMENT 'what the row has: counters, lanes, carried or uplinks',
    pod LowCardinality(String) COMMENT 'of the device; empty: none, or not in the inventory',
    device LowCardinality(String) COMMENT 'the switch, or of carried the host; empty: the hosts of a pod',
    kind LowCardinality(String) COMMENT 'host or switch; empty: not in the inventory',
    role LowCardinality(String) COMMENT 'host-link or fabric-link; empty: rows that are no port of a link',
    rail Int32 COMMENT '-1: none',
    source LowCardinality(String) COMMENT 'gnmi, snmp, nic, host, bridge or probe; empty: of several',
    bucket DateTime('UTC') CODEC(DoubleDelta, LZ4) COMMENT 'start of the hour, event time',
    readings UInt64 CODEC(T64, LZ4) COMMENT 'of the rows by hour that the group was made from',
    rx_discards_per_s Nullable(Float64) CODEC(LZ4) COMMENT 'packets/s, the sum of all ports; NULL: read of none',
    tx_discards_per_s Nullable(Float64) CODEC(LZ4) COMMENT 'packets/s, the sum of all ports; NULL: read of none',
    pause_rx_frames_per_s Nullable(Float64) CODEC(LZ4) COMMENT 'frames/s, the sum of all ports; NULL: read of none',
    pause_tx_frames_per_s Nullable(Float64) CODEC(LZ4) COMMENT 'frames/s, the sum of all ports; NULL: read of none',
    port_ecn_marked_packets_per_s Nullable(Float64) CODEC(LZ4) COMMENT 'packets/s, the sum of all ports; NULL: read of none',
    roce_ecn_marked_packets_per_s Nullable(Float64) CODEC(LZ4) COMMENT 'packets/s, the sum of all ports; NULL: read of none',
    cnp_sent_per_s Nullable(Float64) CODEC(LZ4) COMMENT 'events/s, the sum of all ports; NULL: read of none',
    cnp_handled_per_s Nullable(Float64) CODEC(LZ4) COMMENT 'events/s, the sum of all ports; NULL: read of none',
    pfc_rx_frames_per_s Nullable(Float64) CODEC(LZ4) COMMENT 'frames/s, the sum of all ports; NULL: read of none',
    pfc_tx_frames_per_s Nullable(Float64) CODEC(LZ4) COMMENT 'frames/s, the sum of all ports; NULL: read of none',
    carried_bps Nullable(Float64) CODEC(LZ4) COMMENT 'bit/s that the NICs sent, or that their switches received; the sum',
    carried_bps_min Nullable(Float64) CODEC(LZ4) COMMENT 'bit/s of the NIC that sent least',
    carried_bps_median Nullable(Float64) CODEC(LZ4) COMMENT 'bit/s, median of the NICs',
    carried_speed_bps Nullable(Float64) CODEC(LZ4) COMMENT 'bit/s, nominal speed of these NICs: the sum',
    carried_ports UInt32 CODEC(T64, LZ4) COMMENT 'NICs of which that is known',
    uplinks_uneven Nullable(Float64) CODEC(LZ4) COMMENT 'largest distance of an uplink in use from their mean, of the mean',
    arrived_at DateTime64(3, 'UTC') CODEC(Delta, LZ4) COMMENT 'latest arrival in the hour, from which the row expires'
)
ENGINE = ReplacingMergeTree(readings)
PARTITION BY toYYYYMM(bucket)
ORDER BY (bucket, statistic, kind, role, pod, device, rail, source)
TTL toDateTime(arrived_at) + INTERVAL 400 DAY DELETE
SETTINGS non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1, min_bytes_for_wide_part = 0,
    min_rows_for_wide_part = 400000
COMMENT 'Groups of ports by hour: what boards show of a whole fabric over a long time';
