"""Classifies kernel messages about a port, a GPU or the host: a table of the drivers' messages. Pure.

The texts come from the drivers: mlx5 `core/events.c`, `core/health.c`, `core/cmd.c`, `en_main.c`; bnxt, ice and i40e
for their links; the PCI core's `aer.c` and `pciehp`; and NVIDIA's documentation of Xid errors and its Fabric Manager
guide, for Xid and SXid lines.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from streams.wire.models import EventKind

_A = re.ASCII
_HEX_PCI = r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}"
_DEVICE = re.compile(
    rf"(?P<driver>[\w-]{{1,40}}) (?P<pci>{_HEX_PCI}\.[0-7])(?: (?P<netdev>[^\s:()]{{1,32}}))?(?: \([\w ]{{1,40}}\))?: "
    r"(?:[a-z]\w{0,60}:\d{1,6}:(?:\(pid \d{1,10}\):)? )?(?P<text>.*)",
    _A,
)
_XID = re.compile(rf"NVRM: Xid \((?:PCI:)?({_HEX_PCI})(?:\.[0-7])?\): (\d{{1,9}})\b", _A)
_SXID = re.compile(rf"nvidia-nvswitch\d{{1,4}}: SXid \(PCI:({_HEX_PCI}(?:\.[0-7])?)\): (\d{{1,9}})\b", _A)
_NVRM = re.compile(rf"NVRM: .*?\b({_HEX_PCI})(?:\.[0-7])?\b.*(?:fallen off the bus|RmInitAdapter failed)", _A)
_LINK = re.compile(r"(?:NIC )?Link (?:is )?(up|down)\b", _A | re.IGNORECASE)
_MODULE = re.compile(r"Port module event(?:\[error\])?: module \d{1,3}, (Cable \w{1,20}|Unknown status)", _A)
_FIRMWARE = re.compile(
    r"device's health compromised|Health issue observed|Fatal error \d+ detected|firmware internal error"
    r"|Will cause a leak of a command resource|unrecoverable hardware error|FW is unable to respond"
    r"|handling bad device here|device is in bad state|health recovery failed",
    _A | re.IGNORECASE,
)
_SLOT_POWER = re.compile(r"insufficient power on the PCIe slot", _A)
_NOTED = re.compile(
    r"PCIe slot power capability was not advertised"
    r"|PCIe slot advertised sufficient power|High temperature on sensors|available PCIe bandwidth, limited by"
    r"|PCIe Bus Error: severity=|pciehp: Slot\([^)]{1,40}\): (?:Link Down|Card not present)"
    r"|[Tt]ransmit queue \d+ timed out|TX timeout detected",
    _A,
)
_MODULES = {
    "Cable plugged": EventKind.MODULE_INSERTED,
    "Cable unplugged": EventKind.MODULE_REMOVED,
    "Cable error": EventKind.MODULE_FAULT,
    "Cable disabled": EventKind.MODULE_FAULT,
    "Unknown status": EventKind.MODULE_FAULT,
}
_HINTS = ("ink ", "Xid", "Port module", "0000:", "NVRM")
"""Every message below contains one of these; most lines of a log contain none."""


class About(StrEnum):
    """The kind of device at the PCI address."""

    NIC = "nic"
    GPU = "gpu"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Classified:
    """The event of a message, and its device; `netdev` is empty if the message names none."""

    kind: EventKind
    about: About
    pci: str
    netdev: str = ""
    code: int = 0


def pci_address(text: str) -> str:
    """Convert NVIDIA's forms of a PCI address to the form of sysfs: `PCI:0000:9B:00`, `00000000:9B:00.0`."""
    domain, _, rest = text.lower().partition(":")
    slot, _, function = rest.partition(".")
    return f"{domain.lstrip('0').rjust(4, '0')}:{slot}.{function or '0'}"


def classify(message: str) -> Classified | None:
    """Return the event of a message; None if the message has none."""
    if not any(hint in message for hint in _HINTS):
        return None
    if result := _XID.match(message):
        return Classified(EventKind.GPU_XID, About.GPU, pci_address(result[1]), code=int(result[2]))
    if result := _SXID.match(message):
        return Classified(EventKind.LOG, About.OTHER, pci_address(result[1]), code=int(result[2]))
    if result := _NVRM.match(message):
        return Classified(EventKind.LOG, About.GPU, pci_address(result[1]))
    if result := _DEVICE.match(message):
        return _of_device(result)
    return None


def is_renaming(message: str) -> bool:
    """Return True if the message reports the renaming of a netdev."""
    return ": renamed from " in message


def _of_device(text: re.Match[str]) -> Classified | None:
    body, pci, netdev = text["text"], pci_address(text["pci"]), text["netdev"] or ""
    about = About.GPU if text["driver"].startswith("nvidia") else About.NIC
    if netdev and (link := _LINK.match(body)):
        kind = EventKind.LINK_UP if link[1].lower() == "up" else EventKind.LINK_DOWN
        return Classified(kind, about, pci, netdev)
    if text["driver"].startswith("mlx5"):
        if module := _MODULE.match(body):
            return Classified(_MODULES.get(module[1], EventKind.MODULE_FAULT), about, pci, netdev)
        if _FIRMWARE.search(body):
            return Classified(EventKind.NIC_FIRMWARE_ERROR, about, pci, netdev)
        if _SLOT_POWER.search(body):
            return Classified(EventKind.SLOT_POWER, about, pci, netdev)
    return Classified(EventKind.LOG, about, pci, netdev) if _NOTED.search(body) else None
