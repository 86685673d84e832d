"""Makes a password for each user without one, and stores it in a file that only the owner of the data can read.

The file is beside the engine's folder, so the engine's process cannot read it. The parts of an instance read the
password from it.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from streams.embedded.clickhouse.data_dir import server_folder
from streams.embedded.clickhouse.params import User
from streams.embedded.passwords import made_password
from streams.wire.errors import Misconfigured


def password_file(data: Path, user: str) -> Path:
    """Return the path of the file for a user's made password."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*", user):
        raise Misconfigured(f"the user {user!r} needs a password: give a password file")
    return server_folder(data) / f"password-{user}"


def with_passwords(data: Path, users: Iterable[User]) -> tuple[User, ...]:
    """Return the users with passwords; a missing password comes from the user's file, which is created if missing."""
    return tuple(
        user if user.password else replace(user, password=made_password(password_file(data, user.name)))
        for user in users
    )
