"""Makes a password for each user that has none given, and keeps it in a file that only the owner of the data can read.

The file is beside the engine's folder, not in it: the engine's process cannot read it. The parts of one instance learn
the password from it.
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
    """Return the file with the password that is made for a user."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*", user):
        raise Misconfigured(f"the user {user!r} needs a password: give a password file")
    return server_folder(data) / f"password-{user}"


def with_passwords(data: Path, users: Iterable[User]) -> tuple[User, ...]:
    """Return the users, each with a password; those without one get that of their file, made if it does not exist."""
    return tuple(
        user if user.password else replace(user, password=made_password(password_file(data, user.name)))
        for user in users
    )
