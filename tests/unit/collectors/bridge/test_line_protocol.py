"""InfluxDB's line protocol, as Telegraf writes it."""

import pytest

from collectors.bridge import line_protocol
from collectors.bridge.points import Point
from streams.wire.errors import Reject


def points(text: str) -> tuple[list[Point], list[Reject]]:
    refused: list[Reject] = []
    return list(line_protocol.points(text, line_protocol.Heads(), refused)), refused


def test_a_plain_line() -> None:
    """Measurement, tags, typed fields and the time in ns."""
    (point,), refused = points("ifcounters,name=Eth1,source=leaf1 in=7i,out=8u,ratio=1.5,up=true 1700000000000000001")
    assert (point.name, point.tags) == ("ifcounters", {"name": "Eth1", "source": "leaf1"})
    assert point.fields == [("in", 7), ("out", 8), ("ratio", 1.5), ("up", True)]
    assert point.at_ns == 1_700_000_000_000_000_001
    assert not refused


def test_escapes_quotes_and_ends_of_lines_in_a_text() -> None:
    """Names may hold commas, spaces and equals signs behind a backslash; a text may hold anything in its quotes."""
    text = 'a\\ b,t\\,x=v\\=1\\ 2 f\\ 1="the \\"hi\\", a=b\\\\",g="two\nlines",h=1i 1700000000000000000\n'
    (point,), refused = points(text)
    assert (point.name, point.tags) == ("a b", {"t,x": "v=1 2"})
    assert point.fields == [("f 1", 'the "hi", a=b\\'), ("g", "two\nlines"), ("h", 1)]
    assert not refused


def test_a_line_without_a_time_and_one_without_tags() -> None:
    """Both are allowed: who reads has a time of its own."""
    (first, second), _ = points("a x=1\n\n# a comment\nb,t=1 y=2i\r\n")
    assert (first.at_ns, first.tags, first.fields) == (0, {}, [("x", 1.0)])
    assert (second.name, second.fields) == ("b", [("y", 2)])


@pytest.mark.parametrize(
    "text",
    ["a", "a ", "a b", "a x=", "a =1", ",t=1 x=1", "a,t x=1", "a,=v x=1", "a x=1 soon", "a x=1i2", 'a x="open',
     "a x=0x10 1", "a x=1_0", "a,t=b=c x=1", "a  x", "a x=1,", "a x=nope 1700000000000000000"],
)  # fmt: skip
def test_what_is_no_line_is_refused_and_takes_no_other_with_it(text: str) -> None:
    """The line before it is read as it would be alone."""
    found, refused = points("good x=1\n" + text)
    assert [point.name for point in found] == ["good"]
    assert len(refused) == 1
    assert str(refused[0]).startswith("line 2: ")


def test_what_is_nothing_is_left_out_from_then_on_and_counted() -> None:
    """In every series alike: a driver has two thousand statistics of which forty are ours."""
    heads = line_protocol.Heads()
    (first,) = line_protocol.points("ethtool,host=a,interface=e1 x=1i,y=2i", heads, [])
    assert first.skip is not None
    first.skip.add("x")
    (second,) = line_protocol.points("ethtool,host=b,interface=e1 x=1i,y=3i", heads, [])
    assert (second.fields, second.skipped) == ([("y", 3)], 1)
    (other,) = line_protocol.points("ethtool,host=b,interface=e1,path=/a x=1i", heads, [])
    assert other.fields == [("x", 1)]
