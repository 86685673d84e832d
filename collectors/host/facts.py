"""What a host is: its board, firmware, drivers, NICs and GPUs, by the kernel's trees and the GPU driver.

`machine` and `gpu_folders` read; `components` is pure.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from collectors.host.discover import pci_of
from collectors.host.gpu import Gpu
from collectors.host.ports import HostPort
from collectors.host.tree import Tree
from streams.wire.models import Component

_NVIDIA_GPU = "0x10de"
_DISPLAY = "0x03"
_DRIVERS = ("mlx5_core", "mlx5_ib", "bnxt_en", "irdma", "ice", "nvidia", "nvidia_peermem", "gdrdrv")
"""Whose version matters to the fabric, where they have one of their own; those of the kernel have the kernel's."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What the kernel knows of the machine; empty and 0 where it does not."""

    vendor: str = ""
    model: str = ""
    serial: str = ""
    kernel: str = ""
    booted_at_ns: int = 0
    boot_id: int = 0
    parts: tuple[Component, ...] = ()


def machine(tree: Tree) -> Machine:
    """The machine as its trees say."""
    dmi = f"{tree.sys}/class/dmi/id"
    parts = []
    if bios := tree.text(f"{dmi}/bios_version"):
        parts.append(Component("bios", "bios", tree.text(f"{dmi}/bios_vendor") or "", firmware=bios))
    versions = ((driver, tree.text(f"{tree.sys}/module/{driver}/version")) for driver in _DRIVERS)
    parts += [Component(driver, "driver", firmware=version) for driver, version in versions if version]
    proc = tree.proc
    return Machine(
        vendor=tree.text(f"{dmi}/sys_vendor") or "",
        model=tree.text(f"{dmi}/product_name") or "",
        serial=tree.text(f"{dmi}/product_serial") or "",
        kernel=(tree.text(f"{proc}/sys/kernel/osrelease") or "") if proc else "",
        booted_at_ns=boot_time_ns(tree.text(f"{proc}/stat") or "") if proc else 0,
        boot_id=boot_id(tree.text(f"{proc}/sys/kernel/random/boot_id") or "") if proc else 0,
        parts=tuple(parts),
    )


def boot_id(text: str) -> int:
    """The kernel's own random number of this boot, 64 bits of it; 0 where unknown."""
    digits = text.replace("-", "")[:16]
    try:
        return int(digits, 16) if len(digits) == 16 and digits.isalnum() else 0
    except ValueError:
        return 0


def boot_time_ns(stat: str) -> int:
    """`btime` of `/proc/stat`; 0 where unknown."""
    for line in stat.splitlines():
        said = line.removeprefix("btime ").strip()
        if line.startswith("btime ") and said.isascii() and said.isdecimal() and len(said) < 11:
            return int(said) * 10**9
    return 0


def gpu_folders(tree: Tree) -> dict[str, str]:
    """The folder of each NVIDIA GPU that is on the bus, by its PCI address, whether there is a driver or not."""
    devices = f"{tree.sys}/bus/pci/devices"
    found = {}
    for name in tree.names(devices):
        folder = tree.target(f"{devices}/{name}") or f"{devices}/{name}"
        is_gpu = tree.text(f"{folder}/vendor") == _NVIDIA_GPU
        if is_gpu and pci_of(name) == name and (tree.text(f"{folder}/class") or "").startswith(_DISPLAY):
            found[name] = folder
    return found


def components(
    parts: Iterable[Component], driver: str, ports: Iterable[HostPort], gpus: Mapping[str, Gpu]
) -> tuple[Component, ...]:
    """One for each part, in the order of kinds and names. `driver` is that of the GPUs, as it says itself."""
    found = {(part.kind, part.name): part for part in parts}
    if driver:
        found["driver", "nvidia"] = Component("nvidia", "driver", firmware=driver)
    for port in ports:
        if not port.is_virtual:
            kind = "nic" if port.is_fabric else "nic-management"
            found[kind, port.name] = Component(
                port.name, kind, port.part_number or port.board or port.model, port.serial, port.firmware,
                tuple(alias for alias in port.aliases if alias != port.name),
            )  # fmt: skip
    for name, gpu in gpus.items():
        aliases = tuple(alias for alias in (gpu.uuid, f"gpu{gpu.index}" if gpu.uuid else "") if alias)
        found["gpu", name] = Component(
            name, "gpu", gpu.part_number or gpu.model, gpu.serial, gpu.firmware, aliases
        )  # fmt: skip
    return tuple(component for _, component in sorted(found.items()))
