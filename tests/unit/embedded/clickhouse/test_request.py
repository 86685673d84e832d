"""Tests parsing a request from its parameters, headers and form."""

import base64

import pytest

from streams.embedded.clickhouse.errors import ClickHouseError
from streams.embedded.clickhouse.params import User
from streams.embedded.clickhouse.request import QueryRequest, parse_request

READER = User("reader", "secret", read_only=True)


def basic(text: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(text.encode()).decode()}


def test_what_is_not_of_the_interface_is_a_setting() -> None:
    """Settings and typed parameters go to the engine, the interface's own parameters do not."""
    given = {"query": "SELECT 1", "database": "d", "max_threads": "2", "param_x": "1", "session_id": "s"}
    call = parse_request("POST", given.items(), {})
    assert (call.query, call.database) == ("SELECT 1", "d")
    assert call.settings == {"max_threads": "2", "param_x": "1"}


def test_the_shape_of_an_external_table_is_no_setting() -> None:
    """`t_structure` and `t_format` describe the table that came with the query."""
    call = parse_request("POST", {"t_structure": "a Int8", "t_format": "CSV", "output_format": "x"}.items(), {})
    assert call.with_form({"t_types": "Int8"}, ["t"]).settings == {"output_format": "x"}


def test_a_setting_may_end_like_the_shape_of_a_table() -> None:
    """A name that belongs to no table sent with the query is a setting or a parameter of the query."""
    given = {"allow_suspicious_low_cardinality_types": "1", "param_my_types": "7", "param_my_format": "x"}
    assert parse_request("POST", given.items(), {}).settings == given
    assert parse_request("POST", given.items(), {}).with_form({}, ["t"]).settings == given


def test_the_url_goes_before_headers_and_forms() -> None:
    """Of two databases, formats or parameters, the URL's holds."""
    headers = {"x-clickhouse-database": "h", "x-clickhouse-format": "CSV"}
    assert parse_request("POST", (), headers).database == "h"
    assert parse_request("POST", (), headers).default_format == "CSV"
    call = parse_request("POST", {"database": "u", "param_a": "1"}.items(), headers)
    assert call.database == "u"
    assert call.with_form({"param_a": "2", "query": "q"}).parameters["param_a"] == "1"


@pytest.mark.parametrize(
    ("parameters", "headers", "who"),
    [
        ({}, {}, ("default", "")),
        ({"user": "a", "password": "b"}, {}, ("a", "b")),
        ({}, {"x-clickhouse-user": "a", "x-clickhouse-key": "b"}, ("a", "b")),
        ({}, basic("a:b:c"), ("a", "b:c")),
    ],
)
def test_there_are_three_ways_of_authentication(
    parameters: dict[str, str], headers: dict[str, str], who: tuple[str, str]
) -> None:
    """URL, headers and Basic are understood alike."""
    call = parse_request("POST", parameters.items(), headers)
    assert (call.user, call.password) == who


@pytest.mark.parametrize("headers", [{"authorization": "Basic !"}, {"authorization": "Bearer x"}])
def test_credentials_that_cannot_be_read_are_refused(headers: dict[str, str]) -> None:
    """Neither an invalid token nor another scheme authenticates as default."""
    with pytest.raises(ClickHouseError, match="516"):
        parse_request("POST", (), headers)


def test_two_ways_at_once_are_refused() -> None:
    """Headers beside a Basic token leave it open who is meant."""
    with pytest.raises(ClickHouseError, match="simultaneously"):
        parse_request("POST", (), {"x-clickhouse-user": "a"} | basic("a:b"))


def test_a_password_is_not_shown() -> None:
    """Neither a user nor a call prints its password."""
    assert "secret" not in repr(READER)
    assert "secret" not in repr(QueryRequest(password="secret"))


def test_numbers_of_the_interface_are_numbers() -> None:
    """A session cannot be kept for ever, nor for a time that is no number."""
    assert QueryRequest().session_timeout_s == 60
    for wrong, code in (("9999", 374), ("x", 72)):
        with pytest.raises(ClickHouseError) as refused:
            _ = QueryRequest({"session_timeout": wrong}).session_timeout_s
        assert refused.value.code == code


@pytest.mark.parametrize(
    ("parameters", "headers", "code"),
    [
        ({"default_format": "Null; SELECT 'x' INTO OUTFILE '/x'"}, {}, 73),
        ({"default_format": "TabSeparated\n"}, {}, 73),
        ({}, {"x-clickhouse-format": "Null INTO OUTFILE '/x'"}, 73),
        ({"max_threads = DEFAULT; SELECT 1 INTO OUTFILE '/x' --": "1"}, {}, 115),
        ({"a`b": "1"}, {}, 115),
        ({"query_id": "\r"}, {}, 36),
        ({"session_id": "a\nb"}, {}, 36),
        ({"database": "a\0"}, {}, 36),
        ({}, {"x-clickhouse-database": "a\n"}, 36),
        ({"user": "\x1b[2J"}, {}, 36),
        ({"query_id": "x" * 257}, {}, 36),
    ],
)
def test_every_name_is_checked_where_the_request_is_read(
    parameters: dict[str, str], headers: dict[str, str], code: int
) -> None:
    """Formats, settings, ids and databases, before anything uses them, with or without a session."""
    for more in ({}, {"session_id": "s"}):
        with pytest.raises(ClickHouseError) as refused:
            parse_request("POST", ({**more, **parameters}).items(), headers)
        assert refused.value.code == code


@pytest.mark.parametrize(
    ("fields", "table", "code"),
    [
        ({}, "t; DROP TABLE x", 36),
        ({}, "a`b", 36),
        ({"t_format": "CSV\nSETTINGS x = 1"}, "t", 73),
        ({"a b": "1"}, "t", 115),
        ({"default_format": "x y"}, "t", 73),
    ],
)
def test_the_names_of_a_form_are_checked_too(fields: dict[str, str], table: str, code: int) -> None:
    """Its fields are parameters of the request, its files are tables."""
    with pytest.raises(ClickHouseError) as refused:
        QueryRequest().with_form(fields, [table])
    assert refused.value.code == code
