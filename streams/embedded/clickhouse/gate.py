"""Judges the text of a statement: the gate before the engine, beside the engine's rights and the sandbox.

`Statement.text` is exactly what the engine gets; INSERT data and results travel beside it as bytes.
Measured with chdb 26.9: `send_query` takes one SELECT and `send_insert` one INSERT, and the engine's own
parser refuses a second statement there; `query` runs several. So engine.py lets the engine's parser confirm that a text
is one statement before it runs, and decide which is a SELECT. The engine's client half writes INTO OUTFILE in spite of
`readonly`, so no text of a reader has the word, even in a string: a keyword cannot be written otherwise.
A reader's text begins with its keyword, without a comment before it.

The lexer here finds only clauses: output format, begin of INSERT data, input(). Its time is linear.
"""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from streams.embedded.clickhouse.errors import ClickHouseError

SELECTS = frozenset({b"SELECT", b"WITH", b"FROM", b"("})
_READS = SELECTS | {b"EXPLAIN", b"DESC", b"DESCRIBE", b"EXISTS", b"SHOW", b"SET", b"USE"}
_ANSWERS = SELECTS | {b"EXPLAIN", b"CHECK", b"DESC", b"DESCRIBE", b"EXISTS", b"KILL", b"SHOW"}
_FORMAT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]{0,63}")
INPUT_TABLE = b"_railsight_input"
"""The temporary table from which an INSERT … SELECT … FROM input() reads its data."""

# ClickHouse's src/Parsers/Lexer.cpp. Bytes outside of strings that are not listed are refused, as are quotes and
# comments without an end: the first failed search ends the lexer, so that no text is searched twice.
_TOKEN = re.compile(
    rb"""(?P<blank>(?:[ \t\n\r\f\v]|\xc2\xa0)++|(?:--|//|\#[ !])[^\n]*+)
    |(?P<list>(?:(?:\d++|'(?:[^'\\]++|\\.|'')*+')[ \t\n\r]*+,[ \t\n\r]*+)++)
    |(?P<comment>/\*)
    |(?P<heredoc>\$\w*+\$)
    |(?P<string>'(?:[^'\\]++|\\.|'')*+')
    |(?P<quoted>`(?:[^`\\]++|\\.|``)*+`|"(?:[^"\\]++|\\.|"")*+")
    |(?P<number>(?:0[xX][0-9a-fA-F_]++|0[bB][01_]++|\d[\d_]*+(?:\.[\d_]*+)?(?:[eE][+-]?\d++)?)(?![\w$]))
    |(?P<word>\$?\w[\w$]*+)
    |(?P<sign>[()\[\]{},;.*/+\-%=!<>|?:@^])""",
    re.DOTALL | re.VERBOSE,
)
_WORD = re.compile(rb"\$\w*+\$[\w$]*+")
_MAX_OPEN_TAGS = 64  # `$tag$` that does not come again is a word, but each costs a search to the end of the text
_COMMENT_SIGN = re.compile(rb"/\*|\*/")
_VALUE = rb"[A-Za-z_]\w*+\s*+=\s*+(?:'(?:[^'\\]++|\\.|'')*+'|[\w.+-]++)"
_SETTINGS = re.compile(rb"\s*+(SETTINGS\s++" + _VALUE + rb"(?:\s*+,\s*+" + _VALUE + rb")*+)", re.DOTALL | re.IGNORECASE)
_CHECK_EVERY = 4096


class Token(NamedTuple):
    """One token: raw[start:end]; `word` is in upper case, or the sign; empty for strings, names and numbers."""

    kind: str
    start: int
    end: int
    word: bytes


_NONE = Token("", 0, 0, b"")


class UnreadableText(ValueError):
    """Raised for a text that the lexer cannot read at the byte `at`."""

    def __init__(self, at: int) -> None:
        super().__init__(f"unreadable at byte {at}")
        self.at = at


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement; for an INSERT with data, `text` ends before FORMAT, and the data begins at `data_at`."""

    text: bytes
    keyword: bytes
    format: str = ""
    data_at: int | None = None
    reads: bool = False
    """By its words, it changes at most its session."""
    has_totals: bool = False
    """It has the word TOTALS or EXTREMES; a result in pieces would lack those rows."""
    without_format: bytes = b""
    input_structure: bytes = b""
    """The literal of input('…'); `text` then reads from INPUT_TABLE."""

    @property
    def changes_session(self) -> bool:
        """Return whether it changes the settings or database of the session's later statements."""
        return self.keyword in {b"SET", b"USE"}

    @property
    def returns_rows(self) -> bool:
        """Return whether it has a result, even an empty one; other statements have no output format."""
        return self.keyword in _ANSWERS


