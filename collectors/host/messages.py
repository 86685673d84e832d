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
    rf"(?P<driver>[\w-]{{1,40}}) (?P<pci>{_HEX_PCI}\.[0-7])(?::pcie\d{{1,4}})?"
    r"(?: (?P<name>[^\s:()]{1,32}))?(?: \([\w ]{1,40}\))?: "
    r"(?:[a-z]\w{0,60}:\d{1,6}:(?:\(pid \d{1,10}\):)? )?(?:amdgpu: )?(?P<text>.*)",
    _A,
)
_XID = re.compile(rf"NVRM: Xid \((?:PCI:)?({_HEX_PCI})(?:\.[0-7])?(?: [^()]{{1,80}})?\): (\d{{1,9}})\b", _A)
"""With MIG the parentheses also name the instances: `PCI:0000:9b:00 GPU-I:05 GPU-CI:00` (kernel_rc.c)."""
_SXID = re.compile(rf"nvidia-nvswitch\d{{0,4}}: SXid \(PCI:({_HEX_PCI}(?:\.[0-7])?)\): (\d{{1,9}})\b", _A)
_NVRM = re.compile(
    rf"NVRM: .{{0,80}}?\b({_HEX_PCI})(?:\.[0-7])?\b.{{0,80}}?"
    r"(?:fallen off the bus|RmInitAdapter failed|rm_init_adapter failed)",
    _A,
)
"""With limits: a line of addresses without end would take time by the square of its length."""
_LINK = re.compile(r"(?:NIC )?Link (?:is )?(up|down)\b", _A | re.IGNORECASE)
_RDMA_STATE = re.compile(r"Port(?:: (\d{1,3}) Link)? (DOWN|INIT|ARMED|ACTIVE)", _A)
"""The InfiniBand core, since 6.13 (core/cache.c): also where no netdev reports the link."""
_RDMA_LINKS = {"DOWN": EventKind.LINK_DOWN, "ACTIVE": EventKind.LINK_UP}
"""A port in INIT or ARMED has signal but carries no traffic: neither up nor another down."""
_AER = re.compile(rf"AER: .{{0,60}}\berror (?:message )?received(?: from|:) ({_HEX_PCI}\.[0-7])", _A)
_CONTAINMENT = re.compile(rf"(?:DPC:? )containment event, status:(?:.{{0,80}} received from ({_HEX_PCI}\.[0-7]))?", _A)
"""Downstream port containment: the port below which the link is off, or the function that sent the error (dpc.c)."""
_LAG_MAP = re.compile(r"(?:modify )?(?:lag )?map\b:?(?P<legs>(?: port \d{1,2}:\d{1,2})+)| ?(?:modify )?lag map\b", _A)
_LEG = re.compile(r"port (\d{1,2}):(\d{1,2})", _A)
_MODULE = re.compile(r"Port module event(?:\[error\])?: module \d{1,3}, (Cable \w{1,20}|Unknown status)", _A)
_FIRMWARE = re.compile(
    r"device's health compromised|Health issue observed|Fatal error \d+ detected|firmware internal error"
    r"|Will cause a leak of a command resource|unrecoverable hardware error|FW is unable to respond"
    r"|handling bad device here|device is in bad state|health recovery failed"
    r"|Keep alive watchdog timeout|^FW Down: Stopping LIFs",
    _A | re.IGNORECASE,
)
_SLOT_POWER = re.compile(r"insufficient power on the PCIe slot", _A)
_NOTED = re.compile(
    r"PCIe slot power capability was not advertised"
    r"|PCIe slot advertised sufficient power|High temperature on sensors|available PCIe bandwidth, limited by"
    r"|PCIe Bus Error: severity=|(?:^|pciehp: )Slot\([^)]{1,40}\): (?:Link Down|Card not present)"
    r"|[Tt]ransmit queue \d+ timed out|TX timeout detected",
    _A,
)
_AMD_FAULT = re.compile(
    r"(?:\{\d{1,9}\})?uncorrectable hardware error"
    r"|.{0,80}\b[1-9]\d{0,9} (?:new )?(?:un)?(?:correctable|deferred) hardware errors detected(?! in total)"
    r"|GPU reset(?: begin|\(\d{1,9}\) (?:failed|succeeded)| end with ret = -\d)",
    _A,
)
_LOCKUP = re.compile(r"(?:NMI )?watchdog: (?:BUG: soft lockup - CPU#\d|Watchdog detected hard LOCKUP on cpu \d)", _A)
_QUEUE = re.compile(
    r"NETDEV WATCHDOG: (?:CPU: \d{1,5}: )?(\S{1,32}) \([\w-]{1,40}\): transmit queue \d{1,5} timed out", _A
)
"""Older kernels name the netdev and its driver instead of the PCI function (sch_generic.c)."""
_DRIVERS = re.compile(
    r"(?:\[drm[^\]]{0,60}\]{1,2} )?"
    r"(NVRM|nvidia-nvswitch|nvidia|mlx5_core|mlx5_ib|infiniband|bnxt_en|bnxt_re|ionic|ena|efa|irdma|ice|hfi1|amdgpu"
    r"|habanalabs|neuron|xe)\d{0,4}\b"
    r"|\[drm:\w{1,60} \[(amdgpu|xe)\]\]"
    r"|(?:.{0,80}\b(AER|DPC): |\{\d{1,9}\}\[(Hardware Error)\]: Hardware error from )",
    _A,
)
_HARMLESS = re.compile(
    r".*(?:: renamed from |hardware errors detected in total|Link (?:INIT|ARMED)|Port (?:INIT|ARMED)$)"
    r"|NVRM: (?:GPU at PCI:|loading NVIDIA|This can occur|The NVIDIA GPU [0-9a-f:.]{12,16}$|\(PCI ID: )"
    r"|.*available PCIe bandwidth \(",
    _A,
)
"""Lines of these drivers that report no fault, or a part of a message."""
_MOST_FUNCTIONS = 8
_MODULES = {
    "Cable plugged": EventKind.MODULE_INSERTED,
    "Cable unplugged": EventKind.MODULE_REMOVED,
    "Cable error": EventKind.MODULE_FAULT,
    "Cable disabled": EventKind.MODULE_FAULT,
    "Unknown status": EventKind.MODULE_FAULT,
}
_QUOTED_XID = "NVRM: Xid ("
"""A line that has this elsewhere than at its beginning is in a form that is not parsed."""
_GPU_DRIVERS = ("nvidia", "amdgpu")

