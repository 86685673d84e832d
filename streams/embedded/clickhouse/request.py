"""Parses an HTTP request: query, settings, user and output format; checks its origin and authenticates its user.

As in ClickHouse's HTTP interface, every parameter that the interface does not define is a setting of the query. All
names are checked here, before anything uses them: formats, settings, tables, and texts that become headers or keys.
"""

import base64
import dataclasses
import hmac
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from streams.embedded.clickhouse.errors import ClickHouseError
from streams.embedded.clickhouse.gate import format_name
from streams.embedded.clickhouse.params import User
from streams.health.http_names import host_name

# Parameters of the interface itself (ClickHouse's src/Server/HTTPHandler.cpp); all others are settings.
_INTERFACE_PARAMETERS = {
    "buffer_size", "client_protocol_version", "close_session", "compress", "database", "decompress", "default_format",
    "password", "query", "query_id", "quota_key", "role", "session_check", "session_id", "session_timeout",
    "stacktrace", "user", "wait_end_of_query",
}  # fmt: skip
_SHORT_TEXTS = ("query_id", "session_id", "database", "user", "quota_key", "role")
_MAX_SHORT_TEXT = 256
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{0,255}")
"""An unquoted identifier of ClickHouse; the names of parameters may contain a dollar sign."""
_MAX_DIGITS = 19  # Python parses no more than 4,300
_SESSION_TIMEOUT_S, _MAX_SESSION_TIMEOUT_S = 60, 3600
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """A request without its body."""

    parameters: Mapping[str, str] = field(default_factory=dict)
    user: str = "default"
    password: str = field(default="", repr=False)
    may_write: bool = True
    content_encoding: str = ""
    accept_encoding: tuple[str, ...] = ()
    header_database: str = ""
    header_format: str = ""
    tables: frozenset[str] = frozenset()
    """Names of the request's external tables."""

    @property
    def query(self) -> str:
        """The part of the statement from the URL or a form."""
        return self.parameters.get("query", "")

    @property
    def database(self) -> str:
        return self.parameters.get("database") or self.header_database

    @property
    def default_format(self) -> str:
        return format_name(self.parameters.get("default_format") or self.header_format or "TabSeparated")

    @property
    def settings(self) -> dict[str, str]:
        """The settings of the query and the values of its parameters, as `SET` takes them."""
        table_parameters = {f"{table}_{what}" for table in self.tables for what in ("structure", "types", "format")}
        return {
            name: value
            for name, value in self.parameters.items()
            if name not in _INTERFACE_PARAMETERS and name not in table_parameters
        }

    @property
    def protocol_version(self) -> int:
        return _number(self.parameters, "client_protocol_version", 0)

    @property
    def session_timeout_s(self) -> int:
        given = _number(self.parameters, "session_timeout", _SESSION_TIMEOUT_S)
        if given > _MAX_SESSION_TIMEOUT_S:
            raise ClickHouseError(
                374,
                "INVALID_SESSION_TIMEOUT",
                f"Session timeout '{given}' is larger than max_session_timeout: {_MAX_SESSION_TIMEOUT_S}. "
                "Maximum session timeout could be modified in configuration file.",
            )
        return given

    def flag(self, name: str) -> bool:
        """Return whether a parameter of the interface is enabled."""
        return self.parameters.get(name, "") in {"1", "true"}

    def with_form(self, fields: Mapping[str, str], tables: Iterable[str] = ()) -> "QueryRequest":
        """Return the request with the fields of a form and its external tables; the URL takes precedence."""
        names = frozenset(tables)
        call = dataclasses.replace(self, parameters={**fields, **self.parameters}, content_encoding="", tables=names)
        return call.checked()

    def checked(self) -> "QueryRequest":
        """Return the request; raise ClickHouseError for a name or a short text that is none."""
        for name in _SHORT_TEXTS:
            _require_short_text(name, self.parameters.get(name, ""))
        _require_short_text("database", self.header_database)
        for table in self.tables:
            if not _IDENTIFIER.fullmatch(table):
                raise ClickHouseError(36, "BAD_ARGUMENTS", f"{table[:64]!r} is not a name of an external table")
            format_name(self.parameters.get(f"{table}_format", "TabSeparated"))
        for name in self.settings:
            if not _IDENTIFIER.fullmatch(name):
                raise ClickHouseError(115, "UNKNOWN_SETTING", f"Unknown setting {name[:64]!r}")
        _ = self.default_format
        return self


def server_names(given: Iterable[str]) -> frozenset[str]:
    """Return the names under which clients may reach the server: the given ones and those of loopback."""
    return frozenset((*_LOOPBACK, *(name.lower().strip("[]") for name in given)))


