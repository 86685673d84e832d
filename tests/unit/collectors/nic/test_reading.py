"""One port: which witness is taken, what is left alone, and what a state is."""

import errno
from pathlib import Path

import pytest

from collectors.kernel.ports import Port
from collectors.kernel.tree import Refusal, Tree
from collectors.nic.ethtool import Source, Statistics
from collectors.nic.reading import PortReader, PortReading, RefusalBreaker
from streams.fabric.catalogue import Metric
from tests.fixtures.nic_tree import CARD, NET, PORT, STATISTICS, SetClock, rows, whole, write

MS = 1_000_000


class FakeStatistics:
    """An ethtool source with given values, or a refusal."""

    def __init__(self, **values: int) -> None:
        self.values = values
        self.error: OSError | None = None
        self.asked = 0

    def read(self) -> Statistics | None:
        self.asked += 1
        if self.error is not None:
            raise Refusal(self.error)
        return Statistics(tuple(self.values), list(self.values.values())) if self.values else None

    def close(self) -> None:
        """See Source."""


class Grudging(Tree):
    """A tree of which some folders are refused."""

    def __init__(self, root: Path, *refused: str, error: int = errno.EINVAL) -> None:
        super().__init__(root)
        self.refused = refused
        self.error = error
        self.asked: list[str] = []

    def read_bytes(self, path: str, most: int = 4096) -> bytes | None:
        self.asked.append(path)
        if any(part in path for part in self.refused):
            raise Refusal(OSError(self.error, "refused"))
        return super().read_bytes(path, most)


def reader(tree: Tree, source: Source | None = None, clock: SetClock | None = None, **port: object) -> PortReader:
    known = {"rdma": "mlx5_0", "number": 1, "netdev": "ens1np0", "link_layer": "Ethernet"} | port
    return PortReader(tree, Port(**known), source or FakeStatistics(), clock or SetClock())  # type: ignore[arg-type]


def values_of(reading: PortReading) -> dict[tuple[Metric, int], float]:
    return {slot: value for slot, value in zip(reading.row.slots, reading.row.values, strict=True) if value is not None}


async def test_the_physical_layer_is_the_first_witness(tmp_path: Path) -> None:
    """A netdev's own bytes do not count RDMA; a metric without a better source is read from the next one."""
    write(
        tmp_path, CARD | {STATISTICS: "NIC statistics:\n  rx_bytes_phy: 9000\n  rx_bytes: 60\n  rx_err_lane_3_phy: 4"}
    )
    found = rows(await whole(tmp_path).host.read_once())["mlx5_0"]
    assert found == {
        "rx_bytes": 9000, "lane_raw_errors[3]": 4, "link_down_events": 0, "rx_symbol_errors": 1, "rx_errors": 2,
        "cnp_sent": 7, "link_transitions": 3, "oper_up": 1, "admin_up": 1, "speed_bps": 400e9,
    }  # fmt: skip


def test_a_witness_once_taken_is_retained(tmp_path: Path) -> None:
    """Falling back to another counter would be a burst that never was; a metric that turns up later is added."""
    write(tmp_path, CARD)
    emitted = FakeStatistics(rx_bytes_phy=9000)
    port = reader(Tree(tmp_path), emitted)
    assert values_of(port.read())[Metric.RX_BYTES, -1] == 9000
    emitted.values = {"rx_prio3_pause": 5}
    port.rediscover()
    found = values_of(port.read())
    assert (Metric.RX_BYTES, -1) not in found
    assert found[Metric.PFC_RX_FRAMES, 3] == 5
    emitted.values = {"link_down_events_phy": 1, "rx_bytes_phy": 9001}
    assert values_of(port.read())[Metric.RX_BYTES, -1] == 9001


def test_a_driver_that_names_its_statistics_again_is_read_by_the_new_places(tmp_path: Path) -> None:
    """Adding a channel moves every value behind it."""
    write(tmp_path, CARD)
    emitted = FakeStatistics(rx_bytes_phy=1, tx_bytes_phy=2)
    port = reader(Tree(tmp_path), emitted)
    port.read()
    emitted.values = {"rx0_drops": 77, "rx_bytes_phy": 3, "tx_bytes_phy": 4}
    found = values_of(port.read())
    assert (found[Metric.RX_BYTES, -1], found[Metric.TX_BYTES, -1]) == (3, 4)


def test_within_its_lifespan_a_counter_was_not_read(tmp_path: Path) -> None:
    """The kernel would repeat its last values: they are absent then, not unchanged."""
    write(tmp_path, CARD | {f"{PORT}/hw_counters/lifespan": "2500"})
    clock = SetClock()
    port = reader(Tree(tmp_path), clock=clock)
    seen = []
    for _ in range(5):
        found = values_of(port.read())
        seen.append((Metric.CNP_SENT, -1) in found)
        assert (Metric.RX_BYTES, -1) in found
        clock.ns += 1000 * MS
    assert seen == [True, False, False, True, False]


