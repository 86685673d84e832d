"""What a backtest says, as a file: JSON lines {"type", "data"} with the canonical JSON of every revision."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

import orjson

from streams.wire import codec
from streams.wire.errors import Misconfigured, Reject
from streams.wire.models import Finding, Remediation


def write(said: Iterable[Finding | Remediation], out: TextIO) -> int:
    """Write every revision, a line each; answers how many."""
    count = 0
    for count, message in enumerate(said, 1):  # noqa: B007 — the count is what is answered
        out.write(f'{{"type": "{type(message).__name__.lower()}", "data": {codec.to_json(message).decode()}}}\n')
    return count


def read_findings(path: Path) -> Iterator[Finding]:
    """The findings of such a file; raises Misconfigured, naming the line, on what is not one."""
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
        raise Misconfigured(f"{path} line {number}: {error!r}") from error
