"""Splits statements into tokens by ClickHouse's lexical rules.

statement.py has the grammar.
Offsets count characters, so a text decoded as Latin-1 gives offsets of bytes.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, cast

Kind = Literal["word", "quoted", "string", "number", "sign"]

# The rules follow ClickHouse's src/Parsers/Lexer.cpp: comments are `--`, `//`, `#!`, `# ` to the end of the line and
# /* */; strings escape by a backslash or by doubling the quote; heredocs are $tag$ … $tag$.
# The lexer refuses every text that the engine could read differently: bytes outside of strings and comments that are
# not listed here (the no-break space is listed, because clickhouse-connect leaves it at the end of statements; the
# engine also reads U+3000 as a blank, typographic quotes as quotes, U+2212 as a minus), unterminated strings and
# comments, a /* in a comment (the engine nests comments from 26.9 on; statement.py blanks them, so that the engine
# receives none), heredocs with other than a plain tag, and numbers directly before a letter.
# Repetitions are possessive, because a backtracking repetition costs 100 bytes of memory per step.
_SKIP = re.compile(r"[ \t\n\r\f\v\u00a0]++|\xc2\xa0|--[^\n]*|//[^\n]*|#[ !][^\n]*|/\*(?:(?!/\*).)*?\*/", re.DOTALL)
_HEREDOC = re.compile(r"\$(\w*)\$.*?\$\1\$", re.DOTALL | re.ASCII)
_TOKEN = re.compile(
    r"""(?P<string>'(?:[^'\\]++|\\.|'')*+')
    |(?P<quoted>`(?:[^`\\]++|\\.|``)*+`|"(?:[^"\\]++|\\.|"")*+")
    |(?P<number>(?:0[xX][0-9a-fA-F_]+|0[bB][01_]+|\d[\d_]*(?:\.[\d_]*)?(?:[eE][+-]?\d+)?)(?![\w$]))
    |(?P<word>[A-Za-z0-9_$][\w$]*)
    |(?P<sign>[()\[\]{},;.*/+\-%=!<>|?:@^])""",
    re.DOTALL | re.VERBOSE | re.ASCII,
)


class UnknownText(ValueError):
    """Raised for a text that the lexer cannot read at `at`."""

    def __init__(self, at: int, text: str) -> None:
        super().__init__(f"unknown character {text!r} at {at}")
        self.at = at


@dataclass(frozen=True, slots=True)
class Token:
    """One token: text[start:end]."""

    kind: Kind
    start: int
    end: int
    text: str

    @property
    def keyword(self) -> str:
        """The keyword in upper case; empty for a token that cannot be a keyword."""
        return self.text.upper() if self.kind == "word" else ""

    @property
    def name(self) -> str:
        """The identifier without its quotes; empty for any other token."""
        if self.kind == "word":
            return self.text
        if self.kind != "quoted":
            return ""
        quote = self.text[0]
        return re.sub(r"\\(.)", r"\1", self.text[1:-1].replace(quote * 2, quote))


def tokens(text: str, start: int = 0) -> Iterator[Token]:
    """Yield the tokens of `text` from `start` on, lazily, because binary data may follow the head of an INSERT.

    Raises UnknownText at the first unknown character.
    """
    position = start
    while position < len(text):
        if skipped := _SKIP.match(text, position):
            position = skipped.end()
            continue
        if text[position] == "$":
            if heredoc := _HEREDOC.match(text, position):
                yield Token("string", position, heredoc.end(), heredoc.group())
                position = heredoc.end()
                continue
            if _begins_heredoc(text, position):
                raise UnknownText(position, "$")
        found = _TOKEN.match(text, position)
        if found is None or (text[position] == "/" and text.startswith("/*", position)):
            raise UnknownText(position, text[position])
        yield Token(cast("Kind", found.lastgroup), position, found.end(), found.group())
        position = found.end()


def without_nested_comment(raw: bytes, at: int) -> bytes | None:
    """Replace the comment at `at`, with all comments nested in it, by blanks, so that all offsets stay.

    Returns None if no complete comment begins there.
    """
    if not raw.startswith(b"/*", at):
        return None
    depth = 0
    for sign in _COMMENT_SIGN.finditer(raw, at):
        depth += 1 if sign.group() == b"/*" else -1
        if not depth:
            return raw[:at] + b" " * (sign.end() - at) + raw[sign.end() :]
    return None


_COMMENT_SIGN = re.compile(rb"/\*|\*/")


def _begins_heredoc(text: str, position: int) -> bool:
    """Return whether a `$` begins a heredoc for the engine: the text up to the next `$`, its tag, occurs once more."""
    tag_end = text.find("$", position + 1) + 1
    return tag_end > 0 and text.find(text[position:tag_end], tag_end) >= 0
