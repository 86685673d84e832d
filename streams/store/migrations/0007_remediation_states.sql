-- Adds the life cycle of remediations: the state of each revision, the attempt, who caused the revision, the number of
-- the guard that bound, and the penalty that ranks candidates; and the values that an action replaced.
-- A view stores its columns when it is created, so the view is created again.

ALTER TABLE remediations ADD COLUMN IF NOT EXISTS state LowCardinality(String) AFTER runbook_url;

ALTER TABLE remediations ADD COLUMN IF NOT EXISTS attempt UInt32 AFTER state;

ALTER TABLE remediations ADD COLUMN IF NOT EXISTS actor String AFTER attempt;

ALTER TABLE remediations ADD COLUMN IF NOT EXISTS guard UInt32 AFTER actor;

ALTER TABLE remediations ADD COLUMN IF NOT EXISTS penalty Nullable(Float64) AFTER guard;

ALTER TABLE remediation_results ADD COLUMN IF NOT EXISTS prior_values String AFTER detail;

DROP VIEW IF EXISTS remediations_latest;

CREATE VIEW IF NOT EXISTS remediations_latest AS
SELECT * FROM remediations
WHERE (id, revision) IN (SELECT id, max(revision) FROM remediations GROUP BY id)
LIMIT 1 BY id;
