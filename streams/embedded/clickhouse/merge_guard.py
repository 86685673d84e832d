"""Repairs tables that merges damaged on a full disk, and stops merges while the disk is full.

chdb 26.9 completes a merge even if it could not write all files: the new part cannot be read, and every query of its
table fails. The merged parts stay on the disk for 480 s (`old_parts_lifetime`). Reloading the table moves the damaged
part aside as `broken-on-start` and restores the merged parts.
"""

import json

from streams.embedded.clickhouse.engine import Engine, identifier, quoted

_MERGED_WITHIN_S = 480
"""After this time the engine removes the merged parts, and reloading the table restores nothing."""


class MergeGuard:
    """Watches one engine; its methods block. Queries of a table fail for some milliseconds while it is reloaded."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._was_full = False
        self._checked: set[tuple[str, str, str]] = set()
        self._detached: set[str] = set()

    def watch(self) -> list[str]:
        """Run one round and return the reloaded tables. After a ClickHouseError the next round continues."""
        is_full = not self._engine.has_room()
        if not is_full and not self._was_full:
            return []
        self._was_full = True
        # Repeated in each round, because reloading a table starts its merges again.
        self._run("SYSTEM STOP MERGES")
        repaired = self._repair()
        if not is_full:
            self._run("SYSTEM START MERGES")
            self._was_full = False
            self._checked.clear()
        return repaired

    def _repair(self) -> list[str]:
        for table in self._damaged_tables():
            self._run(f"DETACH TABLE {table} SYNC")
            self._detached.add(table)
        repaired = sorted(self._detached)
        for table in repaired:
            self._run(f"ATTACH TABLE {table}")
            self._detached.discard(table)
        return repaired

    def _damaged_tables(self) -> list[str]:
        """Return the tables with an unreadable part; check each recent part once."""
        recent = self._run(
            "SELECT database, table, name FROM system.parts"  # noqa: S608 — a number of this module
            f" WHERE active AND modification_time > now() - {_MERGED_WITHIN_S}"
        )
        damaged = set()
        for database, table, part in map(tuple, recent):
            name = f"{identifier(database)}.{identifier(table)}"
            if (database, table, part) in self._checked or name in damaged:
                continue
            # The second column is 0 for a damaged part; a part that was merged meanwhile has no row.
            if any(not is_readable for _, is_readable, *_ in self._run(f"CHECK TABLE {name} PART {quoted(part)}")):
                damaged.add(name)
            else:
                self._checked.add((database, table, part))
        return sorted(damaged)

    def _run(self, sql: str) -> list[list[str]]:
        with self._engine.connect({"check_query_single_value_result": "0"}, "") as connection:
            rows = connection.query(sql, "JSONCompactEachRow").data
        return [json.loads(row) for row in rows.splitlines()]
