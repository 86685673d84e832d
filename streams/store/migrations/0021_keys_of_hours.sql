-- A column of the key that is empty in a whole block is stored all the same: of a part without it no row could be
-- deleted, so that an hour of devices alone, or of lane 0 alone, was not replaced when minutes of it came later, and no
-- hour after it. A column that has a default is not left out by skip_empty_columns_on_insert.
-- Nothing is rewritten: an older part gets the column with its next merge, and the sink tries again until then.

ALTER TABLE samples_1h MODIFY COLUMN row DEFAULT '';

ALTER TABLE sample_lanes_1h MODIFY COLUMN row DEFAULT '', MODIFY COLUMN `index` DEFAULT 0;
