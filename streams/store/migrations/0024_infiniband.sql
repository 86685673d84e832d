-- Adds the counters of InfiniBand to samples and their rollups.

ALTER TABLE samples ADD COLUMN IF NOT EXISTS tx_wait_bytes Nullable(UInt64) CODEC(T64, LZ4) AFTER gpu_ecc_uncorrected;

ALTER TABLE samples ADD COLUMN IF NOT EXISTS hoq_lifetime_discards Nullable(UInt64) CODEC(T64, LZ4) AFTER tx_wait_bytes;

ALTER TABLE samples ADD COLUMN IF NOT EXISTS uncorrected_symbols Nullable(UInt64) CODEC(T64, LZ4) AFTER hoq_lifetime_discards;

ALTER TABLE samples ADD COLUMN IF NOT EXISTS plr_rx_errors Nullable(UInt64) CODEC(T64, LZ4) AFTER uncorrected_symbols;

ALTER TABLE samples ADD COLUMN IF NOT EXISTS plr_rx_uncorrectable Nullable(UInt64) CODEC(T64, LZ4) AFTER plr_rx_errors;

ALTER TABLE samples ADD COLUMN IF NOT EXISTS plr_tx_retries Nullable(UInt64) CODEC(T64, LZ4) AFTER plr_rx_uncorrectable;

ALTER TABLE samples ADD COLUMN IF NOT EXISTS plr_tx_retry_events Nullable(UInt64) CODEC(T64, LZ4) AFTER plr_tx_retries;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS tx_wait_bytes_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'bytes; NULL: not read, or reset' AFTER gpu_ecc_uncorrected_increase;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS hoq_lifetime_discards_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'packets; NULL: not read, or reset' AFTER tx_wait_bytes_increase;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS uncorrected_symbols_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'errors; NULL: not read, or reset' AFTER hoq_lifetime_discards_increase;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS plr_rx_errors_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'codes; NULL: not read, or reset' AFTER uncorrected_symbols_increase;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS plr_rx_uncorrectable_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'codes; NULL: not read, or reset' AFTER plr_rx_errors_increase;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS plr_tx_retries_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'codes; NULL: not read, or reset' AFTER plr_rx_uncorrectable_increase;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS plr_tx_retry_events_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset' AFTER plr_tx_retries_increase;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS tx_wait_bytes_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'bytes; NULL: not read, or reset' AFTER gpu_ecc_uncorrected_increase;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS hoq_lifetime_discards_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'packets; NULL: not read, or reset' AFTER tx_wait_bytes_increase;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS uncorrected_symbols_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'errors; NULL: not read, or reset' AFTER hoq_lifetime_discards_increase;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS plr_rx_errors_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'codes; NULL: not read, or reset' AFTER uncorrected_symbols_increase;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS plr_rx_uncorrectable_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'codes; NULL: not read, or reset' AFTER plr_rx_errors_increase;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS plr_tx_retries_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'codes; NULL: not read, or reset' AFTER plr_rx_uncorrectable_increase;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS plr_tx_retry_events_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset' AFTER plr_tx_retries_increase;
