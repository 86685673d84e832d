"""Records the logins of running embedded brokers, for the commands of the same user on this machine.

A record names the folder of the passwords and contains no password. The record of a killed broker stays; a login by
SCRAM does not reveal the password to another server on that port.
"""

from collections.abc import Mapping
from pathlib import Path

import orjson

from streams.embedded.directories import data_directory, write_private


def record(bootstrap: str, login: Mapping[str, str | bool]) -> None:
    """Record the settings of `[kafka]` for these addresses."""
    path = _path(bootstrap)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_private(path, orjson.dumps(dict(login)).decode())


def forget(bootstrap: str) -> None:
    """Remove the record of these addresses."""
    _path(bootstrap).unlink(missing_ok=True)


def login_at(bootstrap: str) -> dict[str, str]:
    """Return the settings of `[kafka]` that are recorded for these addresses; empty if there are none."""
    try:
        return dict(orjson.loads(_path(bootstrap).read_bytes()))
    except (OSError, orjson.JSONDecodeError):
        return {}


def _path(bootstrap: str) -> Path:
    return data_directory() / "brokers" / f"{bootstrap.replace('/', '_')}.json"
