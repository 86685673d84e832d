"""Decides which statements reach the engine: an allow list of kinds, functions, table functions and engines.

A new feature of the engine is refused until it is added. The engine's own grants (data_dir.py) and the sandbox of its
process (sandbox.py) are the second and the third line of defense.
"""

import re
from collections.abc import Callable, Sequence

from streams.embedded.clickhouse.allowed_names import (
    CLAUSES,
    DATA_TYPES,
    ENGINES,
    FORMATS,
    FUNCTIONS,
    PARTS_OF_TABLES,
    REFUSED,
    STRUCTURE_FUNCTIONS,
    TABLE_FUNCTIONS,
)
from streams.embedded.clickhouse.errors import ClickHouseError
from streams.embedded.clickhouse.structure import is_aggregate, rebuild
from streams.embedded.clickhouse.tokens import Token

_ANY = frozenset[str]()

# The first keyword of each statement, and the keywords that may follow. `_ANY`: the rest is checked elsewhere.
_KINDS = {
    "SELECT": _ANY,
    "WITH": _ANY,
    "FROM": _ANY,
    "(": _ANY,
    "EXPLAIN": _ANY,
    "DESC": _ANY,
    "DESCRIBE": _ANY,
    "EXISTS": _ANY,
    "SET": _ANY,
    "USE": _ANY,
    "INSERT": frozenset({"INTO"}),
    "CREATE": frozenset({"TABLE", "TEMPORARY", "VIEW", "MATERIALIZED", "DATABASE", "OR"}),
    "ALTER": frozenset({"TABLE"}),
    "DROP": frozenset({"TABLE", "TEMPORARY", "VIEW", "DATABASE"}),
    "TRUNCATE": frozenset({"TABLE", "TEMPORARY"}),
    "RENAME": frozenset({"TABLE"}),
    "EXCHANGE": frozenset({"TABLES"}),
    "OPTIMIZE": frozenset({"TABLE"}),
    "CHECK": frozenset({"TABLE"}),
    "DELETE": frozenset({"FROM"}),
    "KILL": frozenset({"QUERY"}),
    "SYSTEM": frozenset({"STOP", "START"}),
    "SHOW": frozenset(
        {
            "DATABASES", "TABLES", "TEMPORARY", "FULL", "EXTENDED", "CREATE", "TABLE", "COLUMNS", "FIELDS", "INDEX",
            "INDEXES", "INDICES", "KEYS", "FUNCTIONS", "SETTINGS", "SETTING", "CHANGED", "ENGINES", "PROCESSLIST",
            "DICTIONARIES", "POLICIES", "ROW",
        }
    ),
}  # fmt: skip
_AFTER_OR_REPLACE = frozenset({"TABLE", "TEMPORARY", "VIEW", "MATERIALIZED"})
_AFTER_SHOW_CREATE = frozenset({"TABLE", "VIEW", "DATABASE", "TEMPORARY"})
_OF_ACCESS = frozenset(
    {"USER", "USERS", "ROLE", "ROLES", "ROW", "POLICY", "POLICIES", "QUOTA", "QUOTAS", "PROFILE", "PROFILES", "ACCESS",
     "NAMED", "MASKING", "SETTINGS", "DICTIONARY", "FUNCTION"}
)  # fmt: skip
_ALTERATIONS = frozenset(
    {"ADD", "DROP", "MODIFY", "ALTER", "COMMENT", "RENAME", "CLEAR", "MATERIALIZE", "DELETE", "UPDATE", "RESET",
     "REMOVE", "APPLY"}
)  # fmt: skip
# Statements that EXPLAIN may contain.
_EXPLAINED = frozenset({"SELECT", "WITH", "(", "FROM", "INSERT"})
_BEFORE_A_NAME = frozenset({"IF", "NOT", "EXISTS"})


def no_views(_name: str) -> bool:
    """Return False: no name is a view with parameters."""
    return False


