"""Parses a statement's kind, output format and begin of an INSERT's data; policy.py decides what is allowed.

The engine parses the rest of the grammar.
"""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Literal

from streams.embedded.clickhouse.errors import ClickHouseError
from streams.embedded.clickhouse.policy import created_database, no_views, refuse_unlisted, refuse_unlisted_values
from streams.embedded.clickhouse.tokens import Token, UnknownText, tokens, without_nested_comment

Kind = Literal["select", "insert", "other"]

# The engine streams the results of these statements; other results are small and are sent as a whole.
_SELECTS = {"SELECT", "WITH", "FROM", "EXPLAIN", "("}

_READS = {"SHOW", "DESC", "DESCRIBE", "EXISTS", "SET", "USE"}
_ANSWERS = {"BACKUP", "CHECK", "DESC", "DESCRIBE", "EXISTS", "KILL", "RESTORE", "SHOW", "WITH"}


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a client, ready for the engine.

    `sql` has no trailing semicolon. For an INSERT with data, `sql` is the head without its FORMAT clause,
    `format` is the data's format, and the data begins at the offset `data_at` of the client's bytes.
    """

    kind: Kind
    sql: str
    format: str | None = None
    data_at: int | None = None
    clause_at: int | None = None

    @property
    def returns_rows(self) -> bool:
        """Return whether it has a result, even an empty one; other statements have no output format."""
        first = next(tokens(self.sql), None)
        return self.kind == "select" or (first is not None and first.keyword in _ANSWERS)

    @property
    def is_explain(self) -> bool:
        """Return whether it is an EXPLAIN."""
        return self.sql.lstrip()[:7].upper() == "EXPLAIN"

    @property
    def is_read_only(self) -> bool:
        """Return whether it changes at most its own session."""
        first = next(tokens(self.sql), None)
        return self.kind == "select" or (first is not None and first.keyword in _READS)

    @property
    def changes_session(self) -> bool:
        """Return whether it changes the settings or database of the session's later statements."""
        first = next(tokens(self.sql), None)
        return first is not None and first.keyword in {"SET", "USE"}

    @property
    def may_drop_databases(self) -> bool:
        """Return whether it may drop a database."""
        return self.sql[:8].upper().startswith(("DROP", "DETACH", "RENAME"))

    def into(self, path: str, default_format: str) -> str:
        """Return the statement extended to write its result to the pipe at `path`, in its own format or the default."""
        at = len(self.sql) if self.clause_at is None else self.clause_at
        quoted = path.replace("\\", "\\\\").replace("'", "\\'")
        tail = self.sql[at:] or f"FORMAT {default_format}"
        return f"{self.sql[:at]}\nINTO OUTFILE '{quoted}' APPEND {tail}"


def parse(raw: bytes, is_view: Callable[[str], bool] = no_views) -> Statement:
    """Return the statement at the begin of `raw`; the data of an INSERT may be truncated.

    `is_view` returns whether a name is a view, which a statement may call with parameters.
    Raises ClickHouseError for a statement that policy.py does not list, and for several statements.
    """
    for _ in range(_MAX_NESTED_COMMENTS):
        try:
            return _parse(raw, is_view)
        except UnknownText as error:
            blanked = without_nested_comment(raw, error.at)
            if blanked is None:
                raise _unknown(raw, error) from None
            raw = blanked
    raise ClickHouseError(
        229, "QUERY_IS_TOO_LARGE", f"The query has more than {_MAX_NESTED_COMMENTS - 1} comments with comments inside"
    )


def parse_head(raw: bytes, is_view: Callable[[str], bool] = no_views) -> Statement | None:
    """Return the INSERT with data at the begin of `raw`; None for another statement or a truncated head.

    Another statement must be read to its end before it can be parsed.
    """
    try:
        first = next(tokens(text := raw.decode("latin-1")), None)
        return _insert(raw, tokens(text), is_view) if first and first.keyword in {"INSERT", "WITH"} else None
    except UnknownText:
        return None


def check_values(data: bytes) -> None:
    """Raise ClickHouseError if the data of an INSERT … VALUES contains an expression that is not allowed.

    The engine evaluates the values as expressions, so the whole data is a part of the statement.
    """
    try:
        refuse_unlisted_values([_NONE, *_limited(tokens(data.decode("latin-1")))])
    except UnknownText as error:
        raise _unknown(data, error) from None


def _limited(stream: Iterable[Token]) -> list[Token]:
    """Return all tokens; raise ClickHouseError if they would need too much memory (some 150 bytes each)."""
    seen = list(islice(stream, _MAX_TOKENS + 1))
    if len(seen) > _MAX_TOKENS:
        raise ClickHouseError(
            229, "QUERY_IS_TOO_LARGE", f"The query has more than {_MAX_TOKENS} tokens; insert data in another format"
        )
    return seen


_MAX_TOKENS = 500_000
_MAX_NESTED_COMMENTS = 17
"""Limit of attempts: the text is parsed again after each replaced comment."""
_NONE = Token("sign", 0, 0, ",")


def _unknown(raw: bytes, error: UnknownText) -> ClickHouseError:
    shown = raw[error.at : error.at + 4].decode(errors="replace")[:1]
    return ClickHouseError(
        62, "SYNTAX_ERROR", f"Syntax error: unknown character {shown!r}, or a quote without its end, at byte {error.at}"
    )


