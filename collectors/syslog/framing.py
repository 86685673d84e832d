"""Divides a TCP stream into lines: with a count of octets or ended by LF (RFC 6587). Pure, and bounded.

The first byte of a connection decides: a digit begins a count, `<` a line.
"""

from collections.abc import Iterator

from collectors.host.lines import MOST_BYTES
from streams.wire.errors import Reject

_LONGEST_COUNT = 5


class Framing:
    """The state of one connection."""

    def __init__(self) -> None:
        self._data = b""
        self._is_counted: bool | None = None
        self._skips = False
        """True inside a line beyond the maximum size."""
        self.refused = 0
        """Lines beyond the maximum size."""

    @property
    def is_incomplete(self) -> bool:
        """True if a line has begun, or none was received."""
        return bool(self._data) or self._skips or self._is_counted is None

    def add(self, data: bytes) -> Iterator[bytes]:
        """Yield the complete lines; raises Reject for a stream that is no syslog."""
        self._data += data
        if self._is_counted is None and self._data:
            first = self._data[:1]
            if first not in b"123456789<":
                raise Reject(f"a stream that begins with {first!r}")
            self._is_counted = first != b"<"
        yield from self._counted() if self._is_counted else self._ended()

    def _counted(self) -> Iterator[bytes]:
        start, data = 0, self._data
        while start < len(data):
            space = data.find(b" ", start, start + _LONGEST_COUNT + 1)
            digits = data[start : space if space >= 0 else start + _LONGEST_COUNT + 1]
            if not digits.isdigit() or digits[:1] == b"0" or len(digits) > _LONGEST_COUNT:
                raise Reject(f"no count of octets: {digits!r}")
            if space < 0:
                break
            if int(digits) > MOST_BYTES:
                raise Reject(f"a line of {int(digits)} bytes")
            end = space + 1 + int(digits)
            if end > len(data):
                break
            yield data[space + 1 : end]
            start = end
        self._data = data[start:]

    def _ended(self) -> Iterator[bytes]:
        *lines, rest = self._data.split(b"\n")
        self._data = rest
        for line in lines:
            if self._skips:
                self._skips = False
            elif len(line) > MOST_BYTES:
                self.refused += 1
            elif line.strip(b"\r\0 "):
                yield line
        if len(rest) > MOST_BYTES:
            self.refused += not self._skips
            self._skips, self._data = True, b""
