-- Adds the mark of controls that have no end on purpose.

ALTER TABLE controls ADD COLUMN IF NOT EXISTS endless Bool AFTER reason;
