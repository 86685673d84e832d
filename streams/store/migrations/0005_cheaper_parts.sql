-- What rows cost, not what they are: settings of tables. Those that a server does not know are left out (migrate.py).
-- samples: a column that a block has nothing for is not written: 24 of 70 metrics were 1.39 instead of 1.81 CPU
--   seconds a million rows to insert and 1.2 to 1.4 instead of 1.9 to merge (chdb 26.9, blocks of 98,304 rows).
--   One statement for both settings: the second has the value only where the first exists. An older server cannot read
--   such parts.
--   Merges of at least 64 parts, which cost a tenth more than those of 32: one merge in the life of a row at the full
--   rate of 78,000 rows a second, in parts of 6 to 8 million rows, about 1,000 of them a day; slower tables have a
--   second merge, up to 16 GiB a part.
-- The tables of few rows: every insert is a part of a few KiB, and parts below 5 MiB count as equal, so that ever six of
--   them, the large one among them, were merged: 150 inserts into collector_status rewrote each row 15 times, and an
--   eighth of the server's CPU went there in the first minute of the largest fabric, ever more as that part grew. Of 32
--   at a time, each row is rewritten twice. What is left of a partition becomes one part an hour after the last insert.

ALTER TABLE samples MODIFY SETTING skip_empty_columns_on_insert = 1,
    serialization_info_version = 'with_missing_columns';

ALTER TABLE samples MODIFY SETTING min_parts_to_merge_at_once = 64;

ALTER TABLE samples MODIFY SETTING max_bytes_to_merge_at_max_space_in_pool = 17179869184;

ALTER TABLE samples MODIFY SETTING parts_to_delay_insert = 3000;

ALTER TABLE samples MODIFY SETTING parts_to_throw_insert = 10000;

ALTER TABLE sample_messages MODIFY SETTING min_parts_to_merge_at_once = 32;

ALTER TABLE sample_messages MODIFY SETTING min_age_to_force_merge_on_partition_only = 1, min_age_to_force_merge_seconds = 3600;

ALTER TABLE events MODIFY SETTING auto_statistics_types = '';

ALTER TABLE events MODIFY SETTING min_parts_to_merge_at_once = 32;

ALTER TABLE events MODIFY SETTING min_age_to_force_merge_on_partition_only = 1, min_age_to_force_merge_seconds = 3600;

ALTER TABLE facts MODIFY SETTING auto_statistics_types = '';

ALTER TABLE facts MODIFY SETTING min_parts_to_merge_at_once = 32;

ALTER TABLE facts MODIFY SETTING min_age_to_force_merge_on_partition_only = 1, min_age_to_force_merge_seconds = 3600;

ALTER TABLE collector_status MODIFY SETTING auto_statistics_types = '';

ALTER TABLE collector_status MODIFY SETTING min_parts_to_merge_at_once = 32;

ALTER TABLE collector_status MODIFY SETTING min_age_to_force_merge_on_partition_only = 1, min_age_to_force_merge_seconds = 3600;

ALTER TABLE progress MODIFY SETTING auto_statistics_types = '';

ALTER TABLE progress MODIFY SETTING min_parts_to_merge_at_once = 32;

ALTER TABLE progress MODIFY SETTING min_age_to_force_merge_on_partition_only = 1, min_age_to_force_merge_seconds = 3600;

ALTER TABLE symptoms MODIFY SETTING auto_statistics_types = '';

ALTER TABLE symptoms MODIFY SETTING min_parts_to_merge_at_once = 32;

ALTER TABLE symptoms MODIFY SETTING min_age_to_force_merge_on_partition_only = 1, min_age_to_force_merge_seconds = 3600;

ALTER TABLE episodes MODIFY SETTING auto_statistics_types = '';

ALTER TABLE episodes MODIFY SETTING min_parts_to_merge_at_once = 32;

ALTER TABLE episodes MODIFY SETTING min_age_to_force_merge_on_partition_only = 1, min_age_to_force_merge_seconds = 3600;