def judge(raw: bytes, *, reader: bool, deadline: float, complete: bool = True) -> Statement | None:
    """Return the statement of a client; raise ClickHouseError if it is refused.

    Returns None only if `raw` is not `complete` and not an INSERT whose data begins in it.
    """
    if reader and b"outfile" in raw.lower():
        raise ClickHouseError(
            358, "INTO_OUTFILE_NOT_ALLOWED", "INTO OUTFILE is not allowed; send a text with this word as a parameter"
        )
    try:
        statement = _judge(raw, deadline, complete)
    except UnreadableText as error:
        if not complete:
            return None
        shown = raw[error.at : error.at + 4].decode(errors="replace")[:1]
        message = f"Syntax error: unknown character {shown!r}, or a quote without its end, at byte {error.at}"
        raise ClickHouseError(62, "SYNTAX_ERROR", message) from None
    if statement is not None and reader and statement.keyword not in _READS:
        word = statement.keyword.decode(errors="replace")[:40]
        raise ClickHouseError(497, "ACCESS_DENIED", f"Not enough privileges. {word} is not for a read-only user")
    return statement


def format_name(text: str) -> str:
    """Return the name of a format; raise ClickHouseError for any other text."""
    if not _FORMAT_NAME.fullmatch(text):
        raise ClickHouseError(73, "UNKNOWN_FORMAT", f"Unknown format {text[:64]!r}")
    return text


def tokens(raw: bytes, deadline: float = float("inf"), start: int = 0) -> Iterator[Token]:
    """Yield the tokens from `start` on, lazily, because binary data may follow the head of an INSERT."""
    at, count, open_tags = start, 0, 0
    while at < len(raw):
        count += 1
        if not count % _CHECK_EVERY and time.monotonic() > deadline:
            raise ClickHouseError(159, "TIMEOUT_EXCEEDED", "The statement is too long to be parsed in time")
        found = _TOKEN.match(raw, at)
        if found is None:
            raise UnreadableText(at)
        kind, end = found.lastgroup or "", found.end()
        if kind == "comment":
            end = _end_of_comment(raw, at)
        elif kind == "heredoc":
            tag = found.group()
            closing = raw.find(tag, end)
            open_tags += closing < 0
            if open_tags > _MAX_OPEN_TAGS:
                raise UnreadableText(at)
            if closing >= 0:
                kind, end = "string", closing + len(tag)
            elif (word := _WORD.match(raw, at)) is not None:
                kind, end = "word", word.end()
        if kind == "list":  # literals before commas: no clause begins or ends there
            yield Token("sign", at, end, b",")
        elif kind not in {"blank", "comment"}:
            yield Token(kind, at, end, raw[at:end].upper() if kind in {"word", "sign"} else b"")
        at = end


def _end_of_comment(raw: bytes, at: int) -> int:
    """Return the end of a comment; the engine nests comments from 26.9 on."""
    depth = 0
    for sign in _COMMENT_SIGN.finditer(raw, at):
        depth += 1 if sign.group() == b"/*" else -1
        if not depth:
            return sign.end()
    raise UnreadableText(at)


def _judge(raw: bytes, deadline: float, complete: bool) -> Statement | None:
    clauses = _Clauses(raw)
    for token in tokens(raw, deadline):
        if (insert := clauses.take(token)) is not None:
            return insert
    return clauses.statement() if complete else None


