"""Reads the width and speed of PCIe links, with the maxima of device and slot. Parsing is pure.

The files are those of the kernel's `drivers/pci/pci-sysfs.c`; each read costs a read of the configuration space.
"""

import re
from collections.abc import Callable

from collectors.kernel.tree import Refusal, Tree
from collectors.kernel.values import pci_address
from streams.fabric.catalogue import Metric
from streams.wire.errors import Reject

_A = re.ASCII
_WIDTH = re.compile(r"\d{1,3}", _A)
_SPEED = re.compile(r"(\d{1,3}(?:\.\d)?) GT/s(?: PCIe)?", _A)
_NO_WIDTH = {0, 63, 255}
"""No link: all ones in the field and in the file, because the device does not respond."""
_MOST_LANES = 32

Values = dict[tuple[Metric, int], float]


def width(text: str) -> float | None:
    """Parse lanes; None without a link. Raises Reject."""
    if not _WIDTH.fullmatch(text) or (int(text) > _MOST_LANES and int(text) not in _NO_WIDTH):
        raise Reject(f"no width: {text[:40]!r}")
    return None if int(text) in _NO_WIDTH else float(text)


def speed(text: str) -> float | None:
    """Parse GT/s; None if unknown. Raises Reject."""
    if text.startswith("Unknown"):
        return None
    if not (result := _SPEED.fullmatch(text)) or float(result[1]) <= 0:
        raise Reject(f"no speed: {text[:40]!r}")
    return float(result[1])


class PcieReader:
    """Reads PCIe links; `refused` counts invalid contents since it was last read."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.refused = 0

    def read(self, folder: str) -> Values:
        """Return the link of a PCI function by its directory; unknown values are absent."""
        while folder and pci_address(folder) != folder.rpartition("/")[2]:  # a virtio or USB device below the function
            folder = folder.rpartition("/")[0] if pci_address(folder) else ""
        if not folder:
            return {}
        found: Values = {}
        for metric, reports, parse in (
            (Metric.PCIE_WIDTH_LANES, "current_link_width", width),
            (Metric.PCIE_SPEED_GTPS, "current_link_speed", speed),
        ):
            if (value := self._value(f"{folder}/{reports}", parse)) is not None:
                found[metric, -1] = value
        slot = folder.rpartition("/")[0]
        for metric, reports, parse in (
            (Metric.PCIE_WIDTH_MAX_LANES, "max_link_width", width),
            (Metric.PCIE_SPEED_MAX_GTPS, "max_link_speed", speed),
        ):
            own = self._value(f"{folder}/{reports}", parse)
            # Without a visible slot (the root complex of a guest) only the device's own values are known.
            theirs = self._value(f"{slot}/{reports}", parse) if pci_address(slot) == slot.rpartition("/")[2] else None
            if own is not None:
                found[metric, -1] = own if theirs is None else min(own, theirs)
        return found

    def _value(self, path: str, parse: Callable[[str], float | None]) -> float | None:
        try:
            text = self._tree.read_text(path)
            return None if text is None else parse(text)
        except Refusal:  # a guest may not read its slot: absent
            return None
        except Reject:
            self.refused += 1
            return None
