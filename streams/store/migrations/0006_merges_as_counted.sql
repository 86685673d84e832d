-- 0005 meant each row to be merged once or twice; the largest fabric's first ten minutes wrote 174 million rows in merges
-- for 48 million inserted, and it grew. Two causes, both in how ClickHouse chooses parts (Simple selector, chdb 26.9):
--   Of the parts chosen it leaves out again those at the right that are below 1 % of the whole, and so merged the largest
--   part with one or two fresh ones, over and over. Off, wherever rows keep coming.
--   A merged part and 31 fresh ones are as good a choice as 32 fresh ones, and are there one insert earlier: samples had
--   its largest part rewritten with each batch. A bound on what one merge may make ends that: 13 MiB for each of 32
--   parts, where a block of the sink makes 5 to 9.
-- How often a row is written again, by the selector's own rules: `python -m tests.bench.merge_choices`.

ALTER TABLE samples MODIFY SETTING merge_selector_enable_heuristic_to_remove_small_parts_at_right = 0;

ALTER TABLE samples MODIFY SETTING min_parts_to_merge_at_once = 32;

ALTER TABLE samples MODIFY SETTING max_bytes_to_merge_at_max_space_in_pool = 436207616;

ALTER TABLE sample_lanes MODIFY SETTING merge_selector_enable_heuristic_to_remove_small_parts_at_right = 0;

ALTER TABLE sample_lanes MODIFY SETTING min_parts_to_merge_at_once = 32;

ALTER TABLE sample_lanes MODIFY SETTING max_bytes_to_merge_at_max_space_in_pool = 436207616;

ALTER TABLE sample_messages MODIFY SETTING merge_selector_enable_heuristic_to_remove_small_parts_at_right = 0;

ALTER TABLE events MODIFY SETTING merge_selector_enable_heuristic_to_remove_small_parts_at_right = 0;

ALTER TABLE facts MODIFY SETTING merge_selector_enable_heuristic_to_remove_small_parts_at_right = 0;

ALTER TABLE collector_status MODIFY SETTING merge_selector_enable_heuristic_to_remove_small_parts_at_right = 0;

ALTER TABLE progress MODIFY SETTING merge_selector_enable_heuristic_to_remove_small_parts_at_right = 0;

ALTER TABLE symptoms MODIFY SETTING merge_selector_enable_heuristic_to_remove_small_parts_at_right = 0;

ALTER TABLE episodes MODIFY SETTING merge_selector_enable_heuristic_to_remove_small_parts_at_right = 0;

ALTER TABLE findings MODIFY SETTING merge_selector_enable_heuristic_to_remove_small_parts_at_right = 0;

ALTER TABLE remediations MODIFY SETTING merge_selector_enable_heuristic_to_remove_small_parts_at_right = 0;
