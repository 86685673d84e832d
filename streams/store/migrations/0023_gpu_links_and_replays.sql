-- Adds the scalar metrics of NVLinks, power limits and recovery of GPUs, and of links that send frames again.

ALTER TABLE samples ADD COLUMN IF NOT EXISTS nvlink_links Nullable(Float64) CODEC(LZ4) AFTER gpu_ecc_uncorrected;

ALTER TABLE samples ADD COLUMN IF NOT EXISTS nvlink_links_up Nullable(Float64) CODEC(LZ4) AFTER nvlink_links;

ALTER TABLE samples ADD COLUMN IF NOT EXISTS gpu_fabric_state Nullable(Float64) CODEC(LZ4) AFTER nvlink_links_up;

ALTER TABLE samples ADD COLUMN IF NOT EXISTS gpu_power_limit_w Nullable(Float64) CODEC(LZ4) AFTER gpu_fabric_state;

ALTER TABLE samples ADD COLUMN IF NOT EXISTS gpu_power_limit_set_w Nullable(Float64) CODEC(LZ4) AFTER gpu_power_limit_w;

ALTER TABLE samples ADD COLUMN IF NOT EXISTS gpu_recovery_action Nullable(Float64) CODEC(LZ4) AFTER gpu_power_limit_set_w;

ALTER TABLE samples ADD COLUMN IF NOT EXISTS llr_tx_replays Nullable(UInt64) CODEC(T64, LZ4) AFTER gpu_recovery_action;

ALTER TABLE samples ADD COLUMN IF NOT EXISTS llr_tx_discards Nullable(UInt64) CODEC(T64, LZ4) AFTER llr_tx_replays;

ALTER TABLE samples ADD COLUMN IF NOT EXISTS llr_rx_ok Nullable(UInt64) CODEC(T64, LZ4) AFTER llr_tx_discards;

ALTER TABLE samples ADD COLUMN IF NOT EXISTS llr_rx_bad Nullable(UInt64) CODEC(T64, LZ4) AFTER llr_rx_ok;

