"""The marked blocks of a page: commands to run, files to write.

A comment before a block marks it: `<!-- step: run -->` (must succeed), `<!-- step: background -->` (until the end),
`<!-- step: wait 60 -->` (repeated until it succeeds, at most so many seconds), `<!-- step: file NAME -->` (is written).
The word `slow` at the end marks a step that only a whole run takes.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, cast

Kind = Literal["run", "background", "wait", "file"]
_STEP = re.compile(
    r"^<!-- step: (?P<kind>\w+)(?: (?P<argument>(?!slow\b)[^ ]+))?(?P<slow> slow)? -->\n+```\w*\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_MARK = re.compile(r"^<!-- step:.*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Step:
    """One marked block; `line` is that of its mark."""

    kind: Kind
    argument: str
    text: str
    is_slow: bool
    line: int


class WrongMark(ValueError):
    """A mark without a block, of an unknown kind, or without what its kind needs."""


def steps(page: str) -> list[Step]:
    """Return the marked blocks of a page in their order; raises WrongMark."""
    found = list(_steps(page))
    if len(found) != len(_MARK.findall(page)):
        lines = {step.line for step in found}
        wrong = [mark for mark in _MARK.finditer(page) if _line(page, mark.start()) not in lines]
        raise WrongMark(f"line {_line(page, wrong[0].start())}: no block follows {wrong[0][0]}")
    return found


def _steps(page: str) -> Iterator[Step]:
    for match in _STEP.finditer(page):
        kind, argument, line = match["kind"], match["argument"] or "", _line(page, match.start())
        if kind not in ("run", "background", "wait", "file"):
            raise WrongMark(f"line {line}: unknown kind {kind}")
        if (kind in ("wait", "file")) != bool(argument) or (kind == "wait" and not argument.isdigit()):
            raise WrongMark(f"line {line}: {kind} needs {'seconds' if kind == 'wait' else 'a name, if it is a file'}")
        yield Step(cast("Kind", kind), argument, match["text"], bool(match["slow"]), line)


def _line(page: str, at: int) -> int:
    return page.count("\n", 0, at) + 1
