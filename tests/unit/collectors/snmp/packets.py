"""SNMP responses as pysnmp itself would write them, and what becomes of them on a bad day."""

import random
from collections.abc import Iterator
from typing import Any

from pyasn1.codec.ber import encoder
from pysnmp.proto import rfc1902
from pysnmp.proto.api import v2c
from pysnmp.proto.mpmod.rfc3412 import ScopedPDU

VALUES: list[Any] = [
    rfc1902.Integer32(-(2**31)), rfc1902.Integer32(0), rfc1902.Integer32(2**31 - 1), rfc1902.Counter32(2**32 - 1),
    rfc1902.Gauge32(128), rfc1902.TimeTicks(1_692_177_370), rfc1902.Counter64(2**64 - 1), rfc1902.Counter64(0),
    rfc1902.OctetString(b""), rfc1902.OctetString(b"x" * 300), rfc1902.IpAddress("127.0.0.1"),
    rfc1902.ObjectIdentifier((1, 3, 6, 1, 4, 1, 30065)), rfc1902.Opaque(b"\x9f\x78\x04\x41\x20\x00\x00"),
]  # fmt: skip


def response(varbinds: list[tuple[tuple[int, ...], Any]], request: int = 7, community: str = "public") -> bytes:
    """A whole v2c message, by pyasn1."""
    pdu = v2c.GetResponsePDU()
    v2c.apiPDU.set_defaults(pdu)
    v2c.apiPDU.set_request_id(pdu, request)
    v2c.apiPDU.set_varbinds(pdu, varbinds)
    message = v2c.Message()
    v2c.apiMessage.set_defaults(message)
    v2c.apiMessage.set_community(message, community)
    v2c.apiMessage.set_pdu(message, pdu)
    return bytes(encoder.encode(message))


def scoped(varbinds: list[tuple[tuple[int, ...], Any]], request: int = 7) -> bytes:
    """What is inside of a v3 message once it is decrypted, by pyasn1."""
    pdu = v2c.GetResponsePDU()
    v2c.apiPDU.set_defaults(pdu)
    v2c.apiPDU.set_request_id(pdu, request)
    v2c.apiPDU.set_varbinds(pdu, varbinds)
    whole = ScopedPDU()
    whole.setComponentByPosition(0, b"\x80\x00\x00\x00\x01device")
    whole.setComponentByPosition(1, b"")
    whole.setComponentByPosition(2).getComponentByPosition(2).setComponentByType(pdu.tagSet, pdu)
    return bytes(encoder.encode(whole))


def trap(community: str = "public") -> bytes:
    """A linkDown, by pyasn1."""
    pdu = v2c.TrapPDU()
    v2c.apiTrapPDU.set_defaults(pdu)
    v2c.apiTrapPDU.set_varbinds(
        pdu,
        [
            ((1, 3, 6, 1, 2, 1, 1, 3, 0), rfc1902.TimeTicks(7)),
            ((1, 3, 6, 1, 6, 3, 1, 1, 4, 1, 0), rfc1902.ObjectIdentifier((1, 3, 6, 1, 6, 3, 1, 1, 5, 3))),
            ((1, 3, 6, 1, 2, 1, 2, 2, 1, 1, 7), rfc1902.Integer32(7)),
        ],
    )
    message = v2c.Message()
    v2c.apiMessage.set_defaults(message)
    v2c.apiMessage.set_community(message, community)
    v2c.apiMessage.set_pdu(message, pdu)
    return bytes(encoder.encode(message))


def table(rows: int = 20) -> bytes:
    """A response of as many rows."""
    return response(cells(rows))


def cells(rows: int = 20) -> list[tuple[tuple[int, ...], Any]]:
    """A column of values of every kind."""
    return [((1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 6, n), VALUES[n % len(VALUES)]) for n in range(1, rows + 1)]


def damaged(whole: bytes, count: int, seed: int) -> Iterator[bytes]:
    """The message with bytes changed, cut off, put in, repeated; and noise."""
    chance = random.Random(seed)
    for n in range(count):
        data = bytearray(whole)
        match n % 6:
            case 0:
                for _ in range(chance.randint(1, 4)):
                    data[chance.randrange(len(data))] = chance.randrange(256)
            case 1:
                del data[chance.randrange(len(data)) :]
            case 2:
                at = chance.randrange(len(data))
                data[at:at] = chance.randbytes(chance.randint(1, 9))
            case 3:
                at = chance.randrange(2, len(data))
                data[at] = chance.choice((0x80, 0x84, 0x88, 0xFF, 0x30, 0xA2, 0xA8))
            case 4:
                data = bytearray(chance.randbytes(chance.randint(0, 1500)))
            case 5:
                at = chance.randrange(len(data))
                data += data[at:] * chance.randint(1, 3)
        yield bytes(data)