def refuse_unlisted(seen: Sequence[Token], is_view: Callable[[str], bool] = no_views) -> None:
    """Raise ClickHouseError if the kind, a call or an engine of the statement is not on the list.

    `is_view` returns whether an unlisted name is a view, which a statement may call with parameters.
    """
    _check_kind(seen)
    _check_clauses(seen)
    named = _created_or_filled(seen)
    for at in range(1, len(seen)):
        if seen[at].text == "(" and seen[at].kind == "sign" and at - 1 != named:
            _check_call(seen, at - 1, is_view)


def refuse_unlisted_values(seen: Sequence[Token]) -> None:
    """Raise ClickHouseError for an unlisted call in an INSERT's VALUES, which the engine evaluates as expressions."""
    _check_clauses(seen)
    for at in range(1, len(seen)):
        if seen[at].text == "(" and seen[at].kind == "sign":
            _check_call(seen, at - 1, no_views)


def created_database(seen: Sequence[Token]) -> str | None:
    """Return CREATE DATABASE rebuilt from its name only, or None for another statement.

    The schema needs the right to create a database, but a database's engine could read files.
    """
    if [token.keyword for token in seen[:2]] != ["CREATE", "DATABASE"]:
        return None
    at = 2
    exists = [token.keyword for token in seen[2:5]] == ["IF", "NOT", "EXISTS"]
    at += 3 if exists else 0
    rest = seen[at + 1 :]
    if at >= len(seen) or not seen[at].name or "\\" in seen[at].text:
        raise ClickHouseError(62, "SYNTAX_ERROR", "Syntax error: the name of a database is expected")
    words = [token.text.lower() for token in rest if token.text not in {"(", ")"}]
    if words not in ([], ["engine", "=", "atomic"]):
        raise denied("CREATE DATABASE takes a name and no engine but Atomic")
    name = "`" + seen[at].name.replace("`", "``") + "`"
    return f"CREATE DATABASE {'IF NOT EXISTS ' if exists else ''}{name} ENGINE = Atomic"


def denied(what: str) -> ClickHouseError:
    """Return the error for a statement that is not on the list."""
    return ClickHouseError(497, "ACCESS_DENIED", f"Not enough privileges. {what}")


def _check_kind(seen: Sequence[Token]) -> None:
    first = seen[0].keyword or seen[0].text
    if first not in _KINDS:
        raise denied(f"Statements of the kind {first[:40]} are not allowed")
    words = [token.keyword for token in seen[1:4]] + [""] * 3
    if _KINDS[first] and words[0] not in _KINDS[first]:
        # OPTIMIZE, SHOW CREATE and TRUNCATE may omit TABLE; all other statements name the kind of object.
        raise denied(f"{first} {(seen[1].text if len(seen) > 1 else '')[:40]} is not allowed")
    if first == "CREATE" and words[0] == "OR" and (words[1] != "REPLACE" or words[2] not in _AFTER_OR_REPLACE):
        raise denied(f"CREATE OR REPLACE {words[2]} is not allowed")
    if first in {"CREATE", "DROP", "TRUNCATE"} and words[0] == "TEMPORARY" and words[1] != "TABLE":
        raise denied(f"{first} TEMPORARY {words[1]} is not allowed")
    if first == "SHOW" and words[0] == "CREATE" and words[1] in _OF_ACCESS and words[1] not in _AFTER_SHOW_CREATE:
        raise denied(f"SHOW CREATE {words[1]} is not allowed")
    if first == "SHOW" and words[0] == "ROW" and words[1] != "POLICIES":
        raise denied(f"SHOW ROW {words[1]} is not allowed")
    if first == "SYSTEM" and words[1] != "MERGES":
        raise denied(f"SYSTEM {words[0]} {words[1]} is not allowed")
    if first == "SET" and (len(seen) < 4 or seen[2].text != "="):
        raise denied("SET takes settings with values only")
    if first == "EXPLAIN" and not any((token.keyword or token.text) in _EXPLAINED for token in seen[1:]):
        raise denied("EXPLAIN takes a SELECT or an INSERT only")
    if first == "EXPLAIN" and any(token.keyword in {"CREATE", "OVERRIDE"} for token in seen[1:4]):
        raise denied("EXPLAIN takes a SELECT or an INSERT only")
    if first == "ALTER":
        _check_alterations(seen)


