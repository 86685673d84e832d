"""Writes and reads the output of a backtest: JSON lines {"type", "data"} with the canonical JSON of every revision."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

import orjson

from streams.wire import codec
from streams.wire.errors import Misconfigured, Reject
from streams.wire.models import Finding, Remediation


def write(revisions: Iterable[Finding | Remediation], out: TextIO) -> int:
    """Write each revision as a line; return the number of lines."""
    count = 0
    for count, message in enumerate(revisions, 1):  # noqa: B007 — the count is the result
        out.write(f'{{"type": "{type(message).__name__.lower()}", "data": {codec.to_json(message).decode()}}}\n')
    return count


def read_findings(path: Path) -> Iterator[Finding]:
    """Yield the findings of such a file; raises Misconfigured with the number of an invalid line."""
    number = 0
    try:
        with path.open(encoding="utf-8") as file:
            for line in file:
                number += 1
                record = orjson.loads(line)
                if record["type"] == "finding":
                    yield codec.from_json(Finding, orjson.dumps(record["data"]))
    except OSError as error:
        raise Misconfigured(f"{path}: {error}") from error
    except (orjson.JSONDecodeError, KeyError, TypeError, Reject) as error:
        reason = "no line of a backtest's output" if isinstance(error, KeyError | TypeError) else str(error)
        raise Misconfigured(f'{path} line {number}: {reason}; expected {{"type": "finding", "data": …}}') from error
