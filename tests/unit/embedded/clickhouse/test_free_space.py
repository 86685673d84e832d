"""No INSERT is acknowledged that the disk may have no room for: the engine would acknowledge it, and store nothing."""

import os
from pathlib import Path

import pytest

from streams.embedded.clickhouse.engine import RESERVE_BYTES, Engine
from streams.embedded.clickhouse.errors import ClickHouseError


def test_an_insert_beyond_the_free_space_is_refused(tmp_path: Path) -> None:
    """Its parts, merges and other INSERTs need some times its data, and a reserve stays free."""
    engine = Engine.__new__(Engine)
    engine._folder = tmp_path
    disk = os.statvfs(tmp_path)
    free = disk.f_bavail * disk.f_frsize
    assert free > 2 * RESERVE_BYTES, "the disk of this test is nearly full"
    engine.require_space(1)
    with pytest.raises(ClickHouseError, match="free bytes") as raised:
        engine.require_space(free)
    assert raised.value.code == 243