def _check_alterations(seen: Sequence[Token]) -> None:
    at = 2
    while at < len(seen) and seen[at].keyword in _BEFORE_A_NAME:
        at += 1
    while at + 1 < len(seen) and seen[at + 1].text == ".":
        at += 2
    depth, starts = 0, True
    for token in seen[at + 1 :]:
        if starts and token.text not in {"(", ")"}:
            if token.keyword not in _ALTERATIONS:
                raise denied(f"ALTER TABLE … {token.text[:40]} is not allowed")
            starts = False
        depth += (token.text in "([{") - (token.text in ")]}") if token.kind == "sign" else 0
        if token.keyword in {"FETCH", "FREEZE", "UNFREEZE", "ATTACH"} and not depth:
            raise denied(f"ALTER TABLE … {token.keyword} is not allowed")


def _check_clauses(seen: Sequence[Token]) -> None:
    defines = seen[0].keyword in {"CREATE", "EXPLAIN", "ALTER"}
    for at, token in enumerate(seen[:-1]):
        after = seen[at + 1]
        pair = (token.keyword, after.keyword)
        if pair == ("INTO", "OUTFILE"):
            raise ClickHouseError(358, "INTO_OUTFILE_NOT_ALLOWED", "INTO OUTFILE is not allowed")
        if pair == ("FROM", "INFILE"):
            raise ClickHouseError(78, "UNKNOWN_TYPE_OF_QUERY", "Query has infile and was sent directly to server")
        if pair in {("PARALLEL", "WITH"), ("EXECUTE", "AS"), ("NAMED", "COLLECTION")}:
            raise denied(f"{pair[0]} {pair[1]} is not allowed")
        if token.text == "|" and after.text == ">" and after.start == token.end:
            raise denied("The pipe syntax is not allowed")
        if token.text == "}" and after.text == "(":
            raise denied("A parameter is not the name of a function")
        if defines and token.keyword == "ENGINE":
            named = seen[at + 2] if after.text == "=" and at + 2 < len(seen) else after
            # A column may be called `engine`: then only another clause, a comma or an operator follows.
            if after.text == "=" or after.kind in {"word", "quoted"}:
                _check_engine(named)


def _check_engine(named: Token) -> None:
    if named.name not in ENGINES or "\\" in named.text:
        raise denied(f"Engine {named.text[:40]} is not allowed; allowed are {', '.join(sorted(ENGINES))}")


def _created_or_filled(seen: Sequence[Token]) -> int | None:
    """Return the index of the table's name in CREATE TABLE, CREATE VIEW or INSERT INTO, which a column list follows."""
    at = 0
    first = seen[0].keyword
    if first == "CREATE":
        at = 1
        while at < len(seen) and seen[at].keyword in {
            "OR", "REPLACE", "TEMPORARY", "MATERIALIZED", "TABLE", "VIEW", *_BEFORE_A_NAME,
        }:  # fmt: skip
            at += 1
    elif first in {"INSERT", "WITH"}:
        pairs = (i for i in range(len(seen) - 2) if seen[i].keyword == "INSERT" and seen[i + 1].keyword == "INTO")
        found = next(pairs, None)
        if found is None:
            return None
        at = found + 2
        at += seen[at].keyword == "TABLE" and at + 1 < len(seen) and bool(seen[at + 1].name)
        if at < len(seen) and seen[at].keyword == "FUNCTION":
            return None
    else:
        return None
    while at + 2 < len(seen) and seen[at + 1].text == ".":
        at += 2
    return at


