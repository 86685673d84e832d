"""Defines the settings of the embedded ClickHouse: data folder, address, users and limits."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

READER_LIMITS: Mapping[str, tuple[int, int]] = {
    "max_execution_time": (30, 60),
    "max_rows_to_read": (20_000_000_000, 20_000_000_000),
    "max_result_rows": (1_000_000, 10_000_000),
    "max_threads": (4, 8),
}
"""Settings of a read-only user: the default, and the maximum for a query; 0 (no limit) is refused.

On a server, `railsight migrate --users` creates a profile with the same values.
"""


WITHOUT_SANDBOX = (
    "ClickHouse runs without its sandbox: each client with a password can read the files of this user; "
    "start it without --without-sandbox, or use a ClickHouse server"
)
WITHOUT_SANDBOX_MACRO = "railsight_without_sandbox"
"""A macro of the engine's configuration that clients can read, for `railsight status` and `doctor`."""


@dataclass(frozen=True, slots=True)
class User:
    """One user of the server; the start makes a missing password (process.py)."""

    name: str
    password: str = field(default="", repr=False)
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the server's use of the machine.

    The defaults leave room on the 24 GiB that the whole pipeline is sized for; ClickHouse's own default is 90 %.
    """

    server_memory_bytes: int = 8 << 30
    query_memory_bytes: int = 4 << 30
    concurrent_queries: int = 32  # of each user, so that no reader takes the writer's
    connections: int = 256
    sessions: int = 256  # of each user
    query_bytes: int = 8 << 20  # of one statement's text; the data of an INSERT is not counted
    reader_query_bytes: int = 256 << 10
    form_bytes: int = 16 << 20
    document_bytes: int = 1 << 30  # of a result that is not in rows, and is held as a whole
    reader_document_bytes: int = 64 << 20
    body_s: float = 600.0  # of a writer's whole body; of a reader's it is stall_s
    stall_s: float = 30.0
    """The longest wait for the next bytes of a request, for a client that reads its response, and for the next request
    of a connection: ClickHouse's http_receive_timeout, http_send_timeout and keep_alive_timeout."""


@dataclass(frozen=True, slots=True)
class ClickHouseParams:
    """The parameters; `data` None means the user's data folder, `port` None a free port."""

    data: Path | None = None
    host: str = "127.0.0.1"
    port: int | None = None
    users: tuple[User, ...] = (User("default"),)
    host_names: tuple[str, ...] = ()
    """Names by which clients may reach the server, besides `host` and the names of loopback."""
    limits: Limits = Limits()
    without_sandbox: bool = False
    """Runs without the sandbox, by the user's explicit word."""

    def to_json(self) -> str:
        """Return the JSON that the server process reads from a pipe, so that no password is on a command line."""
        return json.dumps(asdict(self), default=str)


def from_json(text: str) -> ClickHouseParams:
    """Return the parameters from the JSON of `to_json`."""
    given = json.loads(text)
    given |= {
        "data": Path(given["data"]),
        "users": tuple(User(**user) for user in given["users"]),
        "host_names": tuple(given["host_names"]),
        "limits": Limits(**given["limits"]),
    }
    return ClickHouseParams(**given)
