"""The list of errors: the message of every error that ends a command, as the code has it.

docs/conf.py puts it into docs/troubleshooting.md when the site is built, so a changed message needs no other change.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3]
PLACEHOLDER = "<!-- errors -->"
KINDS = {"Misconfigured": 2, "Retry": 1, "InvalidInventory": 1, "BadParameter": 2}
"""The errors that end a command, with its exit code."""


class Message(NamedTuple):
    """One message; what is inserted is in braces."""

    text: str
    code: int
    module: str


def found() -> list[Message]:
    """Return the messages of all modules, by module and text."""
    every = {
        message
        for room in ("streams", "collectors", "lab")
        for path in (ROOT / room).rglob("*.py")
        for message in _in(path)
    }
    return sorted(every, key=lambda message: (message.module, message.text))


def _in(path: Path) -> Iterator[Message]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not (isinstance(node, ast.Call) and node.args):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in KINDS and (text := _text(node.args[0])):
            yield Message(text, KINDS[name], str(path.relative_to(ROOT)))


def _text(node: ast.expr) -> str:
    """Return the text of a message; empty if it is no literal, as that of an error that is passed on."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = (
            f"{{{ast.unparse(part.value)}}}" if isinstance(part, ast.FormattedValue) else part for part in node.values
        )
        return "".join(part if isinstance(part, str) else str(getattr(part, "value", "")) for part in parts)
    if isinstance(node, ast.BinOp):
        return _text(node.left) + _text(node.right)
    return ""


def table() -> str:
    """Return the table of the messages."""
    rows = [
        f"| {_code(one.text)} | {one.code} | `{one.module}` |"
        for one in found()
        if not one.text.startswith("{") or len(one.text) > 30
    ]
    return "| message | exit code | raised in |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def _code(text: str) -> str:
    text = " ".join(text.split()).replace("|", r"\|")
    return f"`` {text} ``" if "`" in text else f"`{text}`"
