-- Adds the states of routing sessions (BFD, BGP) to samples and their rollups.

ALTER TABLE samples ADD COLUMN IF NOT EXISTS bfd_session_up Nullable(Float64) CODEC(LZ4) AFTER damped;

ALTER TABLE samples ADD COLUMN IF NOT EXISTS bgp_session_up Nullable(Float64) CODEC(LZ4) AFTER bfd_session_up;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS bfd_session_up_min Nullable(Float32) CODEC(LZ4) COMMENT 'bool; NULL: not read' AFTER damped_avg;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS bfd_session_up_max Nullable(Float32) CODEC(LZ4) COMMENT 'bool; NULL: not read' AFTER bfd_session_up_min;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS bfd_session_up_avg Nullable(Float32) CODEC(LZ4) COMMENT 'bool; NULL: not read' AFTER bfd_session_up_max;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS bgp_session_up_min Nullable(Float32) CODEC(LZ4) COMMENT 'bool; NULL: not read' AFTER bfd_session_up_avg;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS bgp_session_up_max Nullable(Float32) CODEC(LZ4) COMMENT 'bool; NULL: not read' AFTER bgp_session_up_min;

ALTER TABLE samples_1m ADD COLUMN IF NOT EXISTS bgp_session_up_avg Nullable(Float32) CODEC(LZ4) COMMENT 'bool; NULL: not read' AFTER bgp_session_up_max;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS bfd_session_up_min Nullable(Float32) CODEC(LZ4) COMMENT 'bool; NULL: not read' AFTER damped_avg;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS bfd_session_up_max Nullable(Float32) CODEC(LZ4) COMMENT 'bool; NULL: not read' AFTER bfd_session_up_min;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS bfd_session_up_avg Nullable(Float32) CODEC(LZ4) COMMENT 'bool; NULL: not read' AFTER bfd_session_up_max;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS bgp_session_up_min Nullable(Float32) CODEC(LZ4) COMMENT 'bool; NULL: not read' AFTER bfd_session_up_avg;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS bgp_session_up_max Nullable(Float32) CODEC(LZ4) COMMENT 'bool; NULL: not read' AFTER bgp_session_up_min;

ALTER TABLE samples_1h ADD COLUMN IF NOT EXISTS bgp_session_up_avg Nullable(Float32) CODEC(LZ4) COMMENT 'bool; NULL: not read' AFTER bgp_session_up_max;
