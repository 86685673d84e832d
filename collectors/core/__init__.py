"""Code shared by all collectors: the poll loop, the publisher, the spool, self-metrics."""
