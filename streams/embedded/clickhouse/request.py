"""Parses an HTTP request: query, settings, user and output format.

As in ClickHouse's HTTP interface, every parameter that the interface does not define is a setting of the query.
"""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from streams.embedded.clickhouse.errors import ClickHouseError

# Parameters of the interface itself (ClickHouse's src/Server/HTTPHandler.cpp); all others are settings.
_INTERFACE_PARAMETERS = {
    "buffer_size",
    "client_protocol_version",
    "close_session",
    "compress",
    "database",
    "decompress",
    "default_format",
    "password",
    "query",
    "query_id",
    "quota_key",
    "role",
    "session_check",
    "session_id",
    "session_timeout",
    "stacktrace",
    "user",
    "wait_end_of_query",
}
_MAX_DIGITS = 19  # Python parses no more than 4,300
_SESSION_TIMEOUT_S, _MAX_SESSION_TIMEOUT_S = 60, 3600


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
        return self.parameters.get("default_format") or self.header_format or "TabSeparated"

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
        return QueryRequest(
            {**fields, **self.parameters},
            self.user,
            self.password,
            self.may_write,
            "",
            self.accept_encoding,
            self.header_database,
            self.header_format,
            frozenset(tables),
        )


def parse_request(method: str, parameters: Iterable[tuple[str, str]], headers: Mapping[str, str]) -> QueryRequest:
    """Parse a request from its parameters and headers (names in lower case).

    Raises ClickHouseError for conflicting ways of authentication.
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
    )


def _credentials(given: Mapping[str, str], headers: Mapping[str, str]) -> tuple[str, str]:
    by_header = "x-clickhouse-user" in headers or "x-clickhouse-key" in headers
    scheme, _, token = headers.get("authorization", "").partition(" ")
    by_url = "user" in given or "password" in given
    if by_header and (token or by_url):
        raise ClickHouseError(
            516,
            "AUTHENTICATION_FAILED",
            "Invalid authentication: it is not allowed to use X-ClickHouse HTTP headers and other authentication "
            "methods simultaneously",
        )
    if by_header:
        return headers.get("x-clickhouse-user", "default") or "default", headers.get("x-clickhouse-key", "")
    if not token:
        return given.get("user") or "default", given.get("password", "")
    if scheme.lower() != "basic":
        raise ClickHouseError(
            516,
            "AUTHENTICATION_FAILED",
            f"Invalid authentication: '{scheme}' HTTP Authorization scheme is not supported",
        )
    try:
        user, _, password = base64.b64decode(token, validate=True).decode().partition(":")
    except ValueError:
        raise ClickHouseError(
            516, "AUTHENTICATION_FAILED", "Invalid authentication: the Basic token is not Base64"
        ) from None
    return user or "default", password


def _number(parameters: Mapping[str, str], name: str, default: int) -> int:
    text = parameters.get(name, "")
    if not text:
        return default
    if not text.isdecimal() or len(text) > _MAX_DIGITS:
        raise ClickHouseError(72, "CANNOT_PARSE_NUMBER", f"Invalid {name}: '{text}'")
    return int(text)