_GPU_ALONE = re.compile(rf"NVRM: The NVIDIA GPU {_HEX_PCI}\.[0-7]", _A)


class About(StrEnum):
    """The kind of device at the PCI address."""

    NIC = "nic"
    GPU = "gpu"
    PCI = "pci"
    """A function that the line names without its kind."""
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Classified:
    """The event of a message, and its device; `netdev` and `rdma` are empty if the message names none."""

    kind: EventKind
    about: About
    pci: str
    netdev: str = ""
    code: int = 0
    rdma: str = ""
    number: int = 0
    """The port of the RDMA device, from 1 on; 0 if the message has none."""


def pci_address(text: str) -> str:
    """Convert NVIDIA's forms of a PCI address to the form of sysfs: `PCI:0000:9B:00`, `00000000:9B:00.0`."""
    domain, _, rest = text.lower().partition(":")
    slot, _, function = rest.partition(".")
    return f"{domain.lstrip('0').rjust(4, '0')}:{slot}.{function or '0'}"


def classify(message: str) -> Classified | None:
    """Return the event of a message; None if the message has none."""
    if result := _DEVICE.match(message):
        return _of_device(result)
    if result := _XID.match(message):
        return Classified(EventKind.GPU_XID, About.GPU, pci_address(result[1]), code=int(result[2]))
    if result := _SXID.match(message):
        return Classified(EventKind.LOG, About.OTHER, pci_address(result[1]), code=int(result[2]))
    if result := _NVRM.match(message):
        return Classified(EventKind.LOG, About.GPU, pci_address(result[1]))
    if result := _QUEUE.match(message):
        return Classified(EventKind.LOG, About.NIC, "", result[1])
    return Classified(EventKind.LOG, About.OTHER, "") if _LOCKUP.match(message) else None


