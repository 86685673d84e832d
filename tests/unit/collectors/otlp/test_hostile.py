"""Whatever a sender sends is read or refused by name, and the next request is read."""

import asyncio
import contextlib
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.otlp.points import attributes, from_json, from_protobuf, in_order, resource, split
from streams.fabric.catalogue import Metric
from streams.wire.errors import Reject
from tests.fixtures.otlp_receiver import sending
from tests.fixtures.otlp_requests import Given, message

OUT, SWP1 = "nvswitch_interface_if_out_octets", {"interface": "swp1"}
GOOD = message({OUT: [Given(1.5, SWP1), Given(2, {"interface": "swp2"}, start_ns=5)]}).SerializeToString()
NAMES = ("resource", "attributes", "scopeMetrics", "metrics", "gauge", "sum", "histogram", "dataPoints",
         "key", "value", "stringValue", "intValue", "timeUnixNano", "asInt", "asDouble", "name")  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=30,
)


@pytest.mark.parametrize("read", [split, attributes, resource, from_protobuf, from_json])
@given(data=st.binary(max_size=80))
def test_bytes_of_any_content_are_read_or_rejected(read: Any, data: bytes) -> None:
    try:
        read(data)
    except Reject:
        return


@given(document=JSON)
def test_json_of_any_form_is_read_or_rejected(document: Any) -> None:
    try:
        body = orjson.dumps({"resourceMetrics": document})
    except TypeError:  # an integer that JSON's encoder has no form for
        return
    try:
        from_json(body)
    except Reject:
        return


TEXTS = st.dictionaries(st.text(max_size=9), st.text(max_size=9) | st.text(min_size=130, max_size=150), max_size=4)


@given(texts=TEXTS, flags=st.integers(0, 3), data=st.data())
def test_attributes_in_any_order_are_one_series(texts: dict[str, str], flags: int, data: st.DataObject) -> None:
    """They are not if one is cut."""
    shuffled = dict(data.draw(st.permutations(list(texts.items()))))
    rest, other = (
        split(Given(1, some, 1, flags=flags).message().SerializeToString()).rest for some in (texts, shuffled)
    )
    assert in_order(rest) == in_order(other) == in_order(in_order(rest))
    assert attributes(in_order(rest))[0] == attributes(rest)[0]
    if texts and not flags:
        assert in_order(rest[:-1]) == rest[:-1]


@given(at=st.integers(0, len(GOOD) - 1), byte=st.integers(0, 255), cut=st.integers(0, 30))
def test_a_damaged_request_harms_no_other(at: int, byte: int, cut: int) -> None:
    """One byte is replaced, and some are missing."""
    damaged = GOOD[:at] + bytes([byte]) + GOOD[at + 1 + cut :]

    async def run() -> None:
        async with sending() as now:
            with contextlib.suppress(Reject):
                await now.send_bytes(damaged)
            assert (await now.send_bytes(GOOD)).rejected == 0
            assert {row for row, _, _, _ in now.values()} >= {"swp1", "swp2"}

    asyncio.run(run())


@pytest.mark.parametrize(
    "wrong", [{"asInt": "x"}, {"asInt": "18446744073709551615"}, {"asDouble": "1,5"}, {"attributes": 1}, 7]
)
def test_an_unreadable_point_of_json_loses_no_other(wrong: Any) -> None:
    """It is refused as one of protobuf is; numbers may be text (the JSON form of protobuf)."""
    swp1 = [{"key": "interface", "value": {"stringValue": "swp1"}}]
    good = {"timeUnixNano": "1764331200000000000", "asDouble": "15e1", "attributes": swp1}
    bad = {**good, "asDouble": None, **wrong} if isinstance(wrong, dict) else wrong
    metric = {"name": OUT, "gauge": {"dataPoints": [bad, good]}}
    body = orjson.dumps({"resourceMetrics": [{"scopeMetrics": [{"metrics": [metric]}]}]})

    async def send() -> None:
        async with sending() as now:
            answer = await now.send_bytes(from_json(body).SerializeToString())
            assert (answer.rejected, bool(answer.message)) == (1, True)
            assert now.of(Metric.TX_BYTES) == [150]

    asyncio.run(send())
