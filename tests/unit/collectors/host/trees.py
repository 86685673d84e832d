"""A host with two NIC ports and a GPU behind PCIe slots, written by hand."""

from pathlib import Path

from tests.unit.collectors.nic.trees import write

NIC0, NIC1, GPU = "0000:18:00.0", "0000:20:00.0", "0000:9b:00.0"
BOOT_S = 1_795_000_000
_ROOT = "sys/devices/pci0000:00"


def link(root: Path, path: str, target: str) -> None:
    """Make a link, which may lead to what comes later."""
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).symlink_to(target)


def folder(pci: str) -> str:
    """A device behind a bridge of its own, which is its slot."""
    return f"{_ROOT}/0000:00:{pci[5:7]}.0/{pci}"


def pcie(width: str, speed: str) -> dict[str, str]:
    """A link of 16 lanes at 32 GT/s at most, as it is now."""
    return {
        "current_link_width": width, "current_link_speed": speed,
        "max_link_width": "16", "max_link_speed": "32.0 GT/s PCIe",
    }  # fmt: skip


def machine(root: Path) -> Path:
    """The whole host; answers its root."""
    says = {
        "sys/class/dmi/id/sys_vendor": "Supermicro", "sys/class/dmi/id/product_name": "SYS-821GE",
        "sys/class/dmi/id/product_serial": "S123", "sys/class/dmi/id/bios_version": "2.1",
        "sys/module/mlx5_core/version": "24.10-1.1.4",
        "proc/sys/kernel/osrelease": "6.8.0-45-generic", "proc/stat": f"btime {BOOT_S}",
        "proc/sys/kernel/random/boot_id": "0123abcd-0123-abcd-0123-abcd0123abcd",
    }  # fmt: skip
    for number, pci in enumerate((NIC0, NIC1)):
        at, rdma, net = folder(pci), f"mlx5_{number}", f"ens{number + 1}np0"
        says |= {f"{at}/{name}": text for name, text in pcie("16", "32.0 GT/s PCIe").items()}
        says |= {
            f"{at}/vendor": "0x15b3", f"{at}/device": "0x1021",
            f"{at}/infiniband/{rdma}/node_guid": f"946d:ae03:00aa:bb0{number}",
            f"{at}/infiniband/{rdma}/fw_ver": "28.42.1000", f"{at}/infiniband/{rdma}/hca_type": "MT4129",
            f"{at}/infiniband/{rdma}/board_id": "MT_0000000838",
            f"{at}/infiniband/{rdma}/ports/1/link_layer": "Ethernet",
            f"{at}/infiniband/{rdma}/ports/1/gid_attrs/ndevs/0": net,
            f"{at}/net/{net}/address": f"94:6d:ae:aa:bb:0{number}", f"{at}/net/{net}/type": "1",
            f"{at}/net/{net}/speed": "400000",
        }  # fmt: skip
        link(root, f"sys/class/infiniband/{rdma}", f"../../../{at}/infiniband/{rdma}")
        link(root, f"sys/class/net/{net}", f"../../../{at}/net/{net}")
        link(root, f"{at}/infiniband/{rdma}/device", f"../../../{pci}")
        link(root, f"{at}/net/{net}/device", f"../../../{pci}")
    at = folder(GPU)
    says |= {f"{at}/{name}": text for name, text in pcie("8", "16.0 GT/s PCIe").items()}
    says |= {f"{at}/vendor": "0x10de", f"{at}/class": "0x030200"}
    for pci in (NIC0, NIC1, GPU):
        slot = folder(pci).rpartition("/")[0]
        says |= {f"{slot}/max_link_width": "16", f"{slot}/max_link_speed": "64.0 GT/s PCIe"}
    link(root, f"sys/bus/pci/devices/{GPU}", f"../../../../{at}")
    write(root, says)
    return root