def unknown_driver(message: str) -> str:
    """Return the driver of a message without an event, to be counted; empty if it is not a driver's or is harmless."""
    if _QUOTED_XID in message:
        return "NVRM"
    found = _DRIVERS.match(message)
    return "" if found is None or _HARMLESS.match(message) else next(filter(None, found.groups()))


class NvrmLines:
    """Joins NVIDIA's report of a lost GPU, which a file has in three lines: the GPU, its id, and what happened."""

    _MOST_LINES = 3

    def __init__(self) -> None:
        self._gpu = ""
        self._lines = 0

    def join(self, message: str) -> str:
        """Return the message, with the GPU of the lines before it if it is their end."""
        if not message.startswith("NVRM: "):
            return message
        self._lines += 1
        if _GPU_ALONE.fullmatch(message):
            self._gpu, self._lines = message, 0
        elif self._gpu and self._lines <= self._MOST_LINES and message.startswith("NVRM: fallen off the bus"):
            message, self._gpu = f"{self._gpu} has {message.removeprefix('NVRM: ')}", ""
        return message


def is_renaming(message: str) -> bool:
    """Return True if the message reports the renaming of a netdev."""
    return ": renamed from " in message


def _of_device(text: re.Match[str]) -> Classified | None:
    driver, body, pci, name = text["driver"], text["text"], pci_address(text["pci"]), text["name"] or ""
    if aer := _AER.match(body):
        return Classified(EventKind.LOG, About.PCI, pci_address(aer[1]))
    if contained := _CONTAINMENT.match(body):
        return Classified(EventKind.LOG, About.PCI, pci_address(contained[1]) if contained[1] else pci)
    if driver.startswith(_GPU_DRIVERS):
        is_fault = _NOTED.search(body) or (driver == "amdgpu" and _AMD_FAULT.match(body))
        return Classified(EventKind.LOG, About.GPU, pci) if is_fault else None
    if name and (link := _LINK.match(body)):
        kind = EventKind.LINK_UP if link[1].lower() == "up" else EventKind.LINK_DOWN
        return Classified(kind, About.NIC, pci, name)
    if name and (state := _RDMA_STATE.match(body)):
        named = _RDMA_LINKS.get(state[2])
        return None if named is None else Classified(named, About.NIC, pci, rdma=name, number=int(state[1] or 0))
    about = About.PCI if driver.startswith("pcie") else About.NIC
    if _FIRMWARE.search(body) and about is About.NIC:
        return Classified(EventKind.NIC_FIRMWARE_ERROR, about, pci, name)
    if driver.startswith("mlx5"):
        if module := _MODULE.match(body):
            return Classified(_MODULES.get(module[1], EventKind.MODULE_FAULT), about, pci, name)
        if _SLOT_POWER.search(body):
            return Classified(EventKind.SLOT_POWER, about, pci, name)
        if lag := _LAG_MAP.match(body):
            return Classified(EventKind.LOG, About.NIC, _lost_leg(pci, lag["legs"] or ""))
    return Classified(EventKind.LOG, about, pci, name) if _NOTED.search(body) else None


def _lost_leg(pci: str, legs: str) -> str:
    """Return the function of the first leg whose traffic another one carries; the first function if there is none."""
    lost = next((int(leg) for leg, carrier in _LEG.findall(legs) if leg != carrier), 1)
    return f"{pci[:-1]}{lost - 1}" if 0 < lost <= _MOST_FUNCTIONS else pci
