"""A merge that a full disk damages: the table is read again, with every row, while the disk is full and afterwards.

`python -m tests.integration.embedded.test_merges_on_a_full_disk FOLDER` does it in a mount namespace of its own.
"""

import threading
import time
from pathlib import Path

from lab.chaos.isolation import empty, fill
from streams.embedded.clickhouse.data_dir import write_configuration
from streams.embedded.clickhouse.engine import Engine
from streams.embedded.clickhouse.errors import ClickHouseError
from streams.embedded.clickhouse.merge_guard import MergeGuard
from streams.embedded.clickhouse.params import Limits
from tests.fixtures.small_disk import run_on_small_disk, scenario

_DISK_MIB, _PARTS, _ROUNDS = 400, 12, 20
_READ = "SELECT sum(length(s)), count() FROM t"


def test_a_table_with_a_damaged_merge_is_read_again(tmp_path: Path) -> None:
    """The engine still damages merges, the guard restores all rows on the full disk, and merges go on afterwards."""
    found = run_on_small_disk(__name__, tmp_path / "disk", 240)
    assert found["damage"], "no merge was damaged: does this engine still need merge_guard.py?"
    assert found["loaded_again"] == ["`default`.`t`"]
    assert found["when_full"] == found["before"]
    assert found["with_room"] == found["before"]
    assert found["active_parts"] == "1"


def run(folder: Path) -> dict[str, object]:
    """Fill the disk during merges until one is damaged; return what a reader finds before and after the guard."""
    engine = Engine(folder, write_configuration(folder, Limits()))
    guard = MergeGuard(engine)
    damage = before = ""
    for number in range(_ROUNDS):
        _query(engine, "CREATE OR REPLACE TABLE t (a UInt64, s String) ENGINE = MergeTree ORDER BY a")
        for _ in range(_PARTS):
            _query(engine, "INSERT INTO t SELECT number, toString(rand64()) FROM numbers(100000)")
        before = _query(engine, _READ)
        merging = threading.Thread(target=_query, args=(engine, "OPTIMIZE TABLE t FINAL"))
        merging.start()
        time.sleep(0.05 * number)  # another moment of the merge in each round
        fill(folder)
        merging.join()
        damage = _query(engine, _READ)
        if damage != before:
            break
        empty(folder)
    loaded_again = guard.watch()
    when_full = _query(engine, _READ)
    empty(folder)
    guard.watch()
    merged = _query(engine, "OPTIMIZE TABLE t FINAL")
    active = _query(engine, "SELECT count() FROM system.parts WHERE table = 't' AND active")
    return {
        "before": before, "damage": "" if damage == before else damage, "loaded_again": loaded_again,
        "when_full": when_full, "with_room": _query(engine, _READ), "merged": merged, "active_parts": active,
    }  # fmt: skip


def _query(engine: Engine, sql: str) -> str:
    try:
        with engine.connect({}, "") as connection:
            return connection.query(sql).data.decode().strip()
    except ClickHouseError as error:
        return str(error)


if __name__ == "__main__":
    scenario(run, _DISK_MIB)