ALTER TABLE samples ADD COLUMN IF NOT EXISTS llr_rx_poisoned Nullable(UInt64) CODEC(T64, LZ4) AFTER llr_rx_bad;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS nvlink_links_min Nullable(Float32) CODEC(LZ4) COMMENT 'links; NULL: not read' AFTER gpu_ecc_uncorrected_increase;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS nvlink_links_max Nullable(Float32) CODEC(LZ4) COMMENT 'links; NULL: not read' AFTER nvlink_links_min;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS nvlink_links_avg Nullable(Float32) CODEC(LZ4) COMMENT 'links; NULL: not read' AFTER nvlink_links_max;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS nvlink_links_up_min Nullable(Float32) CODEC(LZ4) COMMENT 'links; NULL: not read' AFTER nvlink_links_avg;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS nvlink_links_up_max Nullable(Float32) CODEC(LZ4) COMMENT 'links; NULL: not read' AFTER nvlink_links_up_min;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS nvlink_links_up_avg Nullable(Float32) CODEC(LZ4) COMMENT 'links; NULL: not read' AFTER nvlink_links_up_max;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS gpu_fabric_state_min Nullable(Float32) CODEC(LZ4) COMMENT 'state; NULL: not read' AFTER nvlink_links_up_avg;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS gpu_fabric_state_max Nullable(Float32) CODEC(LZ4) COMMENT 'state; NULL: not read' AFTER gpu_fabric_state_min;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS gpu_fabric_state_avg Nullable(Float32) CODEC(LZ4) COMMENT 'state; NULL: not read' AFTER gpu_fabric_state_max;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS gpu_power_limit_w_min Nullable(Float32) CODEC(LZ4) COMMENT 'W; NULL: not read' AFTER gpu_fabric_state_avg;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS gpu_power_limit_w_max Nullable(Float32) CODEC(LZ4) COMMENT 'W; NULL: not read' AFTER gpu_power_limit_w_min;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS gpu_power_limit_w_avg Nullable(Float32) CODEC(LZ4) COMMENT 'W; NULL: not read' AFTER gpu_power_limit_w_max;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS gpu_power_limit_set_w_min Nullable(Float32) CODEC(LZ4) COMMENT 'W; NULL: not read' AFTER gpu_power_limit_w_avg;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS gpu_power_limit_set_w_max Nullable(Float32) CODEC(LZ4) COMMENT 'W; NULL: not read' AFTER gpu_power_limit_set_w_min;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS gpu_power_limit_set_w_avg Nullable(Float32) CODEC(LZ4) COMMENT 'W; NULL: not read' AFTER gpu_power_limit_set_w_max;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS gpu_recovery_action_min Nullable(Float32) CODEC(LZ4) COMMENT 'state; NULL: not read' AFTER gpu_power_limit_set_w_avg;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS gpu_recovery_action_max Nullable(Float32) CODEC(LZ4) COMMENT 'state; NULL: not read' AFTER gpu_recovery_action_min;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS gpu_recovery_action_avg Nullable(Float32) CODEC(LZ4) COMMENT 'state; NULL: not read' AFTER gpu_recovery_action_max;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS llr_tx_replays_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset' AFTER gpu_recovery_action_avg;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS llr_tx_discards_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'frames; NULL: not read, or reset' AFTER llr_tx_replays_increase;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS llr_rx_ok_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'frames; NULL: not read, or reset' AFTER llr_tx_discards_increase;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS llr_rx_bad_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'frames; NULL: not read, or reset' AFTER llr_rx_ok_increase;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS llr_rx_poisoned_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'frames; NULL: not read, or reset' AFTER llr_rx_bad_increase;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS nvlink_links_min Nullable(Float32) CODEC(LZ4) COMMENT 'links; NULL: not read' AFTER gpu_ecc_uncorrected_increase;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS nvlink_links_max Nullable(Float32) CODEC(LZ4) COMMENT 'links; NULL: not read' AFTER nvlink_links_min;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS nvlink_links_avg Nullable(Float32) CODEC(LZ4) COMMENT 'links; NULL: not read' AFTER nvlink_links_max;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS nvlink_links_up_min Nullable(Float32) CODEC(LZ4) COMMENT 'links; NULL: not read' AFTER nvlink_links_avg;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS nvlink_links_up_max Nullable(Float32) CODEC(LZ4) COMMENT 'links; NULL: not read' AFTER nvlink_links_up_min;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS nvlink_links_up_avg Nullable(Float32) CODEC(LZ4) COMMENT 'links; NULL: not read' AFTER nvlink_links_up_max;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS gpu_fabric_state_min Nullable(Float32) CODEC(LZ4) COMMENT 'state; NULL: not read' AFTER nvlink_links_up_avg;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS gpu_fabric_state_max Nullable(Float32) CODEC(LZ4) COMMENT 'state; NULL: not read' AFTER gpu_fabric_state_min;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS gpu_fabric_state_avg Nullable(Float32) CODEC(LZ4) COMMENT 'state; NULL: not read' AFTER gpu_fabric_state_max;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS gpu_power_limit_w_min Nullable(Float32) CODEC(LZ4) COMMENT 'W; NULL: not read' AFTER gpu_fabric_state_avg;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS gpu_power_limit_w_max Nullable(Float32) CODEC(LZ4) COMMENT 'W; NULL: not read' AFTER gpu_power_limit_w_min;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS gpu_power_limit_w_avg Nullable(Float32) CODEC(LZ4) COMMENT 'W; NULL: not read' AFTER gpu_power_limit_w_max;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS gpu_power_limit_set_w_min Nullable(Float32) CODEC(LZ4) COMMENT 'W; NULL: not read' AFTER gpu_power_limit_w_avg;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS gpu_power_limit_set_w_max Nullable(Float32) CODEC(LZ4) COMMENT 'W; NULL: not read' AFTER gpu_power_limit_set_w_min;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS gpu_power_limit_set_w_avg Nullable(Float32) CODEC(LZ4) COMMENT 'W; NULL: not read' AFTER gpu_power_limit_set_w_max;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS gpu_recovery_action_min Nullable(Float32) CODEC(LZ4) COMMENT 'state; NULL: not read' AFTER gpu_power_limit_set_w_avg;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS gpu_recovery_action_max Nullable(Float32) CODEC(LZ4) COMMENT 'state; NULL: not read' AFTER gpu_recovery_action_min;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS gpu_recovery_action_avg Nullable(Float32) CODEC(LZ4) COMMENT 'state; NULL: not read' AFTER gpu_recovery_action_max;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS llr_tx_replays_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'events; NULL: not read, or reset' AFTER gpu_recovery_action_avg;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS llr_tx_discards_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'frames; NULL: not read, or reset' AFTER llr_tx_replays_increase;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS llr_rx_ok_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'frames; NULL: not read, or reset' AFTER llr_tx_discards_increase;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS llr_rx_bad_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'frames; NULL: not read, or reset' AFTER llr_rx_ok_increase;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS llr_rx_poisoned_increase Nullable(UInt64) CODEC(T64, LZ4) COMMENT 'frames; NULL: not read, or reset' AFTER llr_rx_bad_increase;
