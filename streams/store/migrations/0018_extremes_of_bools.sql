-- The extremes of a bool follow from its average: they are computed when they are read, and no longer stored. Inserts and
-- merges of rollups and the rollup by hour have two columns less for each bool (docs/benchmarks.md).
-- Nothing is rewritten: stored rows have their average, and merges leave the old columns out. A sink of an older build
-- cannot insert into these columns: end the sinks in order before this.
-- Each table in three statements, because a codec has to be removed first, which fails where there is none; they can be
-- run again from the first.

ALTER TABLE samples_1m
    MODIFY COLUMN oper_up_min Nullable(Float32) DEFAULT NULL CODEC(LZ4),
    MODIFY COLUMN oper_up_max Nullable(Float32) DEFAULT NULL CODEC(LZ4),
    MODIFY COLUMN admin_up_min Nullable(Float32) DEFAULT NULL CODEC(LZ4),
    MODIFY COLUMN admin_up_max Nullable(Float32) DEFAULT NULL CODEC(LZ4),
    MODIFY COLUMN damped_min Nullable(Float32) DEFAULT NULL CODEC(LZ4),
    MODIFY COLUMN damped_max Nullable(Float32) DEFAULT NULL CODEC(LZ4),
    MODIFY COLUMN bfd_session_up_min Nullable(Float32) DEFAULT NULL CODEC(LZ4),
    MODIFY COLUMN bfd_session_up_max Nullable(Float32) DEFAULT NULL CODEC(LZ4),
    MODIFY COLUMN bgp_session_up_min Nullable(Float32) DEFAULT NULL CODEC(LZ4),
    MODIFY COLUMN bgp_session_up_max Nullable(Float32) DEFAULT NULL CODEC(LZ4);

ALTER TABLE samples_1m
    MODIFY COLUMN oper_up_min REMOVE CODEC,
    MODIFY COLUMN oper_up_max REMOVE CODEC,
    MODIFY COLUMN admin_up_min REMOVE CODEC,
    MODIFY COLUMN admin_up_max REMOVE CODEC,
    MODIFY COLUMN damped_min REMOVE CODEC,
    MODIFY COLUMN damped_max REMOVE CODEC,
    MODIFY COLUMN bfd_session_up_min REMOVE CODEC,
    MODIFY COLUMN bfd_session_up_max REMOVE CODEC,
    MODIFY COLUMN bgp_session_up_min REMOVE CODEC,
    MODIFY COLUMN bgp_session_up_max REMOVE CODEC;

ALTER TABLE samples_1m
    MODIFY COLUMN oper_up_min Nullable(Float32) ALIAS floor(oper_up_avg),
    MODIFY COLUMN oper_up_max Nullable(Float32) ALIAS ceil(oper_up_avg),
    MODIFY COLUMN admin_up_min Nullable(Float32) ALIAS floor(admin_up_avg),
    MODIFY COLUMN admin_up_max Nullable(Float32) ALIAS ceil(admin_up_avg),
    MODIFY COLUMN damped_min Nullable(Float32) ALIAS floor(damped_avg),
    MODIFY COLUMN damped_max Nullable(Float32) ALIAS ceil(damped_avg),
    MODIFY COLUMN bfd_session_up_min Nullable(Float32) ALIAS floor(bfd_session_up_avg),
    MODIFY COLUMN bfd_session_up_max Nullable(Float32) ALIAS ceil(bfd_session_up_avg),
    MODIFY COLUMN bgp_session_up_min Nullable(Float32) ALIAS floor(bgp_session_up_avg),
    MODIFY COLUMN bgp_session_up_max Nullable(Float32) ALIAS ceil(bgp_session_up_avg);

ALTER TABLE samples_1h
    MODIFY COLUMN oper_up_min Nullable(Float32) DEFAULT NULL CODEC(LZ4),
    MODIFY COLUMN oper_up_max Nullable(Float32) DEFAULT NULL CODEC(LZ4),
    MODIFY COLUMN admin_up_min Nullable(Float32) DEFAULT NULL CODEC(LZ4),
    MODIFY COLUMN admin_up_max Nullable(Float32) DEFAULT NULL CODEC(LZ4),
    MODIFY COLUMN damped_min Nullable(Float32) DEFAULT NULL CODEC(LZ4),
    MODIFY COLUMN damped_max Nullable(Float32) DEFAULT NULL CODEC(LZ4),
    MODIFY COLUMN bfd_session_up_min Nullable(Float32) DEFAULT NULL CODEC(LZ4),
    MODIFY COLUMN bfd_session_up_max Nullable(Float32) DEFAULT NULL CODEC(LZ4),
    MODIFY COLUMN bgp_session_up_min Nullable(Float32) DEFAULT NULL CODEC(LZ4),
    MODIFY COLUMN bgp_session_up_max Nullable(Float32) DEFAULT NULL CODEC(LZ4);

ALTER TABLE samples_1h
    MODIFY COLUMN oper_up_min REMOVE CODEC,
    MODIFY COLUMN oper_up_max REMOVE CODEC,
    MODIFY COLUMN admin_up_min REMOVE CODEC,
    MODIFY COLUMN admin_up_max REMOVE CODEC,
    MODIFY COLUMN damped_min REMOVE CODEC,
    MODIFY COLUMN damped_max REMOVE CODEC,
    MODIFY COLUMN bfd_session_up_min REMOVE CODEC,
    MODIFY COLUMN bfd_session_up_max REMOVE CODEC,
    MODIFY COLUMN bgp_session_up_min REMOVE CODEC,
    MODIFY COLUMN bgp_session_up_max REMOVE CODEC;

ALTER TABLE samples_1h
    MODIFY COLUMN oper_up_min Nullable(Float32) ALIAS floor(oper_up_avg),
    MODIFY COLUMN oper_up_max Nullable(Float32) ALIAS ceil(oper_up_avg),
    MODIFY COLUMN admin_up_min Nullable(Float32) ALIAS floor(admin_up_avg),
    MODIFY COLUMN admin_up_max Nullable(Float32) ALIAS ceil(admin_up_avg),
    MODIFY COLUMN damped_min Nullable(Float32) ALIAS floor(damped_avg),
    MODIFY COLUMN damped_max Nullable(Float32) ALIAS ceil(damped_avg),
    MODIFY COLUMN bfd_session_up_min Nullable(Float32) ALIAS floor(bfd_session_up_avg),
    MODIFY COLUMN bfd_session_up_max Nullable(Float32) ALIAS ceil(bfd_session_up_avg),
    MODIFY COLUMN bgp_session_up_min Nullable(Float32) ALIAS floor(bgp_session_up_avg),
    MODIFY COLUMN bgp_session_up_max Nullable(Float32) ALIAS ceil(bgp_session_up_avg);
