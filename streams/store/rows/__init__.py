"""Messages as rows: the columns of each table, their deduplication and their bytes in ClickHouse's Native format."""
