"""Sends requests to the kernel over netlink, and parses the attributes of its answers.

A plain socket: pyroute2 0.9.7 has neither the ports of RDMA nor the statistics of FEC.
"""

import itertools
import os
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from typing import Any

from streams.wire.errors import Reject

RDMA, GENERIC = 20, 16
_HEADER = struct.Struct("=IHHII")
"""`struct nlmsghdr`: length, type, flags, sequence, port."""
_ATTRIBUTE = struct.Struct("=HH")
_REQUEST, _ACK, _DUMP = 0x1, 0x4, 0x300
_ERROR, _DONE = 2, 3
_FIRST_OF_A_FAMILY = 16
"""Smaller types are netlink's own."""
_KIND = 0x3FFF
"""Without the flags of a nested attribute and of network byte order."""
_MOST_BYTES = 1 << 18
_MOST_MESSAGES = 10_000


def _aligned(size: int) -> int:
    return (size + 3) & ~3


def attribute(kind: int, data: bytes) -> bytes:
    """Return one attribute."""
    size = _ATTRIBUTE.size + len(data)
    return _ATTRIBUTE.pack(size, kind) + data + bytes(_aligned(size) - size)


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the kind and content of each attribute, of which some repeat; raises Reject."""
    at = 0
    while at < len(data):
        size, kind = _ATTRIBUTE.unpack_from(data, at) if at + _ATTRIBUTE.size <= len(data) else (0, 0)
        if size < _ATTRIBUTE.size or at + size > len(data):
            raise Reject(f"an attribute of {size} bytes at {at} of {len(data)}")
        yield kind & _KIND, data[at + _ATTRIBUTE.size : at + size]
        at += _aligned(size)


def text(data: bytes) -> str:
    """Return a string attribute without its NUL."""
    return data.split(b"\0", 1)[0].decode("utf-8", "replace")


def number(data: bytes) -> int:
    """Return an unsigned integer of any size, in the host's byte order."""
    return int.from_bytes(data, sys.byteorder)


def numbers(data: bytes) -> list[int]:
    """Return an array of unsigned 64-bit integers."""
    return [number(data[at : at + 8]) for at in range(0, len(data) - 7, 8)]


class Netlink:
    """One socket of a family, for one thread. Raises OSError if the kernel lacks the family.

    A request blocks for at most `timeout_s` after each answer, but a driver may hold the kernel's side for longer.
    """

    def __init__(self, family: int, timeout_s: float, opened: Callable[..., Any] = socket.socket) -> None:
        self._socket = opened(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, family)
        self._socket.settimeout(timeout_s)
        self._sequence = itertools.count(1)

    def close(self) -> None:
        """Close it."""
        self._socket.close()

    def request(self, kind: int, body: bytes, *, is_dump: bool = False) -> list[bytes]:
        """Return the contents of the answers; raises OSError with the kernel's errno, and Reject."""
        sequence = next(self._sequence)
        flags = _REQUEST | (_DUMP if is_dump else _ACK)
        self._socket.sendto(_HEADER.pack(_HEADER.size + len(body), kind, flags, sequence, 0) + body, (0, 0))
        found: list[bytes] = []
        for _ in range(_MOST_MESSAGES):
            data, (sender, _) = self._socket.recvfrom(_MOST_BYTES)
            if sender == 0 and self._is_complete(data, sequence, found):  # others may write to this socket
                return found
        raise Reject(f"more than {_MOST_MESSAGES} messages in answer to one request")

    def _is_complete(self, data: bytes, sequence: int, found: list[bytes]) -> bool:
        at = 0
        while at + _HEADER.size <= len(data):
            size, kind, _, of, _ = _HEADER.unpack_from(data, at)
            if size < _HEADER.size or at + size > len(data):
                raise Reject(f"a message of {size} bytes at {at} of {len(data)}")
            body = data[at + _HEADER.size : at + size]
            at += _aligned(size)
            if of != sequence:  # an answer to a request that timed out
                continue
            if kind in {_ERROR, _DONE}:
                code = -int.from_bytes(body[:4], sys.byteorder, signed=True)
                if code > 0:
                    raise OSError(code, os.strerror(code))
                return True
            if kind >= _FIRST_OF_A_FAMILY:
                found.append(body)
        return False
