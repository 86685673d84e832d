"""Parses a card's vital product data (PCI Local Bus Specification 3.0, appendix I): part and serial number. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

_LARGE = 0x80
_READ_ONLY = 0x90
_SOFTWARE_MANAGED = b"SMDL=SW_MNG"


@dataclass(frozen=True, slots=True)
class Vpd:
    """Vital product data of a card; missing fields are empty.

    `is_restricted` is NVIDIA's mark on functions of a switch fabric that its own manager reads: reading their
    counters only floods the kernel log with ACCESS_REG failures (NVIDIA Fabric Manager guide; gpud issue 1164).
    """

    part_number: str = ""
    serial: str = ""
    is_restricted: bool = False


def vpd(data: bytes) -> Vpd:
    """Parse the valid part of the data; the rest is ignored."""
    fields = {key: value for tag, body in _resources(data) if tag == _READ_ONLY for key, value in _fields(body)}
    return Vpd(_clean_text(fields.get(b"PN", b"")), _clean_text(fields.get(b"SN", b"")), _SOFTWARE_MANAGED in data)


def _resources(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 3 <= len(data) and data[at] & _LARGE:
        size = int.from_bytes(data[at + 1 : at + 3], "little")
        yield data[at], data[at + 3 : at + 3 + size]
        at += 3 + size


def _fields(body: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 0
    while at + 3 <= len(body):
        size = body[at + 2]
        yield body[at : at + 2], body[at + 3 : at + 3 + size]
        at += 3 + size


def _clean_text(value: bytes) -> str:
    text = value.decode("ascii", "replace").strip(" \0\n")
    return text if text.isprintable() else ""
