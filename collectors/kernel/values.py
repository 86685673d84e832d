"""Parses the texts of sysfs, procfs and `ethtool -S`, and a card's vital product data. Pure.

An absent value is None; an invalid one raises Reject.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from streams.wire.errors import Reject

_UINT64 = 2**64
_RATE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?) Gb/sec\b", re.ASCII)
_STATE = re.compile(r"(\d{1,2}):", re.ASCII)
_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)
_NUMBER = re.compile(r"\d{1,20}", re.ASCII)
_SECONDS = re.compile(r"\d{1,10}", re.ASCII)
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5,31}", re.ASCII)
_GUID = re.compile(r"[0-9a-f]{4}(:[0-9a-f]{4}){3}", re.ASCII)
_IFF_UP = 0x1
_PHYS_DISABLED = 3
_ACTIVE = {4, 5}
"""ACTIVE and ACTIVE_DEFER of the InfiniBand port states; a link in INIT or ARMED has signal but carries no traffic."""
_NO_SPEED = {0, -1, 2**32 - 1}
"""Speeds that drivers report for a port that is down, or virtual."""


def counter(text: str) -> int | None:
    """Parse a counter; `N/A (no PMA)` and similar are absent, and so is 2^64-1, the wire's mark. Raises Reject."""
    if _NUMBER.fullmatch(text) and (value := int(text)) < _UINT64:
        return value if value < _UINT64 - 1 else None
    if text.startswith("N/A"):
        return None
    raise Reject(f"no counter: {text[:40]!r}")


def times(value: int | None, factor: int) -> int | None:
    """Convert a counter to another unit; the result wraps at 64 bits."""
    if value is None or factor == 1:
        return value
    return _wrapped(value * factor)


def total(parts: Sequence[int | None]) -> int | None:
    """Return the sum of counters, which wraps at 64 bits; None if one is absent."""
    known = [part for part in parts if part is not None]
    return _wrapped(sum(known)) if len(known) == len(parts) else None


def _wrapped(value: int) -> int | None:
    return None if value % _UINT64 == _UINT64 - 1 else value % _UINT64


def rate_bps(text: str) -> float | None:
    """Parse `100 Gb/sec (4X EDR)`; raises Reject."""
    if not (match := _RATE.match(text)):
        raise Reject(f"no rate: {text[:40]!r}")
    return float(match[1]) * 1e9 or None


def speed_bps(text: str) -> float | None:
    """Parse a netdev's speed in Mb/s; raises Reject."""
    if not _NUMBER.fullmatch(text.removeprefix("-")):
        raise Reject(f"no speed: {text[:40]!r}")
    speed = int(text)
    if speed in _NO_SPEED:
        return None
    if speed < 0:
        raise Reject(f"no speed: {text[:40]!r}")
    return speed * 1e6


def state(text: str) -> int:
    """Parse the number before the colon in `4: ACTIVE`; raises Reject."""
    if not (match := _STATE.match(text)):
        raise Reject(f"no state: {text[:40]!r}")
    return int(match[1])


def port_is_up(text: str) -> float:
    """Parse an InfiniBand port's `state`; raises Reject."""
    return float(state(text) in _ACTIVE)


def port_is_enabled(text: str) -> float:
    """Parse an InfiniBand port's `phys_state`; raises Reject."""
    return float(state(text) != _PHYS_DISABLED)


def operstate_is_up(text: str) -> float | None:
    """Parse the kernel's names of RFC 2863's states; `unknown` is absent, and `dormant`, whose carrier decides.

    A dormant netdev has a carrier and waits, as a standby member of a LAG does. Raises Reject.
    """
    match text:
        case "up":
            return 1.0
        case "down" | "lowerlayerdown" | "notpresent" | "testing":
            return 0.0
        case "unknown" | "dormant":
            return None
    raise Reject(f"no operstate: {text[:40]!r}")


def carrier(text: str) -> float:
    """Parse a netdev's carrier; raises Reject."""
    if text not in {"0", "1"}:
        raise Reject(f"no carrier: {text[:40]!r}")
    return float(text)


def is_enabled(flags: str) -> float:
    """Parse IFF_UP of a netdev's flags; raises Reject."""
    try:
        return float(bool(int(flags, 16) & _IFF_UP))
    except ValueError as error:
        raise Reject(f"no flags: {flags[:40]!r}") from error


def guid(text: str | None) -> str:
    """Parse a GUID of sysfs; empty if there is none, as on an unconfigured virtual function."""
    lower = (text or "").lower()
    return lower if _GUID.fullmatch(lower) and lower.strip("0:") else ""


def port_guid(gid: str | None) -> str:
    """Return the GUID in the lower half of a port's first GID."""
    return guid(":".join((gid or "").split(":")[4:]))


def mac(text: str | None) -> str:
    """Parse a hardware address; empty if there is none."""
    lower = (text or "").lower()
    return lower if _MAC.fullmatch(lower) and lower.strip("0:") else ""


def pci_address(path: str) -> str:
    """Return the innermost PCI function of a device's path."""
    found = [part for part in path.split("/") if _PCI.fullmatch(part)]
    return found[-1] if found else ""


def ethtool_statistics(text: str) -> Iterator[tuple[str, int]]:
    """Yield name and value of each line of `ethtool -S`; other lines are skipped.

    A repeated name is yielded twice, because drivers use some names twice.
    """
    for line in text.splitlines():
        name, colon, text = line.strip().rpartition(":")
        # `int` refuses some of the whitespace that `strip` removes.
        if colon and name and _NUMBER.fullmatch(value := text.strip()) and int(value) < _UINT64:
            yield name.strip(), int(value)


def default_routes(ipv4: str, ipv6: str) -> frozenset[str]:
    """Return the netdevs with a default route in `/proc/net/route` or `/proc/net/ipv6_route`."""
    found = set()
    for line in ipv4.splitlines()[1:]:
        fields = line.split()
        if len(fields) >= 8 and fields[1] == fields[7] == "00000000":
            found.add(fields[0])
    for line in ipv6.splitlines():
        fields = line.split()
        if len(fields) >= 10 and fields[0] == "0" * 32 and fields[1] == "00":
            found.add(fields[9])
    return frozenset(found - {"lo"})


def boot_id(text: str) -> int:
    """Return 64 bits of the kernel's random boot id; 0 if unknown."""
    digits = text.replace("-", "")[:16]
    try:
        return int(digits, 16) if len(digits) == 16 and digits.isalnum() else 0
    except ValueError:
        return 0


def boot_time_ns(stat: str) -> int:
    """Return `btime` of `/proc/stat` in ns; 0 if unknown."""
    for line in stat.splitlines():
        if line.startswith("btime ") and _SECONDS.fullmatch(text := line[6:].strip()):
            return int(text) * 10**9
    return 0


_LARGE = 0x80
_READ_ONLY = 0x90
_SOFTWARE_MANAGED = b"SMDL=SW_MNG"


@dataclass(frozen=True, slots=True)
class Vpd:
    """Vital product data of a card; missing fields are empty.

    `is_restricted` is NVIDIA's mark on functions of a switch fabric that the Fabric Manager reads: reading their
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
