-- Adds what schedulers report about jobs beyond hosts and times, and the tenants of hosts and jobs.

ALTER TABLE jobs ADD COLUMN IF NOT EXISTS name String AFTER end;

ALTER TABLE jobs ADD COLUMN IF NOT EXISTS user String AFTER name;

ALTER TABLE jobs ADD COLUMN IF NOT EXISTS team LowCardinality(String) AFTER user;

ALTER TABLE jobs ADD COLUMN IF NOT EXISTS tenant LowCardinality(String) AFTER team;

ALTER TABLE jobs ADD COLUMN IF NOT EXISTS gpus Nullable(UInt32) AFTER tenant;

ALTER TABLE jobs ADD COLUMN IF NOT EXISTS run UInt32 AFTER gpus;

ALTER TABLE jobs ADD COLUMN IF NOT EXISTS state LowCardinality(String) AFTER run;

ALTER TABLE jobs ADD COLUMN IF NOT EXISTS scheduler LowCardinality(String) AFTER state;

ALTER TABLE jobs ADD COLUMN IF NOT EXISTS scheduler_ids Array(String) AFTER scheduler;

ALTER TABLE jobs ADD COLUMN IF NOT EXISTS array_job String AFTER scheduler_ids;

ALTER TABLE jobs ADD COLUMN IF NOT EXISTS stale_since Nullable(DateTime64(9, 'UTC')) AFTER array_job;

ALTER TABLE inventory_devices ADD COLUMN IF NOT EXISTS tenant LowCardinality(String) AFTER maintenance_until;

ALTER TABLE inventory_jobs ADD COLUMN IF NOT EXISTS tenant LowCardinality(String) AFTER end;
