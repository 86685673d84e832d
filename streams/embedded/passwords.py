"""Makes passwords at the first start of a server; only the owner of the data can read their files."""

import secrets
from pathlib import Path

from streams.embedded.directories import write_private
from streams.wire.errors import Misconfigured

_BYTES = 24


def made_password(file: Path) -> str:
    """Return the password in a file; make it if the file does not exist."""
    if file.exists():
        return read_password(file)
    made = secrets.token_urlsafe(_BYTES)
    write_private(file, f"{made}\n")
    return made


def read_password(file: Path) -> str:
    """Return the password in a file; raise Misconfigured if there is none."""
    try:
        found = file.read_text().strip("\r\n")
    except OSError as error:
        raise Misconfigured(f"cannot read the password file {file}: {error.strerror}") from error
    if not found:
        raise Misconfigured(f"the password file {file} is empty")
    return found
