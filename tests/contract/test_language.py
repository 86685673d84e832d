"""Names, docstrings, comments, messages and pages use the words of the field (tests/language has the rules)."""

from pathlib import Path

import pytest

from tests.language.scan import ROOT, check, files, scan
from tests.language.vocabulary import ALLOWED, BANNED_IN_NAMES, BANNED_IN_PROSE, OPENINGS

CLEAN = "streams/instrument/text.py"


def test_no_banned_word_and_no_riddle_in_what_is_checked() -> None:
    """`python -m tests.language PATH` prints the same for one path."""
    assert [str(hit) for hit in check(files())] == []


def test_every_exception_has_a_reason_and_a_place() -> None:
    """An exception for a file that is gone goes too."""
    assert [allowed for allowed in ALLOWED if not allowed.reason or not (ROOT / allowed.path).exists()] == []


SPOILED = [
    ('    """Nobody hears it."""\n', "banned in prose: Nobody"),
    ("    # what is told anew\n    ...\n", "banned in prose: told"),
    ('    print(f"{1} is said in vain")\n', "banned in prose: said"),
    ("    kept_rows = 1\n", "banned in a name: kept"),
    ("    class IsToldOf: ...\n", "banned in a name: told"),
    ("    for said in (): ...\n", "banned in a name: said"),
    ('    """What it counts."""\n', "a docstring that does not begin with a statement"),
]


@pytest.mark.parametrize(("line", "rule"), SPOILED, ids=[rule for _, rule in SPOILED])
def test_a_spoiled_copy_fails(tmp_path: Path, line: str, rule: str) -> None:
    """A clean file of the project has no hit, and one with such a line has it."""
    copy = tmp_path / CLEAN
    copy.parent.mkdir(parents=True)
    text = (ROOT / CLEAN).read_text(encoding="utf-8")
    copy.write_text(text, encoding="utf-8")
    assert check([CLEAN], tmp_path) == []
    copy.write_text(f"{text}\n\ndef spoiled() -> None:\n{line}", encoding="utf-8")
    assert rule in [hit.rule for hit in check([CLEAN], tmp_path)]


@pytest.mark.parametrize("suffix", [".md", ".proto", ".toml", ".yaml", ".sql"])
def test_a_spoiled_page_fails(suffix: str) -> None:
    """Other files are read as text, line by line."""
    (hit,) = scan(f"docs/page{suffix}", "Fine.\n# A port that goes away.\n")
    assert (hit.line, hit.text, hit.rule) == (2, "# A port that goes away.", "banned in prose: goes away")


def test_parts_of_words_are_no_hits() -> None:
    """Literal words that contain a banned one: retold nothing of, upheld, wholesale, holdings."""
    source = '"""Stores essays, foretells nothing, and upholds the threshold."""\nholding = withheld_s = shell = 1\n'
    assert scan("streams/a.py", source) == []


@pytest.mark.parametrize("word", ["told", "said", "nobody", "by chance", "let go", "crowded"])
def test_the_list_has_what_the_vocabulary_bans(word: str) -> None:
    """Each banned word has a hit in prose."""
    assert scan("a.md", f"It is {word} here.")


def test_every_rule_names_a_replacement() -> None:
    """Who meets a banned word learns what to write instead."""
    assert all(BANNED_IN_NAMES.values()) and all(BANNED_IN_PROSE.values()) and OPENINGS
