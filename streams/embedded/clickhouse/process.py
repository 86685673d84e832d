"""Runs the embedded ClickHouse as a process that ends with its parent."""

import dataclasses
import json
import os
import re
import sys
import time
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from streams.embedded.clickhouse.data_dir import server_folder
from streams.embedded.clickhouse.params import ClickHouseParams, User
from streams.embedded.directories import data_directory, prepare, refusing_disk_errors
from streams.embedded.passwords import made_password, read_password
from streams.embedded.watched_process import WatchedProcess
from streams.wire.errors import Misconfigured

# A start takes 0.4 s with an empty folder, and longer after a kill under load, because the server reloads its parts.
_START_WITHIN_S = 180.0
_NEEDS_BYTES = 256 << 20
_PURPOSE = "ClickHouse's data folder"


class EmbeddedClickHouse:
    """One server; `url` is its address after the start."""

    def __init__(self, params: ClickHouseParams | None = None) -> None:
        given = params or ClickHouseParams()
        self.data: Path = (given.data or data_directory() / "clickhouse").resolve()
        self._params = dataclasses.replace(given, data=self.data)
        self._process: WatchedProcess | None = None
        self.port = given.port or 0

    @property
    def url(self) -> str:
        """The URL `http://host:port`; raises RuntimeError before the start."""
        if not self.port or self._process is None:
            raise RuntimeError("the embedded ClickHouse has not been started")
        host = self._params.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def log(self) -> Path:
        """The log file of the server process."""
        return server_folder(self.data) / "server.log"

    @property
    def user(self) -> str:
        """The name of the user with all rights."""
        return self._params.users[0].name

    @property
    def password(self) -> str:
        """The password of `user`, configured or made at the first start; raises Misconfigured before the start."""
        given = self._params.users[0].password
        return given or read_password(self.password_file)

    @property
    def password_file(self) -> Path:
        """The file with the made password, for a user without a configured one; only its owner can read it."""
        return password_file(self.data, self.user)

    @property
    def exit_code(self) -> int | None:
        """The exit code if the server ended by itself, or None."""
        return None if self._process is None else self._process.exit_code

    @property
    def pid(self) -> int | None:
        """The pid of the server, None while it does not run."""
        return None if self._process is None else self._process.pid

    def __enter__(self) -> "EmbeddedClickHouse":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the server and return once it accepts queries; raise Misconfigured (one line) if it fails."""
        if find_spec("chdb") is None or find_spec("aiohttp") is None:
            raise Misconfigured("no ClickHouse: install railsight[embedded], which brings one, or set store.url")
        prepare(self.data, purpose=_PURPOSE, needs_bytes=_NEEDS_BYTES)
        with refusing_disk_errors(self.data, _PURPOSE):
            self.log.parent.mkdir(exist_ok=True, mode=0o700)
            self._params = dataclasses.replace(self._params, users=with_passwords(self.data, self._params.users))
            self._process = self._spawn()
        try:
            self.port = self._wait_for_port(time.monotonic() + _START_WITHIN_S)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Stop the server gracefully; acknowledged data stays."""
        if self._process is not None:
            self._process.stop()

    def kill(self) -> None:
        """Kill the server as a power failure would; acknowledged data stays."""
        if self._process is not None:
            self._process.kill()

    def wait(self, timeout_s: float) -> int | None:
        """Wait for the server to end by itself; return its exit code, or None if it still runs."""
        return None if self._process is None else self._process.wait(timeout_s)

    def _spawn(self) -> WatchedProcess:
        # Passes the parameters through a pipe, so that passwords are neither on a command line nor in the environment.
        reader, writer = os.pipe()
        try:
            os.write(writer, f"{self._params.to_json()}\n".encode())
            command = [sys.executable, "-m", "streams.embedded.clickhouse", str(reader)]
            return WatchedProcess(command, self.log, inherited=[reader], environment=_environment())
        finally:
            os.close(reader)
            os.close(writer)

    def _wait_for_port(self, deadline: float) -> int:
        assert self._process is not None
        while time.monotonic() < deadline:
            ended = self._process.exit_code is not None
            for line in self.log.read_text(errors="replace").splitlines():
                fields = _parse_line(line)
                if "error" in fields:
                    raise Misconfigured(str(fields["error"]))
                if "port" in fields:
                    return int(str(fields["port"]))
            if ended:
                code = self._process.exit_code
                raise Misconfigured(
                    f"ClickHouse ended with code {code} while it started: {_last_line(self.log)} (see {self.log})"
                )
            self._process.wait(0.01)
        raise Misconfigured(f"ClickHouse did not start within {_START_WITHIN_S:.0f} s; see {self.log}")


def password_file(data: Path, user: str) -> Path:
    """Return the path of the file for a user's made password, which the engine's process cannot read."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*", user):
        raise Misconfigured(f"the user {user!r} needs a password: give a password file")
    return server_folder(data) / f"password-{user}"


def with_passwords(data: Path, users: Iterable[User]) -> tuple[User, ...]:
    """Return the users with passwords; a missing password comes from the user's file, which is created if missing."""
    return tuple(
        user if user.password else dataclasses.replace(user, password=made_password(password_file(data, user.name)))
        for user in users
    )


def _environment() -> dict[str, str]:
    """Return only the variables that the interpreter and the C library need, because the sandbox can read them.

    The server imports its packages from where this process does, in whatever way they came onto its path.
    """
    needed = ("PATH", "LANG", "LANGUAGE", "LD_LIBRARY_PATH", "TZ", "TZDIR")
    passed = {name: value for name, value in os.environ.items() if name in needed or name.startswith(("LC_", "PYTHON"))}
    return passed | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if Path(path).is_absolute())}


def _parse_line(line: str) -> dict[str, object]:
    try:
        fields = json.loads(line)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "its log is empty"
