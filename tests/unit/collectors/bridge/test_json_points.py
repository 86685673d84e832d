"""The peers' JSON."""

import orjson
import pytest

from collectors.bridge import json_points
from collectors.bridge.points import Point, fields_of
from streams.wire.errors import Reject


def points(value: bytes) -> tuple[list[Point], list[Reject]]:
    refused: list[Reject] = []
    read = json_points.parse_document(value)
    return list(json_points.points(read, refused, is_gnmic=not json_points.is_telegraf(read))), refused


METRIC = {"name": "docker", "tags": {"host": "raynor"}, "fields": {"f": 30, "s": "x"}, "timestamp": 1458229140}


def test_telegraf_one_metric_and_a_batch() -> None:
    """Both shapes of its serializer; the time is in seconds by default."""
    for value in (METRIC, {"metrics": [METRIC, METRIC]}):
        found, refused = points(orjson.dumps(value))
        assert not refused
        assert {(p.name, p.tags["host"], tuple(p.fields), p.at_ns) for p in found} == {
            ("docker", "raynor", (("f", 30), ("s", "x")), 1_458_229_140 * 10**9)
        }


def test_gnmic_a_list_and_one_event() -> None:
    """Its kafka output writes a list for each notification, or one event per record if configured to split them."""
    event = {"name": "s", "timestamp": 1_700_000_000_000_000_001, "tags": {"source": "leaf1"}, "values": {"/a/b": 1}}
    for value in ([event], event):
        (point,), refused = points(orjson.dumps(value))
        assert (point.fields, point.at_ns, refused) == ([("/a/b", 1)], 1_700_000_000_000_000_001, [])


def test_deletes_and_empty_updates_say_nothing_and_are_no_refusal() -> None:
    """Values that are empty are left out by gnmic."""
    assert points(b'[{"name":"s","timestamp":1700000000000000000,"deletes":["/a/b"]},{"name":"s","timestamp":17}]') == (
        [],
        [],
    )


def test_nested_values_are_flattened() -> None:
    """Members behind a slash, items of a list behind a dot: as gnmic flattens them itself."""
    (point,), _ = points(b'{"fields":{"a":{"b":[1,{"c":"x"}]}},"name":"n","tags":{},"timestamp":1700000000}')
    assert point.fields == [("a/b.0", 1), ("a/b.1/c", "x")]


def test_depth_without_end_is_cut_off() -> None:
    """A hostile record costs what it weighs and no more."""
    (point,), refused = points(b'{"name":"n","fields":{"a":' + b'{"b":' * 500 + b"1" + b"}" * 501 + b"}")
    assert (point.fields, refused) == ([], [])


def test_tags_that_are_no_text_become_text() -> None:
    """Whatever they are, equal series stay equal."""
    (point,), _ = points(b'{"name":"n","fields":{"a":1},"tags":{"t":1,"u":[1]},"timestamp":1700000000}')
    assert point.tags == {"t": "1", "u": "[1]"}


@pytest.mark.parametrize(
    "value",
    [b"[1]", b'["x"]', b"{}", b'{"fields":1}', b'{"metrics":[7]}', b'{"values":[]}', b"[[]]", b"null", b"7",
     b'{"fields":{},"tags":7}', b'{"fields":{},"name":7}', b'{"fields":{"a":1},"timestamp":"soon"}'],
)  # fmt: skip
def test_what_is_neither_is_refused(value: bytes) -> None:
    """It is JSON, and nothing that a peer writes."""
    found, refused = points(value)
    assert (found, len(refused)) == ([], 1)


@pytest.mark.parametrize("value", [b"{", b"", b"\xff", b'{"a":NaN}', b"[1,]"])
def test_what_is_no_json_is_refused(value: bytes) -> None:
    with pytest.raises(Reject, match="not JSON"):
        json_points.parse_document(value)


def test_a_list_without_end_is_cut_off() -> None:
    """The fields of an item are bounded, however they are nested."""
    wide = {"values": {"/a": list(range(100_000)), "/b": {"c": list(range(100_000))}}}
    assert [len(fields_of(wide["values"])), len(fields_of({"/d": wide}))] == [65_536, 65_536]