def _check_call(seen: Sequence[Token], at: int, is_view: Callable[[str], bool]) -> None:
    """Check the token before a parenthesis."""
    token = seen[at]
    if token.kind in {"sign", "string", "number"}:
        return
    name = token.name.lower()
    if "\\" in token.text:
        raise denied(f"A function's name has no escapes: {token.text[:40]}")
    if name == "format":
        _check_format(seen, at)
        return
    if name in STRUCTURE_FUNCTIONS:
        _check_structure(seen, at)
        return
    if name == "values":
        _check_constant_table(seen, at)
        return
    known = name in FUNCTIONS or name in TABLE_FUNCTIONS or name in DATA_TYPES or name in PARTS_OF_TABLES
    if known or is_aggregate(name) or (token.kind == "word" and name in CLAUSES):
        return
    if name in {engine.lower() for engine in ENGINES} and token.name in ENGINES:
        return
    # The name of a projection or an index precedes its expression.
    if at and seen[0].keyword in {"CREATE", "ALTER"} and seen[at - 1].keyword in {"PROJECTION", "INDEX", "EXISTS"}:
        return
    if name in REFUSED:
        raise denied(f"{token.text[:60]}() is outside of this database")
    if is_view(token.name) or _is_named_query(seen, at):
        return
    raise ClickHouseError(
        46, "UNKNOWN_FUNCTION", f"Function with name `{token.text[:60]}` does not exist, or is not on the allow list"
    )


def _is_named_query(seen: Sequence[Token], at: int) -> bool:
    """Return whether the token is the name of a query with its columns: WITH name (a, b) AS (SELECT …)."""
    if seen[at - 1].text != "," and seen[at - 1].keyword not in {"WITH", "RECURSIVE"}:
        return False
    if not any(token.keyword == "WITH" for token in seen[:at]):
        return False
    end = at + 2
    while end + 1 < len(seen) and seen[end].name and seen[end + 1].text == ",":
        end += 2
    closing = [token.keyword or token.text for token in seen[end + 1 : end + 4]]
    return bool(end < len(seen) and seen[end].name) and closing == [")", "AS", "("]


def _check_structure(seen: Sequence[Token], at: int) -> None:
    argument = seen[at + 2] if at + 2 < len(seen) else None
    after = seen[at + 3] if at + 3 < len(seen) else None
    if argument is not None and argument.text == ")" and argument.kind == "sign":
        return
    if argument is None or argument.kind != "string" or after is None or after.text not in {")", ","}:
        raise denied(f"{seen[at].text}() takes its structure as one string")
    rebuild(plain_string(argument))


def _check_format(seen: Sequence[Token], at: int) -> None:
    """Permit the function format('pattern {}', …), and the table function format() of a listed format with literals."""
    inside: list[Token] = []
    for token in seen[at + 2 :]:
        if token.text == ")" and token.kind == "sign":
            break
        inside.append(token)
    first = inside[0] if inside else None
    if first is not None and first.kind == "string" and "{" in first.text:
        return
    values, commas = inside[2::2], inside[1::2]
    if (
        first is None
        or (first.name or first.text.strip("'")).lower() not in FORMATS
        or any(token.text != "," for token in commas)
        or any(token.kind != "string" for token in values)
        or not 1 <= len(values) <= 2
    ):
        raise denied("format() takes a pattern with {}, or a format's name, and texts")
    if len(values) > 1:
        rebuild(plain_string(values[0]))


def _check_constant_table(seen: Sequence[Token], at: int) -> None:
    """Permit the table function values('structure', row, …) only with literals: the engine evaluates expressions."""
    inside = seen[at + 2 :]
    if len(inside) < 3 or inside[0].kind != "string" or inside[1].text != ",":
        raise denied("values() takes its structure as one string, then rows of literals")
    rebuild(plain_string(inside[0]))
    depth = 1
    for token in inside[1:]:
        depth += (token.text in "([") - (token.text in ")]") if token.kind == "sign" else 0
        if not depth:
            return
        is_literal = token.kind in {"number", "string"} or token.keyword in {"NULL", "TRUE", "FALSE"}
        if not (is_literal or (token.kind == "sign" and token.text in {"(", ")", "[", "]", ",", "-"})):
            raise denied(f"values() takes literals only, not {token.text[:40]}")
    raise denied("values() is not closed")


def plain_string(token: Token) -> str:
    """Return the text of a string; raise ClickHouseError for a backslash, because only the engine unescapes it."""
    if not token.text.startswith("'"):  # a heredoc
        tag = token.text[: token.text.index("$", 1) + 1]
        return token.text[len(tag) : -len(tag)]
    if re.search(r"\\(?!')", token.text):
        raise denied("A structure has no escapes")
    return token.text[1:-1].replace("\\'", "'").replace("''", "'")
