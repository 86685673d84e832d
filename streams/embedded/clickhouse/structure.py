"""Parses the structure of a table that a client sends as text, and rebuilds it from names and types.

Refuses all other parts: DEFAULT, ALIAS, MATERIALIZED, CODEC and TTL, whose expressions the engine would evaluate, and
text after the last type.
"""

import re

from streams.embedded.clickhouse.allowed_names import AGGREGATES, DATA_TYPES
from streams.embedded.clickhouse.errors import ClickHouseError
from streams.embedded.clickhouse.tokens import Token, UnknownText, tokens

_MAX_DEPTH = 32
_MAX_BYTES = 1 << 20


def rebuild(structure: str) -> str:
    """Rebuild `structure` from its names and types; raise ClickHouseError if it has other parts."""
    return _Parser(structure).columns()


def rebuild_type(text: str) -> str:
    """Rebuild one type; raise ClickHouseError if the text is not exactly one type."""
    return _Parser(text).single_type()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        if len(text) > _MAX_BYTES:
            raise self._refused("it is too long")
        try:
            self._tokens: list[Token] = list(tokens(text))
        except UnknownText as error:
            raise self._refused(str(error)) from None
        self._at = 0

    def columns(self) -> str:
        columns = [self._column()]
        while self._take(","):
            columns.append(self._column())
        self._expect_end()
        return ", ".join(columns)

    def single_type(self) -> str:
        kind = self._type(0)
        self._expect_end()
        return kind

    def _column(self) -> str:
        name = self._name()
        return f"{name} {self._type(0)}"

    def _name(self) -> str:
        token = self._next()
        # A quoted name with an escape is refused, because only the engine unescapes it.
        if not token.name or "\\" in token.text:
            raise self._refused(f"{token.text!r} is not a name")
        return "`" + token.name.replace("`", "``") + "`"

    def _type(self, depth: int) -> str:
        token = self._next()
        if depth > _MAX_DEPTH or token.kind != "word" or token.text.lower() not in DATA_TYPES:
            raise self._refused(f"{token.text!r} is not a type")
        if not self._take("("):
            return token.text
        if self._take(")"):
            return f"{token.text}()"
        arguments = [self._argument(token.text.lower(), depth + 1, first=True)]
        while self._take(","):
            arguments.append(self._argument(token.text.lower(), depth + 1, first=False))
        if not self._take(")"):
            raise self._refused("a parenthesis is missing")
        return f"{token.text}({', '.join(arguments)})"

    def _argument(self, kind: str, depth: int, *, first: bool) -> str:
        token = self._peek()
        if token.kind == "number" or token.text == "-":
            return self._number()
        if token.kind == "string":
            text = self._next().text
            return f"{text} = {self._number()}" if self._take("=") else text
        if kind in {"aggregatefunction", "simpleaggregatefunction"} and first:
            return self._aggregate()
        following = self._tokens[self._at + 1] if self._at + 1 < len(self._tokens) else None
        if following is not None and following.text == "=" and token.kind == "word":  # JSON(max_dynamic_paths = 8)
            name = self._next().text
            self._take("=")
            return f"{name} = {self._number()}"
        if following is not None and following.name:  # an element of a Tuple or Nested
            return f"{self._name()} {self._type(depth)}"
        return self._type(depth)

    def _aggregate(self) -> str:
        token = self._next()
        name = token.text
        if token.kind != "word" or not is_aggregate(name):
            raise self._refused(f"{name!r} is not an aggregate function")
        if not self._take("("):
            return name
        values = [self._number()]
        while self._take(","):
            values.append(self._number())
        if not self._take(")"):
            raise self._refused("a parenthesis is missing")
        return f"{name}({', '.join(values)})"

    def _number(self) -> str:
        sign = "-" if self._take("-") else ""
        token = self._next()
        if token.kind != "number" or not re.fullmatch(r"\d+(?:\.\d+)?", token.text):
            raise self._refused(f"{token.text!r} is not a number")
        return sign + token.text

    def _peek(self) -> Token:
        if self._at >= len(self._tokens):
            raise self._refused("it ends too early")
        return self._tokens[self._at]

    def _next(self) -> Token:
        token = self._peek()
        self._at += 1
        return token

    def _take(self, sign: str) -> bool:
        if self._at < len(self._tokens) and self._tokens[self._at].text == sign:
            self._at += 1
            return True
        return False

    def _expect_end(self) -> None:
        if self._at < len(self._tokens):
            raise self._refused(f"{self._tokens[self._at].text!r} follows a type")

    def _refused(self, reason: str) -> ClickHouseError:
        return ClickHouseError(
            36, "BAD_ARGUMENTS", f"A structure has names and types only; {reason} in {self._text[:200]!r}"
        )


def is_aggregate(name: str) -> bool:
    """Return whether `name` is an allowed aggregate function, possibly with combinators (sumIf, quantileState)."""
    from streams.embedded.clickhouse.allowed_names import COMBINATORS

    rest = name.lower()
    while rest not in AGGREGATES:
        suffix = next((one for one in COMBINATORS if rest.endswith(one) and len(rest) > len(one)), None)
        if suffix is None:
            return False
        rest = rest.removesuffix(suffix)
    return True
