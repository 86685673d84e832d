"""Tests the layout of tests: shared code is in tests/fixtures, tests/fakes and tests/worlds, not in test modules."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.selection import LONG, SHORT, is_long

TESTS = Path(__file__).parents[1]


def imports_of(source: str) -> Iterator[str]:
    """Yield the modules that a source imports, and for `from a import b` also `a.b`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def misplaced_imports(source: str) -> list[str]:
    """Return the imports that the layout of the tests forbids."""
    return [
        module
        for module in imports_of(source)
        if module.startswith("tests.")
        and (module.rsplit(".", 1)[-1].startswith("test_") or module.split(".")[1:2] == ["unit"])
    ]


def test_no_module_imports_from_a_test_module_or_from_the_unit_tests() -> None:
    """A test module may be deleted or renamed without breaking another."""
    found = {
        str(path.relative_to(TESTS)): wrong
        for path in sorted(TESTS.rglob("*.py"))
        if (wrong := misplaced_imports(path.read_text(encoding="utf-8")))
    }
    assert found == {}


def test_the_unit_tests_hold_only_tests() -> None:
    """Fixtures and fakes that several modules share are beside the unit tests."""
    others = [
        str(path.relative_to(TESTS))
        for path in sorted((TESTS / "unit").rglob("*.py"))
        if not path.name.startswith("test_") and path.name not in ("__init__.py", "conftest.py")
    ]
    assert others == []


def test_the_rule_finds_what_it_forbids() -> None:
    """The input has both forms of an import, and one inside a function."""
    assert misplaced_imports("from tests.e2e.test_b import play") == ["tests.e2e.test_b"]
    assert misplaced_imports("from tests.e2e import test_b") == ["tests.e2e.test_b"]
    assert misplaced_imports("def f():\n    import tests.unit.lab.bench.made") == ["tests.unit.lab.bench.made"]
    assert misplaced_imports("from tests.fixtures.findings import finding") == []


def test_every_choice_of_the_two_parts_exists() -> None:
    """A renamed module would move to the other part without a word."""
    missing = [one.path for one in (*LONG, *SHORT) if not (TESTS / one.path.partition("::")[0]).exists()]
    assert missing == []


def test_a_new_module_with_servers_belongs_to_the_long_part() -> None:
    """Unit and contract tests belong to `make test` unless listed, others to `make test-all`."""
    assert is_long("tests/integration/store/test_new.py::test_a")
    assert not is_long("tests/unit/store/test_new.py::test_a")
    assert is_long(f"tests/{LONG[0].path}/test_new.py::test_a")
    assert not is_long(f"tests/{SHORT[0].path}::test_a[b]")
