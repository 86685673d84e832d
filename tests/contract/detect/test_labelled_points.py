"""The table of labelled cases in docs/detection.md names tests that exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/detection.md"
_SECTION = re.compile(r"^## Labelled cases\n(.*?)^## ", re.MULTILINE | re.DOTALL)
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def _rows() -> list[str]:
    section = _SECTION.search(PAGE.read_text())
    assert section is not None, "docs/detection.md has no section `Labelled cases`"
    return [line for line in section[1].splitlines() if line.startswith("| ")][1:]


@pytest.mark.parametrize("row", _rows())
def test_a_point_names_tests_that_exist(row: str) -> None:
    """Each row has at least one test, and each test is a function of its file."""
    named = _TEST.findall(row)
    assert named
    for path, name in named:
        functions = {
            n.name
            for n in ast.walk(ast.parse((ROOT / path).read_text()))
            if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert name in functions, f"{path} has no {name}"
