-- A job that is requeued to the same host is there twice: the view of the hosts of jobs has each of its runs.

DROP VIEW IF EXISTS job_hosts;

CREATE VIEW IF NOT EXISTS job_hosts (
    job String COMMENT 'name of the job',
    device String COMMENT 'host',
    start DateTime64(9, 'UTC') COMMENT 'begin of a run of the job on the host',
    end Nullable(DateTime64(9, 'UTC')) COMMENT 'its end; NULL: it runs'
)
COMMENT 'The hosts of each job and when each of its runs was on them, from the inventory and from the jobs topic; the newest report counts'
AS SELECT job, device, argMax(start, order) AS start, tupleElement(argMax(tuple(end), order), 1) AS end
FROM (
    SELECT job, device, start, end, run, (1, kafka_offset) AS order FROM jobs
    UNION ALL SELECT job, device, start, end, 0 AS run, (0, kafka_offset) AS order FROM inventory_jobs
)
GROUP BY job, device, run;
