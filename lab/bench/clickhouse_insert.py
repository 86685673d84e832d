"""Measures inserts into the embedded ClickHouse over HTTP, in rows per second, in the formats that producers use.

python -m lab.bench.clickhouse_insert [--rows 4000000] [--json]

Each format is compared with `INSERT … FROM INFILE` of the same data in the engine itself, without HTTP and from memory.
The ratio of the two is the cost of the HTTP server, and is comparable between machines.
"""

import argparse
import http.client
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from streams.embedded.clickhouse import ClickHouseParams, EmbeddedClickHouse, User

TABLE = "CREATE TABLE IF NOT EXISTS n (t UInt64, k UInt32, v Float64) ENGINE = MergeTree ORDER BY (k, t)"
SOURCE = "SELECT number AS t, toUInt32(number % 1000) AS k, number * 0.5 AS v FROM numbers({rows})"
FORMATS = ("Native", "ArrowStream", "Parquet", "RowBinary", "JSONEachRow", "CSV")
ROUNDS = 3
PASSWORD = "bench"


def post(port: int, sql: str, body: bytes = b"") -> bytes:
    """Send one statement, with its data as the body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    connection.request("POST", "/?" + urlencode({"query": sql, "password": PASSWORD}), body)
    got = connection.getresponse()
    answer = got.read()
    connection.close()
    if got.status != 200:
        raise RuntimeError(answer.decode())
    return answer


def timed(work: Callable[[], object], before: Callable[[], object]) -> float:
    """Return the median seconds of `work`; `before` runs untimed before each round."""
    seconds = []
    for _ in range(ROUNDS):
        before()
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def in_engine(folder: Path, rows: int, made: dict[str, bytes]) -> dict[str, float]:
    """Generate the data, and measure the engine alone; return seconds by format."""
    from chdb.session import Session

    engine: Any = Session(str(folder))  # type: ignore[no-untyped-call]
    for sql in ("CREATE DATABASE d", "USE d", TABLE):
        engine.query(sql)
    seconds = {}
    for name in FORMATS:
        made[name] = bytes(engine.query(SOURCE.format(rows=rows), name).bytes())
        with tempfile.NamedTemporaryFile(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as file:
            file.write(made[name])
            file.flush()
            insert = f"INSERT INTO n FROM INFILE '{file.name}' COMPRESSION 'none' FORMAT {name}"
            seconds[name] = timed(partial(engine.query, insert), partial(engine.query, "TRUNCATE TABLE n"))
    engine.close()
    return seconds


def over_http(folder: Path, made: dict[str, bytes]) -> dict[str, float]:
    """Measure the server; return seconds by format."""
    with EmbeddedClickHouse(ClickHouseParams(data=folder, users=(User("default", PASSWORD),))) as server:
        post(server.port, TABLE)
        return {
            name: timed(
                partial(post, server.port, f"INSERT INTO n FORMAT {name}", made[name]),
                partial(post, server.port, "TRUNCATE TABLE n"),
            )
            for name in FORMATS
        }


def main() -> None:
    """Print the results as a table, or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    made: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        alone = in_engine(Path(one), given.rows, made)
        served = over_http(Path(other), made)
    results = [
        {
            "format": name,
            "rows_per_s": round(given.rows / served[name]),
            "engine_alone_rows_per_s": round(given.rows / alone[name]),
            "ratio": round(alone[name] / served[name], 2),
        }
        for name in FORMATS
    ]
    lines = [json.dumps(results)]
    if not given.json:
        lines = [f"{'format':<14}{'rows/s':>14}{'engine alone':>16}{'ratio':>8}"]
        lines += [
            f"{row['format']:<14}{row['rows_per_s']:>14,}{row['engine_alone_rows_per_s']:>16,}{row['ratio']:>8}"
            for row in results
        ]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
