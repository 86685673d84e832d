"""The tokenizer separates SQL from text that only looks like it."""

from hypothesis import given
from hypothesis import strategies as st

from streams.embedded.clickhouse.tokens import tokens


def texts(sql: str) -> list[str]:
    return [token.text for token in tokens(sql)]


def test_comments_are_no_tokens() -> None:
    """All of ClickHouse's comments are passed over, to the end of their line or to their closing sign."""
    assert texts("a -- x ; y\nb /* ; */ c # d\ne #! f\ng // h\ni /* open") == ["a", "b", "c", "e", "g", "i"]


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


def test_blanks_of_utf8_read_as_latin1_are_blanks() -> None:
    """A no-break space after a semicolon, and a byte order mark in front, are no second statement."""
    raw = "\ufeffSELECT 1;\u00a0".encode()
    assert texts(raw.decode("latin-1")) == ["SELECT", "1", ";"]


def test_a_quote_that_never_ends_ends_with_the_text() -> None:
    """Unterminated text gives tokens too, because the engine reports its error."""
    assert texts("SELECT 'abc") == ["SELECT", "'", "abc"]


@given(st.text())
def test_tokens_never_overlap_and_never_fail(sql: str) -> None:
    """For any text, tokens are consecutive and have correct positions."""
    end = 0
    for token in tokens(sql):
        assert end <= token.start < token.end <= len(sql)
        assert sql[token.start : token.end] == token.text
        end = token.end
