"""Finds banned words in names, docstrings, comments, messages and pages.

Python files are read by their syntax tree and their comments; other text files as they are, line by line.
"""

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.language.vocabulary import ALLOWED, BANNED_IN_NAMES, BANNED_IN_PROSE, OPENINGS

ROOT = Path(__file__).parents[2]
TEXT_SUFFIXES = (".md", ".proto", ".toml", ".yaml", ".yml", ".sql", ".sh", ".service", ".tpl", ".ini", ".cfg")
GENERATED = ("streams/wire/v1/", "collectors/gnmi/v1/", "requirements.lock")
"""Files that a program writes; the sources that they come from are checked."""

_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_PROSE = re.compile(r"\b(?:" + "|".join(BANNED_IN_PROSE) + r")\b", re.IGNORECASE)
_OPENING = re.compile(r"\s*(?:" + "|".join(OPENINGS) + r")\b")


class Hit(NamedTuple):
    """One place that breaks a rule."""

    path: str
    line: int
    text: str
    rule: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"


def files(root: Path = ROOT) -> Iterator[str]:
    """Yield the paths of all files of the project that are checked, relative to its root."""
    listed = subprocess.run(["git", "ls-files"], cwd=root, check=True, capture_output=True, text=True).stdout
    for path in listed.splitlines():
        is_text = path.endswith((".py", *TEXT_SUFFIXES)) or Path(path).name == "Makefile"
        if is_text and not path.startswith(GENERATED) and (root / path).is_file():
            yield path


def check(paths: Iterable[str], root: Path = ROOT) -> list[Hit]:
    """Return what breaks a rule in these files, without the exceptions."""
    return [
        hit for path in paths for hit in scan(path, (root / path).read_text(encoding="utf-8")) if not _is_allowed(hit)
    ]


def scan(path: str, text: str) -> list[Hit]:
    """Return what breaks a rule in one file with this text."""
    if path.endswith(".py"):
        return sorted({*_names(path, text), *_strings(path, text), *_comments(path, text)})
    return list(_prose(path, 1, text))


def _names(path: str, text: str) -> Iterator[Hit]:
    for part in (part for piece in Path(path).with_suffix("").parts for part in _words(piece)):
        if part in BANNED_IN_NAMES:
            yield Hit(path, 1, part, "banned in a module's name")
    for node in ast.walk(ast.parse(text)):
        for name in _identifiers(node):
            if banned := [part for part in _words(name) if part in BANNED_IN_NAMES]:
                yield Hit(path, getattr(node, "lineno", 1), name, f"banned in a name: {', '.join(banned)}")


def _identifiers(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.alias(name=name, asname=asname):
            yield asname or name
        case ast.keyword(arg=str(name)) | ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            yield name
        case _:
            return


def _words(name: str) -> list[str]:
    return [part.lower() for part in _PARTS.findall(name)]


def _strings(path: str, text: str) -> Iterator[Hit]:
    """Yield the hits in docstrings, messages and all other strings."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _prose(path, node.lineno, node.value)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            first = node.value.value.lstrip().partition("\n")[0]
            if _OPENING.match(first):
                yield Hit(path, node.lineno, first, "a docstring that does not begin with a statement")


def _comments(path: str, text: str) -> Iterator[Hit]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield from _prose(path, token.start[0], token.string)


def _prose(path: str, first_line: int, text: str) -> Iterator[Hit]:
    for found in _PROSE.finditer(text):
        start = text.rfind("\n", 0, found.start()) + 1
        line = text[start:].partition("\n")[0].strip()
        yield Hit(path, first_line + text.count("\n", 0, found.start()), line, f"banned in prose: {found[0]}")


def _matches(path: str, prefixes: Iterable[str]) -> bool:
    return any(path == prefix or (prefix.endswith("/") and path.startswith(prefix)) for prefix in prefixes)


def _is_allowed(hit: Hit) -> bool:
    return any(
        _matches(hit.path, (allowed.path,)) and (allowed.text == "*" or allowed.text.lower() in hit.text.lower())
        for allowed in ALLOWED
    )
