"""Requests are encoded as by pyasn1; sliced responses are what pyasn1 would encode without varbinds."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyasn1.codec.ber import encoder
from pysnmp.proto.api import v2c

from collectors.snmp import ber
from collectors.snmp.messages import GET, GETBULK, encoded_pdu, request, slice_scoped
from tests.fixtures.snmp_packets import VALUES, cells, scoped

OIDS = st.lists(st.lists(st.integers(0, 2**32 - 1), max_size=20).map(lambda tail: (1, 3, *tail)), max_size=12)
NUMBERS = st.integers(0, 2**31 - 1)


def by_pyasn1(pdu: Any, number: int, oids: list[tuple[int, ...]]) -> Any:
    (v2c.apiBulkPDU if isinstance(pdu, v2c.GetBulkRequestPDU) else v2c.apiPDU).set_defaults(pdu)
    v2c.apiPDU.set_request_id(pdu, number)
    v2c.apiPDU.set_varbinds(pdu, [(oid, v2c.null) for oid in oids])
    return pdu


@given(NUMBERS, OIDS)
def test_a_get_is_encoded_as_by_pyasn1(number: int, oids: list[tuple[int, ...]]) -> None:
    """For v2c, and within a message that pyasn1 writes for v3."""
    expected = bytes(encoder.encode(by_pyasn1(v2c.GetRequestPDU(), number, oids)))
    asked = request(GET, number, map(ber.oid_bytes, oids))
    assert ber.encoded(asked.tag, asked.content(number)) == expected
    assert bytes(encoder.encode(encoded_pdu(asked))) == expected


@given(NUMBERS, NUMBERS, OIDS)
def test_a_getbulk_is_encoded_as_by_pyasn1(number: int, repetitions: int, oids: list[tuple[int, ...]]) -> None:
    """Without non-repeaters, and with the given repetitions."""
    pdu = by_pyasn1(v2c.GetBulkRequestPDU(), number, oids)
    v2c.apiBulkPDU.set_non_repeaters(pdu, 0)
    v2c.apiBulkPDU.set_max_repetitions(pdu, repetitions)
    expected = bytes(encoder.encode(pdu))
    asked = request(GETBULK, number, map(ber.oid_bytes, oids), repetitions)
    assert ber.encoded(asked.tag, asked.content(number)) == expected
    assert bytes(encoder.encode(encoded_pdu(asked))) == expected


@pytest.mark.parametrize("tag", [GET, GETBULK])
def test_engine_discovery_uses_pysnmps_own_pdu(tag: int) -> None:
    """It is cloned, empty, from the given one, and then filled."""
    empty = encoded_pdu(request(tag, 7, [b"\x2b"])).clone()
    v2c.apiPDU.set_defaults(empty)
    assert bytes(encoder.encode(empty)).endswith(b"\x30\x00")


def test_a_sliced_scoped_pdu_is_one_that_pyasn1_would_encode() -> None:
    """The rest has the same request and an empty list; the values were cut out."""
    cut = slice_scoped(scoped(cells()), 0, len(scoped(cells())))
    assert cut is not None and cut.rest == scoped([])
    assert cut.answer.number == 7 and len(cut.answer.varbinds()) == len(cells())
    assert {type(value) for _, _, value in cut.answer.varbinds()} == {int, bytes} and len(VALUES) < len(cells())
