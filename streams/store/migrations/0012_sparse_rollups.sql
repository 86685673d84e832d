-- As of samples (0005): a column that a block has nothing for is not written, in the rollups most of 108 columns.
-- Settings that a server does not know are left out (migrate.py).

ALTER TABLE samples_1m MODIFY SETTING skip_empty_columns_on_insert = 1,
    serialization_info_version = 'with_missing_columns';

ALTER TABLE samples_1h MODIFY SETTING skip_empty_columns_on_insert = 1,
    serialization_info_version = 'with_missing_columns';

ALTER TABLE sample_lanes_1m MODIFY SETTING skip_empty_columns_on_insert = 1,
    serialization_info_version = 'with_missing_columns';

ALTER TABLE sample_lanes_1h MODIFY SETTING skip_empty_columns_on_insert = 1,
    serialization_info_version = 'with_missing_columns';
