-- Adds the counters of NICs that retransmit in hardware (EFA, ionic) to samples and their rollups.

ALTER TABLE samples ADD COLUMN IF NOT EXISTS retransmitted_packets Nullable(UInt64) CODEC(T64, LZ4) AFTER pcie_buffer_overflows;

ALTER TABLE samples ADD COLUMN IF NOT EXISTS retransmitted_bytes Nullable(UInt64) CODEC(T64, LZ4) AFTER retransmitted_packets;

ALTER TABLE samples ADD COLUMN IF NOT EXISTS unresponsive_remotes Nullable(UInt64) CODEC(T64, LZ4) AFTER retransmitted_bytes;

ALTER TABLE samples ADD COLUMN IF NOT EXISTS impaired_connections Nullable(UInt64) CODEC(T64, LZ4) AFTER unresponsive_remotes;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS retransmitted_packets_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'packets; NULL: not read, or reset' AFTER pcie_buffer_overflows_increase;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS retransmitted_bytes_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'bytes; NULL: not read, or reset' AFTER retransmitted_packets_increase;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS unresponsive_remotes_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset' AFTER retransmitted_bytes_increase;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS impaired_connections_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset' AFTER unresponsive_remotes_increase;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS retransmitted_packets_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'packets; NULL: not read, or reset' AFTER pcie_buffer_overflows_increase;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS retransmitted_bytes_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'bytes; NULL: not read, or reset' AFTER retransmitted_packets_increase;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS unresponsive_remotes_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset' AFTER retransmitted_bytes_increase;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS impaired_connections_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset' AFTER unresponsive_remotes_increase;
