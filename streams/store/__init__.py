"""Everything into ClickHouse, exactly once: migrations, rows and the sink."""
