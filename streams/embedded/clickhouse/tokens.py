"""Splits statements into tokens by ClickHouse's lexical rules.

It has no grammar; statement.py interprets the tokens.
Offsets are those of the text, so a text decoded as Latin-1 gives offsets of bytes.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, cast

Kind = Literal["word", "quoted", "string", "number", "sign"]

# After ClickHouse's src/Parsers/Lexer.cpp: comments are `--`, `//`, `#!`, `# ` to the end of the line and /* */,
# which do not nest; strings escape by a backslash or by doubling the quote; heredocs are $tag$ … $tag$.
# The no-break space and the byte order mark are blanks too; read as Latin-1, each is its UTF-8 bytes.
_SKIP = re.compile(
    r"(?:[\s\ufeff\u00a0]|\xc2\xa0|\xef\xbb\xbf|--[^\n]*|//[^\n]*|#[ !][^\n]*|/\*.*?(?:\*/|\Z))+", re.DOTALL
)
_HEREDOC = re.compile(r"\$(\w*)\$.*?\$\1\$", re.DOTALL)
_TOKEN = re.compile(
    r"""(?P<string>'(?:[^'\\]|\\.|'')*')
    |(?P<quoted>`(?:[^`\\]|\\.|``)*`|"(?:[^"\\]|\\.|"")*")
    |(?P<number>\d[\w.]*)
    |(?P<word>[A-Za-z_\u0080-\uffff][\w$]*)
    |(?P<sign>.)""",
    re.DOTALL | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Token:
    """One token: text[start:end]."""

    kind: Kind
    start: int
    end: int
    text: str

    @property
    def keyword(self) -> str:
        """The keyword in upper case; empty for a token that cannot be one."""
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
    """Yield the tokens of `text` from `start` on, lazily: what follows an INSERT's head may be binary."""
    position = start
    while position < len(text):
        if skipped := _SKIP.match(text, position):
            position = skipped.end()
            continue
        if text[position] == "$" and (heredoc := _HEREDOC.match(text, position)):
            yield Token("string", position, heredoc.end(), heredoc.group())
            position = heredoc.end()
            continue
        found = _TOKEN.match(text, position)
        assert found is not None
        yield Token(cast("Kind", found.lastgroup), position, found.end(), found.group())
        position = found.end()
