"""The tokenizer separates SQL from text that only looks like it."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.embedded.clickhouse.tokens import UnknownText, tokens


def texts(sql: str) -> list[str]:
    return [token.text for token in tokens(sql)]


def test_comments_are_no_tokens() -> None:
    """All of ClickHouse's comments are passed over, to the end of their line or to their closing sign."""
    assert texts("a -- x ; y\nb /* ; */ c # d\ne #! f\ng // h\ni /* closed */") == ["a", "b", "c", "e", "g", "i"]


def test_quoted_text_is_one_token() -> None:
    """A semicolon, a comment or a keyword inside quotes is text."""
    for quoted in ["'a;\\'b''c'", '"a;--"', "`INTO OUTFILE`", "$$ ; '$$", "$tag$ $$ ; $tag$"]:
        assert texts(f"x {quoted} y") == ["x", quoted, "y"]


def test_an_identifier_loses_its_quotes() -> None:
    """`name` is what the engine would call it; anything that is no identifier has none."""
    assert [token.name for token in tokens("file `fi``le` \"fi\\\\le\" 'file' 1")] == [
        "file",
        "fi`le",
        "fi\\le",
        "",
        "",
    ]


@pytest.mark.parametrize(
    "sql",
    [
        "\u3000SELECT 1",
        "\ufeffSELECT 1",
        "SELECT \u2018a\u2019",
        "SELECT \u201ca\u201d",
        "SELECT 1 \u2212\u2212 comment",
        "SELECT a\x00",
        "SELECT 'abc",
        "SELECT `abc",
        "SELECT 'a''b",
        "SELECT 1 /* open",
        "SELECT 1 /* /* */ ' */, file('/etc/hostname') -- '",
        "SELECT 1 /* /* */ + 1 */",
        "SELECT 1 /*/*/ + 1 */",
        "SELECT $'$ ' $'$ file(1) '",
        "SELECT $a b$ ' $a b$ file(1) '",
        "SELECT 1 #x",
        "SELECT 1 \\ 2",
        "SELECT 1 ~ 2",
    ],
)
def test_what_the_lexer_does_not_know_is_refused(sql: str) -> None:
    """The engine reads some of these as blanks, quotes or signs, so nothing may be guessed."""
    for text in (sql, sql.encode().decode("latin-1")):
        with pytest.raises(UnknownText):
            texts(text)


@pytest.mark.parametrize("name", ["$x", "$x$", "id$", "a$$b", "$1", "foo$x$bar"])
def test_a_dollar_that_begins_no_heredoc_is_part_of_a_word(name: str) -> None:
    """clickhouse-connect's parameters have such names; a tag that comes again begins a heredoc instead."""
    assert texts(f"SELECT {{{name}:Int32}}") == ["SELECT", "{", name, ":", "Int32", "}"]


def test_blanks_of_utf8_read_as_latin1_are_blanks() -> None:
    """A no-break space after a semicolon is no second statement."""
    assert texts("SELECT 1;\u00a0".encode().decode("latin-1")) == ["SELECT", "1", ";"]


def test_any_text_stands_in_quotes_and_comments() -> None:
    """Inside of a string, a quoted name, a heredoc and a comment every character is text."""
    for quoted in ("'\u3000\u2019'", "`\u2018`", "$$\u2212'$$"):
        assert texts(f"a {quoted} /* \u3000' */ b -- \u2019") == ["a", quoted, "b"]


@given(st.text())
def test_tokens_never_overlap_and_never_fail(sql: str) -> None:
    """For any text, tokens are consecutive and have correct positions, up to what is refused."""
    end = 0
    seen = []
    with contextlib.suppress(UnknownText):
        for token in tokens(sql):
            seen.append(token)  # noqa: PERF402 — those before the refusal count
    for token in seen:
        assert end <= token.start < token.end <= len(sql)
        assert sql[token.start : token.end] == token.text
        end = token.end
