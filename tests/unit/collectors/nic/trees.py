"""Small trees written by hand, a clock that is set by hand, and one reading of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from collectors.core.counts import Counts
from collectors.core.emitter import Emitter
from collectors.kernel.ports import Role
from collectors.kernel.tree import Tree
from collectors.nic.ethtool import ethtool_of
from collectors.nic.host import HostReader
from collectors.nic.params import Params
from streams.wire.models import ABSENT_COUNTER, NO_INDEX, Samples, Source
from tests.fakes.publisher import KeptRecords

RDMA = "sys/class/infiniband/mlx5_0"
PORT = f"{RDMA}/ports/1"
NET = "sys/class/net/ens1np0"
STATISTICS = "ethtool/ens1np0.statistics"

CARD = {
    f"{RDMA}/node_guid": "946d:ae03:00aa:bbcc",
    f"{RDMA}/fw_ver": "28.42.1000",
    f"{RDMA}/hca_type": "MT4129",
    f"{RDMA}/board_id": "MT_0000000838",
    f"{PORT}/link_layer": "Ethernet",
    f"{PORT}/state": "4: ACTIVE",
    f"{PORT}/phys_state": "5: LinkUp",
    f"{PORT}/rate": "400 Gb/sec (4X NDR)",
    f"{PORT}/gid_attrs/ndevs/0": "ens1np0",
    f"{PORT}/counters/port_rcv_data": "1000",
    f"{PORT}/counters/link_downed": "0",
    f"{PORT}/counters/symbol_error": "1",
    f"{PORT}/counters/port_rcv_errors": "2",
    f"{PORT}/hw_counters/np_cnp_sent": "7",
    f"{PORT}/hw_counters/lifespan": "12",
    f"{NET}/address": "94:6d:ae:aa:bb:cc",
    f"{NET}/type": "1",
    f"{NET}/operstate": "up",
    f"{NET}/flags": "0x1003",
    f"{NET}/speed": "400000",
    f"{NET}/carrier_changes": "3",
    f"{NET}/carrier_down_count": "1",
    f"{NET}/statistics/rx_bytes": "55",
}
"""One RoCE port; without ethtool."""


@dataclass
class SetClock:
    """Stands still until it is set."""

    ns: int = 1_700_000_000_000_000_000

    def now_ns(self) -> int:
        """See Clock."""
        return self.ns


def write(root: Path, says: Mapping[str, str]) -> None:
    """Write these files below the root."""
    for path, text in says.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")


@dataclass
class Whole:
    """A reader of a whole tree and what it published."""

    host: HostReader
    kept: KeptRecords
    counts: Counts


def whole(
    root: Path,
    clock: SetClock | None = None,
    wanted: frozenset[Role] = frozenset(Role),
    tree: Tree | None = None,
    **settings: object,
) -> Whole:
    """A reader of every port of a tree, with its ethtool statistics where there are some."""
    kept, counts = KeptRecords(), Counts()
    folder = root / "ethtool" if (root / "ethtool").is_dir() else None
    params = Params.model_validate(
        {"device": "host1", "root": root, "ethtool_dir": folder, "deadline_s": 0.2} | settings
    )
    tree = tree or Tree(root)
    emitter = Emitter(kept, "test", 7, Source.SOURCE_NIC)
    ethtool = ethtool_of(tree, wanted=False, folder=params.ethtool_dir)
    return Whole(HostReader(params, tree, ethtool, emitter, counts, clock or SetClock(), wanted), kept, counts)


def rows(samples: Samples | None) -> dict[str, dict[str, float]]:
    """What was read, by port and name: `lane_raw_errors[3]`; nothing stands for what was not."""
    if samples is None:
        return {}
    found: dict[str, dict[str, float]] = {row: {} for row in samples.row}
    for table, is_counter in ((samples.counters, True), (samples.gauges, False)):
        for metric, index, values in zip(table.metric, table.index, table.values, strict=True):
            name = metric.name.lower() + ("" if index == NO_INDEX else f"[{index}]")
            for row, value in zip(samples.row, values.tolist(), strict=True):
                if value == value and not (is_counter and value == ABSENT_COUNTER):
                    found[row][name] = value
    return found
