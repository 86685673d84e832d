"""Defines the ids of devices, ports, links and groups, and the order of tiers that selects the lower end of a link.

Subject ids are part of the public interface: `link:<a>/<port>--<z>/<port>` (lower end first), `port:<device>/<port>`
where no link is known, `rail:<host>/<rail>`, `device:<device>`, `pod:<pod>`, `plane:<plane>`, `collector:<name>`,
`input:<consumer>/<topic>`.
"""

import hashlib
from typing import NamedTuple

# A link belongs to its lower end; tiers outside the hierarchy (storage, unknown) come last.
_TIER_ORDER = {"host": 0, "T0": 1, "T1": 2, "T2": 3}
UNKNOWN_RANK = len(_TIER_ORDER)


class Port(NamedTuple):
    """One port of one device, by the names of the inventory."""

    device: str
    port: str


def tier_rank(tier: str) -> int:
    """Return the rank of a tier, from the hosts upwards; unknown tiers are highest."""
    return _TIER_ORDER.get(tier, UNKNOWN_RANK)


def link_id(lower: Port, upper: Port) -> str:
    """Return the subject id of a link from its ordered ends."""
    return f"link:{lower.device}/{lower.port}--{upper.device}/{upper.port}"


def port_id(port: Port) -> str:
    """Return the subject id of a port without a known link."""
    return f"port:{port.device}/{port.port}"


def device_id(device: str) -> str:
    """Return the subject id of a device."""
    return f"device:{device}"


def plane_id(plane: int) -> str:
    """Return the subject id of a plane."""
    return f"plane:{plane}"


def collector_id(collector: str) -> str:
    """Return the subject id of a collector."""
    return f"collector:{collector}"


def input_id(consumer: str, topic: str) -> str:
    """Return the subject id of a topic as an input of a consumer."""
    return f"input:{consumer}/{topic}"


def finding_id(detector: str, subject_id: str, anchor: str) -> str:
    """Return the id of an episode, a deterministic function of the arguments.

    It has 32 hexadecimal digits of SHA-256 over the arguments, each terminated by a NUL, which none of them contains.
    """
    return hashlib.sha256("".join(f"{part}\0" for part in (detector, subject_id, anchor)).encode()).hexdigest()[:32]


def remediation_id(finding: str, action: str, attempt: int) -> str:
    """Return the id of a remediation; each finding, action and attempt has its own."""
    return finding_id("remediation", f"{finding}/{action}", str(attempt))
