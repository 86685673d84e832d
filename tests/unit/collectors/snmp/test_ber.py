"""Varbinds are decoded as by pyasn1; invalid encodings are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pysnmp.proto import rfc1902

from collectors.snmp import ber
from collectors.snmp.messages import answer_v2c
from streams.wire.errors import Reject
from tests.fixtures.snmp_packets import VALUES, response, table

NAME = (1, 3, 6, 1, 2, 1, 2, 2, 1, 10)


def plain(value: object) -> ber.Value:
    """Convert a value of pysnmp's."""
    if isinstance(value, rfc1902.ObjectIdentifier):
        return ber.oid_bytes(value.asTuple())
    octets = getattr(value, "asOctets", None)
    return bytes(octets()) if octets else int(value)  # type: ignore[call-overload]


def test_every_type_of_value_is_decoded_as_by_pyasn1() -> None:
    """Numbers are numbers, signed if their type is; all other values are bytes; OIDs round-trip."""
    _, answer = answer_v2c(response([((*NAME, n), value) for n, value in enumerate(VALUES)]))
    found = answer.varbinds()
    assert [value for _, _, value in found] == [plain(value) for value in VALUES]
    assert [ber.oid_numbers(oid) for oid, _, _ in found] == [(*NAME, n) for n in range(len(VALUES))]


@given(st.lists(st.integers(0, 2**32 - 1), max_size=20))
def test_oids_round_trip(tail: list[int]) -> None:
    """Any OID is the same after encoding and decoding."""
    oid = (1, 3, *tail)
    assert ber.oid_numbers(ber.oid_bytes(oid)) == oid
    assert ber.sub_identifiers(ber.oid_bytes(oid)[1:]) == tuple(tail)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\x30\x80\x06\x01\x2b\x05\x00", "length field of invalid length"),
        (b"\x30\x05\x06\x01\x2b\x05\x01", "value length differs"),
        (b"\x30\x04\x06\x00\x05\x00", "OID of invalid length"),
        (b"\x30\x05\x06\x01\x2b\x41\x00", "number of invalid length"),
        (b"\x30\x0f\x06\x01\x2b\x46\x0a" + b"\xff" * 10, "number of invalid length"),
        (b"\x30\x7f\x06\x01\x2b\x05\x00", "longer than its list"),
        (b"\x31\x05\x06\x01\x2b\x05\x00", "not a varbind"),
        (b"\x30\x84\xff\xff\xff\xff\x06\x01", "longer than its list"),
        (b"\x30", "ends within"),
    ],
)
def test_invalid_encodings_are_refused_by_name(content: bytes, why: str) -> None:
    """Indefinite, empty, overlong and contradictory lengths."""
    with pytest.raises(Reject, match=why):
        ber.varbinds(content, 0, len(content))


def test_bytes_after_the_message_are_refused() -> None:
    """Only a complete message is accepted."""
    with pytest.raises(Reject, match="after the message"):
        answer_v2c(table() + b"\x00")
