"""Tests that errors have ClickHouse's code, message and HTTP status."""

import pytest

from streams.embedded.clickhouse.errors import ClickHouseError, format_error, from_engine
from streams.embedded.clickhouse.response import content_type


def test_the_version_stands_at_the_end_once() -> None:
    """Clients cut the message at it."""
    error = from_engine("Code: 1. DB::Exception: a. (X) (version 26.9.2.1)")
    assert format_error(error, "26.9.2.1") == "Code: 1. DB::Exception: a. (X) (version 26.9.2.1 (official build))\n"
    own = ClickHouseError(62, "SYNTAX_ERROR", "Empty query")
    assert format_error(own, "1").rstrip().endswith("Empty query. (SYNTAX_ERROR) (version 1 (official build))")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("JSONEachRow", "application/x-ndjson; charset=UTF-8"),
        ("JSON", "application/json; charset=UTF-8"),
        ("CSVWithNames", "text/csv; charset=UTF-8; header=present"),
        ("TabSeparated", "text/tab-separated-values; charset=UTF-8; header=absent"),
        ("Native", "application/octet-stream"),
        ("Pretty", "text/plain; charset=UTF-8"),
    ],
)
def test_a_format_has_its_content_type(name: str, kind: str) -> None:
    """Browsers and curl's users see what they get."""
    assert content_type(name) == kind