def refuse_foreign(headers: Mapping[str, str], names: frozenset[str]) -> None:
    """Raise ClickHouseError for a request of a web page: an unknown Host, or the Origin of another site.

    A browser sends a text/plain POST of any page without a preflight. It always sends Origin or Sec-Fetch-Site, and a
    page cannot set Host, but it can have its own name rebound to loopback. `headers` have names in lower case.
    """
    host = headers.get("host", "")
    if host_name(host) not in names:
        raise _denied(f"Host {host[:100]!r} is not a name of this server; allow it with --host-name")
    origin = headers.get("origin")
    if origin is not None and origin.lower() not in {f"http://{host}".lower(), f"https://{host}".lower()}:
        raise _denied(f"Requests of the site {origin[:100]!r} are not allowed")
    if headers.get("sec-fetch-site", "none").lower() not in {"same-origin", "none"}:
        raise _denied("Requests of other sites are not allowed")


def parse_request(method: str, parameters: Iterable[tuple[str, str]], headers: Mapping[str, str]) -> QueryRequest:
    """Parse a request from its parameters and headers (names in lower case).

    Raises ClickHouseError for conflicting ways of authentication, and for a name that is none.
    """
    given = dict(parameters)
    user, password = _credentials(given, headers)
    return QueryRequest(
        parameters=given,
        user=user,
        password=password,
        # A proxy may repeat a GET, so a GET may change nothing.
        may_write=method == "POST",
        content_encoding=headers.get("content-encoding", "").strip().lower(),
        accept_encoding=tuple(
            name.split(";")[0].strip().lower() for name in headers.get("accept-encoding", "").split(",")
        ),
        header_database=headers.get("x-clickhouse-database", ""),
        header_format=headers.get("x-clickhouse-format", ""),
    ).checked()


def authenticate(call: QueryRequest, users: Sequence[User]) -> User:
    """Return the authenticated user of the request; raise ClickHouseError if there is none."""
    given = call.password.encode(errors="surrogateescape")
    for user in users:
        # Every user has a password: process.py makes the missing ones.
        if user.password and user.name == call.user and hmac.compare_digest(user.password.encode(), given):
            return user
    raise _unauthenticated(
        f"{call.user}: Authentication failed: password is incorrect, or there is no user with such name."
    )


def settings_for(user: User, call: QueryRequest) -> tuple[dict[str, str], bool]:
    """Return the settings of the request, and whether its connection is read-only.

    The level is 2, which permits settings per query: Grafana and clickhouse-connect send them.
    """
    settings = dict(call.settings)
    if call.may_write and not user.read_only:
        return settings, settings.pop("readonly", "0") not in {"", "0"}
    if settings.pop("readonly", "2") not in {"1", "2"}:
        raise ClickHouseError(164, "READONLY", "Cannot modify 'readonly' setting in readonly mode")
    return settings, True


def _credentials(given: Mapping[str, str], headers: Mapping[str, str]) -> tuple[str, str]:
    by_header = "x-clickhouse-user" in headers or "x-clickhouse-key" in headers
    scheme, _, token = headers.get("authorization", "").partition(" ")
    by_url = "user" in given or "password" in given
    if by_header and (token or by_url):
        raise _unauthenticated(
            "Invalid authentication: it is not allowed to use X-ClickHouse HTTP headers and other authentication "
            "methods simultaneously"
        )
    if by_header:
        return headers.get("x-clickhouse-user", "default") or "default", headers.get("x-clickhouse-key", "")
    if not token:
        return given.get("user") or "default", given.get("password", "")
    if scheme.lower() != "basic":
        raise _unauthenticated(f"Invalid authentication: '{scheme}' HTTP Authorization scheme is not supported")
    try:
        user, _, password = base64.b64decode(token, validate=True).decode().partition(":")
    except ValueError:
        raise _unauthenticated("Invalid authentication: the Basic token is not Base64") from None
    return user or "default", password


def _denied(message: str) -> ClickHouseError:
    return ClickHouseError(497, "ACCESS_DENIED", message)


def _unauthenticated(message: str) -> ClickHouseError:
    return ClickHouseError(516, "AUTHENTICATION_FAILED", message)


def _require_short_text(name: str, text: str) -> None:
    if len(text) > _MAX_SHORT_TEXT or not text.isprintable():
        raise ClickHouseError(36, "BAD_ARGUMENTS", f"{name} is not a text of at most {_MAX_SHORT_TEXT} characters")


def _number(parameters: Mapping[str, str], name: str, default: int) -> int:
    text = parameters.get(name, "")
    if not text:
        return default
    if not text.isdecimal() or len(text) > _MAX_DIGITS:
        raise ClickHouseError(72, "CANNOT_PARSE_NUMBER", f"Invalid {name}: '{text}'")
    return int(text)