class _Clauses:
    """Finds the clauses of one statement, token by token."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._first = self._before = self._beyond = _NONE
        self._depth = 0
        self._ended = self._inserts = self._selects = self._has_totals = False
        self._format = self._format_clause = _NONE
        self._has_settings = False
        self._input: list[Token] = []

    def take(self, token: Token) -> Statement | None:
        """Take the next token; return the INSERT whose data begins after it."""
        if token.word == b";":
            self._ended = True
            return None
        self._refuse(token)
        self._first = self._first if self._first.kind else token
        self._has_totals = self._has_totals or token.word in {b"TOTALS", b"EXTREMES"}
        if self._input or token.word == b"INPUT":
            self._input = [*self._input, token][:4]
        if token.kind == "sign":
            self._depth += (token.word in b"([{") - (token.word in b")]}")
        if self._format.kind and not self._has_settings:
            # Only SETTINGS may follow a FORMAT clause; before anything else it is a name.
            self._has_settings = token.word == b"SETTINGS"
            self._format = self._format if self._has_settings else _NONE
        insert = self._clause(token) if not self._depth and self._before.kind else None
        self._beyond, self._before = self._before, token
        return insert

    def statement(self) -> Statement:
        """Return the statement without data."""
        first, raw = self._first, self._raw
        if not first.kind:
            raise ClickHouseError(62, "SYNTAX_ERROR", "Empty query")
        text = raw[first.start : self._before.end]
        named = bool(self._format.kind)
        return Statement(
            text,
            first.word,
            _name(raw, self._format) if named else "",
            reads=first.word in _READS and not self._inserts,
            has_totals=self._has_totals,
            without_format=raw[first.start : self._format_clause.start] if named else text,
        )

    def _refuse(self, token: Token) -> None:
        if self._ended:
            raise ClickHouseError(62, "SYNTAX_ERROR", "Syntax error (Multi-statements are not allowed)")
        pair = (self._before.word, token.word)
        if pair == (b"INTO", b"OUTFILE"):
            raise ClickHouseError(358, "INTO_OUTFILE_NOT_ALLOWED", "INTO OUTFILE is not allowed")
        if pair == (b"FROM", b"INFILE"):
            raise ClickHouseError(78, "UNKNOWN_TYPE_OF_QUERY", "Query has infile and was sent directly to server")

    def _clause(self, token: Token) -> Statement | None:
        before, beyond = self._before.word, self._beyond.word
        is_format = before == b"FORMAT" and token.kind in {"word", "quoted"}
        if before == b"INSERT" and token.word == b"INTO":
            self._inserts = True
        elif self._inserts and is_format:
            # In `INSERT INTO format FORMAT CSV` the first `format` is the table's name.
            if beyond not in {b"INTO", b"TABLE", b"."} and (self._input or not self._selects):
                return _with_data(self._raw, self._first, self._before, token, self._structure())
        elif self._inserts and token.word == b"VALUES":
            if not self._selects and before not in {b"INTO", b"TABLE"}:
                text = self._raw[self._first.start : token.start].rstrip()
                return Statement(text, self._first.word, "Values", token.end)
        elif is_format and beyond not in {b",", b"."}:
            self._format, self._format_clause = token, self._before
        self._selects = self._selects or (self._inserts and token.word in {b"SELECT", b"WITH"})
        return None

    def _structure(self) -> list[Token]:
        """Return the four tokens of input('structure'), or none."""
        kinds = [token.kind for token in self._input]
        is_call = kinds == ["word", "sign", "string", "sign"] and self._input[3].word == b")"
        return self._input if is_call else []


def _with_data(raw: bytes, first: Token, clause: Token, name: Token, called: list[Token]) -> Statement:
    """Return an INSERT with data; `SETTINGS` between the format's name and the data belong to the statement."""
    text, data_at = raw[first.start : clause.start].rstrip(), name.end
    if settings := _SETTINGS.match(raw, data_at):
        text += b" " + settings.group(1)
        data_at = settings.end()
    # The server skips blanks and one line break between the head and the data.
    while raw[data_at : data_at + 1] in {b" ", b"\t", b";"}:
        data_at += 1
    data_at += 2 if raw.startswith(b"\r\n", data_at) else raw.startswith(b"\n", data_at)
    structure = b""
    if called:
        start, end = called[0].start - first.start, called[3].end - first.start
        structure = raw[called[2].start : called[2].end]
        text = text[:start] + INPUT_TABLE + text[end:]
    return Statement(text, first.word, _name(raw, name), data_at, input_structure=structure)


def _name(raw: bytes, token: Token) -> str:
    text = raw[token.start : token.end].decode(errors="replace")
    return format_name(text[1:-1] if token.kind == "quoted" else text)
