"""The read-only fields of a card's vital product data (PCI Local Bus Specification 3.0, appendix I). Pure."""

from collections.abc import Iterator

_LARGE = 0x80
_READ_ONLY = 0x90


def fields(data: bytes) -> dict[str, str]:
    """Words by their two letters (`PN`, `SN`), as far as it makes sense."""
    found = {}
    for tag, body in _resources(data):
        at = 0
        while tag == _READ_ONLY and at + 3 <= len(body):
            size = body[at + 2]
            key, value = body[at : at + 2], body[at + 3 : at + 3 + size].decode("ascii", "replace").strip(" \0\n")
            if key.isalnum() and value.isprintable():
                found[key.decode("ascii")] = value
            at += 3 + size
    return found


def _resources(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 3 <= len(data) and data[at] & _LARGE:
        size = int.from_bytes(data[at + 1 : at + 3], "little")
        yield data[at], data[at + 3 : at + 3 + size]
        at += 3 + size
