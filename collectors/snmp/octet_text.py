"""Converts SNMP octets to text: names, addresses. Pure."""

import ipaddress
from collections.abc import Mapping

from collectors.core.columns import unquoted
from collectors.snmp.ber import Value

_LONGEST = 255


def text(value: Value | None) -> str:
    """Return an octet string as one line of text, without quotes around it; empty if there is none."""
    if not isinstance(value, bytes):
        return ""
    decoded = value[:_LONGEST].split(b"\0", 1)[0].decode("utf-8", "replace")
    return unquoted(" ".join("".join(c if c.isprintable() else " " for c in decoded).split()))


def address(value: Value | None) -> str:
    """Return a hardware address, `44:4c:a8:31:3e:df`; empty if there is none."""
    if not isinstance(value, bytes) or len(value) not in (6, 8, 20) or not any(value):
        return ""
    return ":".join(f"{byte:02x}" for byte in value)


def whole(value: Value | None) -> int | None:
    """Return a number; None if there is none."""
    return value if isinstance(value, int) else None


def port_names(
    names: Mapping[bytes, str], descriptions: Mapping[bytes, str], index: Mapping[bytes, int]
) -> dict[bytes, str]:
    """Return the name of each row: its ifName, else its ifDescr, else `if<ifIndex>`.

    Of 517 real devices 48 have a duplicate ifName and 4 have none (DETECTION 2). A duplicate name is
    ambiguous: both get the suffix `#<ifIndex>`.
    """
    wanted = {row: names.get(row) or descriptions.get(row) or f"if{number}" for row, number in index.items()}
    seen: dict[str, int] = {}
    for name in wanted.values():
        seen[name] = seen.get(name, 0) + 1
    found = {row: name if seen[name] == 1 else f"{name}#{index[row]}" for row, name in wanted.items()}
    if len(set(found.values())) == len(found):
        return found
    return {row: f"{name}#{index[row]}" for row, name in wanted.items()}  # a device with ports named `x` and `x#7`


def literal(host: str) -> str:
    """Return an address in one spelling: an IPv4-mapped IPv6 address becomes IPv4; empty for a name."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return ""
    return str(getattr(address, "ipv4_mapped", None) or address)