@pytest.mark.parametrize("error", [errno.EINVAL, errno.EIO, errno.EACCES, errno.EOPNOTSUPP])
def test_a_restricted_function_is_left_alone_after_three_refusals(tmp_path: Path, error: int) -> None:
    """Nothing that asks the device is read again for its life: each would be a line in the kernel's log."""
    write(tmp_path, CARD)
    emitted = FakeStatistics(rx_bytes_phy=1)
    tree = Grudging(tmp_path, "/counters/", error=error)
    port = reader(tree, emitted)
    reading = port.read()
    assert port.is_restricted and reading.refused == 3
    asked_before, emitted.asked, tree.asked = len(tree.asked), 0, []
    for _ in range(10):
        found = values_of(port.read())
        port.rediscover()
    assert asked_before and emitted.asked == 0
    assert not [path for path in tree.asked if "infiniband" in path or path.endswith("/speed")]
    assert found[Metric.OPER_UP, -1] == 1 and found[Metric.LINK_TRANSITIONS, -1] == 3


def test_a_want_of_the_moment_closes_nothing(tmp_path: Path) -> None:
    """Too many open files, or a busy device: counted, and asked again."""
    write(tmp_path, CARD)
    tree = Grudging(tmp_path, "/counters/", error=errno.EMFILE)
    port = reader(tree)
    for _ in range(5):
        assert port.read().refused
    tree.refused = ()
    port.rediscover()
    assert values_of(port.read())[Metric.RX_BYTES, -1] == 4000


def test_one_file_that_is_refused_takes_no_other_with_it() -> None:
    """It is asked three times, and a group is closed by three in a row only."""
    patience = RefusalBreaker()
    for _ in range(3):
        patience.on_refusal("counters", "a", lasting=True)
        patience.on_success("counters", "b")
    assert not patience.allows("counters", "a")
    assert patience.allows("counters", "b") and not patience.is_closed("counters")


def test_a_port_that_is_down_has_no_speed(tmp_path: Path) -> None:
    """Drivers show the lowest rate then, which would look like a port that trained low."""
    write(tmp_path, {f"{PORT}/link_layer": "InfiniBand", f"{PORT}/state": "1: DOWN", f"{PORT}/phys_state": "2: Polling",
                     f"{PORT}/rate": "10 Gb/sec (4X SDR)"})  # fmt: skip
    port = reader(Tree(tmp_path), netdev="", link_layer="InfiniBand")
    assert values_of(port.read()) == {(Metric.OPER_UP, -1): 0, (Metric.ADMIN_UP, -1): 1}
    write(tmp_path, {f"{PORT}/state": "4: ACTIVE", f"{PORT}/phys_state": "5: LinkUp"})
    assert values_of(port.read())[Metric.SPEED_BPS, -1] == 10e9


def test_an_ipoib_netdev_does_not_tell_how_its_port_is(tmp_path: Path) -> None:
    """It goes down with the subnet manager; of its statistics only what is of the wire is taken."""
    write(tmp_path, CARD | {f"{NET}/operstate": "down"})
    port = reader(Tree(tmp_path), FakeStatistics(rx_bytes=60, rx_crc_errors_phy=2), link_layer="InfiniBand")
    found = values_of(port.read())
    assert found[Metric.OPER_UP, -1] == 1
    assert (Metric.LINK_TRANSITIONS, -1) not in found
    assert (found[Metric.RX_BYTES, -1], found[Metric.RX_FCS_ERRORS, -1]) == (4000, 2)


def test_an_unknown_operstate_leaves_it_to_the_carrier(tmp_path: Path) -> None:
    """The loopback and some drivers report `unknown`; a missing carrier gives no state."""
    write(tmp_path, {f"{NET}/operstate": "unknown", f"{NET}/flags": "0x9"})
    port = reader(Tree(tmp_path), rdma="", number=0)
    assert values_of(port.read()) == {(Metric.ADMIN_UP, -1): 1}
    write(tmp_path, {f"{NET}/carrier": "1"})
    assert values_of(port.read())[Metric.OPER_UP, -1] == 1


def test_a_counter_that_sticks_is_named(tmp_path: Path) -> None:
    """It is passed on as it is, and named: 255 downs may be many more."""
    write(tmp_path, CARD | {f"{PORT}/counters/link_downed": "255"})
    reading = reader(Tree(tmp_path)).read()
    assert reading.saturated == {"link_downed"}
    assert values_of(reading)[Metric.LINK_DOWN_EVENTS, -1] == 255


def test_junk_is_counted_and_absent(tmp_path: Path) -> None:
    """One refusal for each invalid file; N/A is no refusal."""
    write(tmp_path, CARD)
    port = reader(Tree(tmp_path))
    assert port.read().refused == 0
    write(tmp_path, {f"{PORT}/counters/port_rcv_data": "many", f"{PORT}/counters/symbol_error": "N/A (no PMA)",
                     f"{NET}/operstate": "sideways", f"{NET}/carrier": "1"})  # fmt: skip
    reading = port.read()
    found = values_of(reading)
    assert reading.refused == 2
    assert (Metric.RX_BYTES, -1) not in found and (Metric.RX_SYMBOL_ERRORS, -1) not in found
    assert found[Metric.OPER_UP, -1] == 1


def test_where_the_netdev_reports_nothing_the_rdma_port_does(tmp_path: Path) -> None:
    """A netdev of which the tree holds only the name, or whose driver does not know its speed."""
    write(tmp_path, {path: text for path, text in CARD.items() if not path.startswith(NET)} | {f"{NET}/type": "1"})
    found = values_of(reader(Tree(tmp_path)).read())
    assert (found[Metric.OPER_UP, -1], found[Metric.ADMIN_UP, -1], found[Metric.SPEED_BPS, -1]) == (1, 1, 400e9)
