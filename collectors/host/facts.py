"""Builds the Facts of a host: board, firmware, drivers, NICs and GPUs, from the kernel's trees and the GPU driver.

`machine` and `gpu_folders` do I/O; `components` is pure.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from collectors.host.gpu import Gpu
from collectors.kernel import ports as nic_parts
from collectors.kernel.ports import KnownPort
from collectors.kernel.tree import Tree
from collectors.kernel.values import boot_id, boot_time_ns, pci_address
from streams.wire.models import Component

_NVIDIA_GPU = "0x10de"
_DISPLAY = "0x03"
_DRIVERS = ("mlx5_core", "mlx5_ib", "bnxt_en", "irdma", "ice", "nvidia", "nvidia_peermem", "gdrdrv")
"""Drivers whose version matters to the fabric, if they have one; in-tree drivers have the kernel's version."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine properties that the kernel reports; empty and 0 if unknown."""

    vendor: str = ""
    model: str = ""
    serial: str = ""
    kernel: str = ""
    booted_at_ns: int = 0
    boot_id: int = 0
    parts: tuple[Component, ...] = ()


def machine(tree: Tree) -> Machine:
    """Read the machine properties from the kernel's trees."""
    dmi = f"{tree.sys}/class/dmi/id"
    parts = []
    if bios := tree.read_proc(f"{dmi}/bios_version"):
        parts.append(Component("bios", "bios", tree.read_proc(f"{dmi}/bios_vendor"), firmware=bios))
    versions = ((driver, tree.read_proc(f"{tree.sys}/module/{driver}/version")) for driver in _DRIVERS)
    parts += [Component(driver, "driver", firmware=version) for driver, version in versions if version]
    return Machine(
        vendor=tree.read_proc(f"{dmi}/sys_vendor"),
        model=tree.read_proc(f"{dmi}/product_name"),
        serial=tree.read_proc(f"{dmi}/product_serial"),
        kernel=tree.read_kernel_text("sys/kernel/osrelease"),
        booted_at_ns=boot_time_ns(tree.read_kernel_text("stat")),
        boot_id=boot_id(tree.read_kernel_text("sys/kernel/random/boot_id")),
        parts=tuple(parts),
    )


def gpu_folders(tree: Tree) -> dict[str, str]:
    """Return the directory of each NVIDIA GPU on the bus, by PCI address, with or without a driver."""
    devices = f"{tree.sys}/bus/pci/devices"
    found = {}
    for name in tree.names(devices):
        folder = tree.target(f"{devices}/{name}") or f"{devices}/{name}"
        is_gpu = tree.read_proc(f"{folder}/vendor") == _NVIDIA_GPU
        if is_gpu and pci_address(name) == name and tree.read_proc(f"{folder}/class").startswith(_DISPLAY):
            found[name] = folder
    return found


def components(
    parts: Iterable[Component], driver: str, ports: Iterable[KnownPort], gpus: Mapping[str, Gpu]
) -> tuple[Component, ...]:
    """Return one component for each part, sorted by kind and name. `driver` is the GPU driver's own version."""
    found = {(part.kind, part.name): part for part in parts}
    if driver:
        found["driver", "nvidia"] = Component("nvidia", "driver", firmware=driver)
    nics = nic_parts.components(ports)
    found |= {(part.kind, part.name): part for part in nics}
    for name, gpu in gpus.items():
        aliases = tuple(alias for alias in (gpu.uuid, f"gpu{gpu.index}" if gpu.uuid else "") if alias)
        found["gpu", name] = Component(
            name, "gpu", gpu.part_number or gpu.model, gpu.serial, gpu.firmware, aliases
        )  # fmt: skip
        if gpu.clique:
            found["nvlink-domain", gpu.clique] = Component(gpu.clique, "nvlink-domain")
    return tuple(component for _, component in sorted(found.items()))