def _parse(raw: bytes, is_view: Callable[[str], bool]) -> Statement:
    text = raw.decode("latin-1")  # one character per byte, so that offsets count the client's bytes
    first = next(tokens(text), None)
    if first is None:
        raise ClickHouseError(62, "SYNTAX_ERROR", "Empty query")
    if first.keyword in {"INSERT", "WITH"} and (statement := _insert(raw, tokens(text), is_view)):
        return statement
    seen = _single(_limited(tokens(text)))
    refuse_unlisted(seen, is_view)
    if (database := created_database(seen)) is not None:
        return Statement("other", database.encode("latin-1").decode(errors="surrogateescape"))
    sql = _decode(raw[: seen[-1].end])
    word = seen[0].keyword or seen[0].text
    writes = any(one.keyword == "INSERT" and two.keyword == "INTO" for one, two in pairwise(seen))
    kind: Kind = "other" if writes or word not in _SELECTS else "select"
    clause = _format_clause(seen)
    if clause is None:
        return Statement(kind, sql)
    return Statement(kind, sql, seen[clause + 1].name, clause_at=len(_decode(raw[: seen[clause].start])))


def _insert(raw: bytes, stream: Iterable[Token], is_view: Callable[[str], bool]) -> Statement | None:
    """Return an INSERT whose data follows; None if a SELECT provides the data, or the statement is no INSERT."""
    seen: list[Token] = []
    depth = 0
    inserts = selects = False
    for token in stream:
        seen.append(token)
        if token.kind == "sign":
            depth += (token.text in "([{") - (token.text in ")]}")
            if token.text == ";":
                return None
        if depth or len(seen) < 2:
            continue
        before = seen[-2].keyword
        if before == "INSERT" and token.keyword == "INTO":
            inserts = True
        elif inserts and before not in {"INTO", "TABLE"}:
            # In `INSERT INTO format FORMAT CSV` the first `format` is the table's name.
            named = seen[-3].keyword in {"INTO", "TABLE"} or seen[-3].text == "."
            if before == "FORMAT" and token.name and not named:
                refuse_unlisted(seen, is_view)
                return _with_data(raw, seen, selects)
            if token.keyword == "VALUES" and not selects:
                refuse_unlisted(seen, is_view)
                return Statement("insert", _decode(raw[: token.start]), "Values", token.end)
            selects = selects or token.keyword in {"SELECT", "WITH"}
    return None


def _with_data(raw: bytes, head: Sequence[Token], selects: bool) -> Statement | None:
    """Return an INSERT with data; `head` ends in FORMAT and a name. An INSERT … SELECT has data only with input()."""
    if selects and not any(token.name.lower() == "input" for token in head):
        return None
    data_at = head[-1].end
    sql = _decode(raw[: head[-2].start])
    settings = _settings_after(raw, data_at)
    if settings:
        sql = f"{sql.rstrip()} {_decode(raw[data_at:settings]).strip()}"
        data_at = settings
    # The server skips blanks and one line break between the head and the data.
    while raw[data_at : data_at + 1] in {b" ", b"\t", b";"}:
        data_at += 1
    for line_break in (b"\r\n", b"\n"):
        if raw.startswith(line_break, data_at):
            data_at += len(line_break)
            break
    return Statement("insert", sql, head[-1].name, data_at)


def _settings_after(raw: bytes, at: int) -> int:
    """Return the end of `SETTINGS a = 1, b = 2` after the format's name, or 0 if there is none."""
    stream = tokens(raw[at : at + 65536].decode("latin-1"))
    end = 0
    # Binary data may follow, which the lexer cannot read.
    with contextlib.suppress(UnknownText):
        first = next(stream, None)
        if first is None or first.keyword != "SETTINGS":
            return 0
        for name, equals, value in zip(stream, stream, stream, strict=False):
            if not name.name or equals.text != "=":
                break
            end = at + value.end
            if raw[end : end + 1] != b",":
                break
            next(stream, None)
    return end


def _single(seen: list[Token]) -> list[Token]:
    """Return the tokens without a trailing semicolon; refuse a second statement."""
    while seen and seen[-1].text == ";":
        seen.pop()
    if not seen:
        raise ClickHouseError(62, "SYNTAX_ERROR", "Empty query")
    if any(token.kind == "sign" and token.text == ";" for token in seen):
        raise ClickHouseError(62, "SYNTAX_ERROR", "Syntax error (Multi-statements are not allowed)")
    return seen


def _format_clause(seen: Sequence[Token]) -> int | None:
    """Return the index of the FORMAT clause at the statement's end (SETTINGS may follow), or None."""
    for index in range(len(seen) - 2, 0, -1):
        token = seen[index]
        if token.kind == "sign" and token.text in "()":
            return None
        if token.keyword == "FORMAT" and seen[index + 1].kind in {"word", "quoted"}:
            followed = seen[index + 2].keyword if index + 2 < len(seen) else "SETTINGS"
            return index if followed == "SETTINGS" and seen[index - 1].text not in {",", "."} else None
    return None


def _decode(raw: bytes) -> str:
    # A heredoc may contain any bytes: bytes that are not UTF-8 reach the engine unchanged.
    return raw.decode(errors="surrogateescape")
