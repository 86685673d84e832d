"""Trained PCIe links, and the maxima of device and slot."""

from pathlib import Path

import pytest

from collectors.host.sampling import PcieReader, speed, width
from collectors.kernel.tree import Tree
from streams.fabric.catalogue import Metric
from streams.wire.errors import Reject
from tests.fixtures.host_tree import GPU, NIC0, folder, machine, pcie
from tests.fixtures.nic_tree import write


def read(root: Path, pci: str = NIC0) -> dict[str, float]:
    """Return the values of one function's link, by name."""
    return {
        metric.name.lower(): value
        for (metric, _), value in PcieReader(Tree(root)).read(str(root / folder(pci))).items()
    }


@pytest.mark.parametrize(("text", "lanes"), [("16", 16.0), ("1", 1.0), ("0", None), ("63", None), ("255", None)])
def test_width(text: str, lanes: float | None) -> None:
    """Of a link that is none there is none, and not 0 or 63 lanes."""
    assert width(text) == lanes


@pytest.mark.parametrize(
    ("text", "gtps"),
    [("32.0 GT/s PCIe", 32.0), ("2.5 GT/s", 2.5), ("8 GT/s", 8.0), ("Unknown", None), ("Unknown speed", None)],
)
def test_speed(text: str, gtps: float | None) -> None:
    assert speed(text) == gtps


@pytest.mark.parametrize("text", ["", "x16", "-1", "33", "１６", "1e1"])
def test_what_is_no_width_is_refused(text: str) -> None:
    """Rather than guessed."""
    with pytest.raises(Reject):
        width(text)


@pytest.mark.parametrize("text", ["", "32", "GT/s", "0 GT/s", "1e3 GT/s", "32.0 GT/s and more"])
def test_what_is_no_speed_is_refused(text: str) -> None:
    """Rather than guessed."""
    with pytest.raises(Reject):
        speed(text)


def test_a_link_is_measured_against_the_lesser_of_device_and_slot(tmp_path: Path) -> None:
    """A card of 32 GT/s in a slot of 16 has not trained low."""
    root = machine(tmp_path)
    full = {"pcie_width_lanes": 16, "pcie_speed_gtps": 32, "pcie_width_max_lanes": 16, "pcie_speed_max_gtps": 32}
    assert read(root) == full
    slot = folder(NIC0).rpartition("/")[0]
    write(root, {f"{slot}/max_link_speed": "16.0 GT/s PCIe", f"{slot}/max_link_width": "8"})
    assert read(root) == full | {"pcie_width_max_lanes": 8, "pcie_speed_max_gtps": 16}
    assert read(root, GPU) == full | {"pcie_width_lanes": 8, "pcie_speed_gtps": 16}


def test_what_is_not_there_is_absent(tmp_path: Path) -> None:
    """A guest sees no slot, a card that fell off the bus answers all ones, an old kernel has no such files."""
    at = folder(NIC0)
    write(tmp_path, {f"{at}/{name}": text for name, text in pcie("63", "Unknown").items()})
    assert read(tmp_path) == {"pcie_width_max_lanes": 16, "pcie_speed_max_gtps": 32}
    assert read(tmp_path, GPU) == {}
    assert PcieReader(Tree(tmp_path)).read("") == {}
    bare = "sys/devices/pci0000:00/0000:00:05.0"
    write(tmp_path, {f"{bare}/{name}": text for name, text in pcie("4", "8.0 GT/s PCIe").items()})
    result = PcieReader(Tree(tmp_path)).read(str(tmp_path / bare / "virtio2"))
    assert result[Metric.PCIE_WIDTH_LANES, -1] == 4 and result[Metric.PCIE_WIDTH_MAX_LANES, -1] == 16


def test_what_makes_no_sense_is_absent_and_counted(tmp_path: Path) -> None:
    """The rest is read."""
    root = machine(tmp_path)
    write(root, {f"{folder(NIC0)}/current_link_width": "many"})
    reader = PcieReader(Tree(root))
    result = reader.read(str(root / folder(NIC0)))
    assert (Metric.PCIE_WIDTH_LANES, -1) not in result and len(result) == 3 and reader.refused == 1
