"""Converts messages to rows: the columns of each table, the deduplication, and the bytes in the Native format."""
