"""Waits until ClickHouse has merged what a benchmark wrote."""

import time

from streams.store.query_client import QueryClient

_POLL_S = 0.5


def wait_for_merges(clickhouse: QueryClient, idle_s: float, timeout_s: float) -> bool:
    """Wait until no merge has run for a while; return False if one still runs after the timeout."""
    deadline_s = time.monotonic() + timeout_s
    idle_since = time.monotonic()
    while time.monotonic() - idle_since < idle_s:
        if time.monotonic() >= deadline_s:
            return False
        if clickhouse.query("SELECT count() FROM system.merges")[0][0]:
            idle_since = time.monotonic()
        time.sleep(_POLL_S)
    return True
