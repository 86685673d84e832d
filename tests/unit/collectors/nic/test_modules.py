"""FEC statistics and modules over ethtool's netlink family: what is parsed, and how it reaches the rows of a port."""

import asyncio
import errno
import random
import struct
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from collectors.kernel.netlink import attributes, number, text
from collectors.nic.ethtool_netlink import EthtoolNetlink
from collectors.nic.module_values import fec_values, module_values
from streams.fabric.catalogue import Metric
from streams.wire.errors import Reject
from tests.fixtures.netlink_messages import FakeKernel, nest, netlink
from tests.fixtures.nic_tree import CARD, STATISTICS, rows, whole, write

FAMILY, FEC_GET, EEPROM_GET = 21, 29, 31


def u64(*values: int) -> bytes:
    return struct.pack(f"={len(values)}Q", *values)


def words(*values: int) -> bytes:
    return struct.pack(f">{len(values)}H", *values)


FEC = nest(
    (2, u64(100, 60, 40)), (3, u64(3)), (4, u64(2**64 - 1)),
    (5, nest((2, 0), (3, 0), (4, u64(10**9)))), (5, nest((2, 1), (3, 1), (4, struct.pack("=I", 5)))),
    (5, nest((2, 2), (3, 2), (5, u64(4, 2**64 - 1, 3)))), (5, nest((2, 3), (3, 15), (4, u64(9)))),
    (5, nest((2, 4), (3, 4))),
)  # fmt: skip


def test_fec_has_totals_and_bins() -> None:
    """Lanes follow a total, and without a total of a bin they are added up; a bin of several numbers is left out."""
    assert fec_values(FEC) == {
        (Metric.FEC_CORRECTED_CODEWORDS, -1): 100, (Metric.FEC_UNCORRECTED_CODEWORDS, -1): 3,
        (Metric.FEC_CODEWORDS_BY_ERRORS, 0): 10**9, (Metric.FEC_CODEWORDS_BY_ERRORS, 1): 5,
        (Metric.FEC_CODEWORDS_BY_ERRORS, 2): 7,
    }  # fmt: skip
    assert fec_values(b"") == {}


def page(**at: bytes) -> bytearray:
    """Return 128 bytes with these contents: `_14=...` for byte 14 of the page, whose upper half begins at 128."""
    made = bytearray(128)
    for name, data in at.items():
        begin = int(name[1:]) % 128
        made[begin : begin + len(data)] = data
    return made


Pages = dict[tuple[int, int], bytes | bytearray]


def memory(pages: Pages) -> Callable[[int, int, int, int], bytes]:
    """Return a module with these pages by (page, bank); that of page 0 is its lower half."""

    def read(number: int, offset: int, length: int, bank: int) -> bytes:
        assert length <= 128 and (number == 0 or offset >= 128)
        return bytes(pages[number, bank][offset % 128 : offset % 128 + length])

    return read


LOWER = page(_0=b"\x18", _14=words(45 * 256 + 128, 33_000))
LANES = page(_154=words(10_000, 5_000, *[0] * 6), _170=words(0x0FA0, *[0] * 7), _186=words(1_000, *[0] * 6, 1))
CMIS: Pages = {(0, 0): LOWER, (1, 0): page(_160=b"\x07"), (0x11, 0): LANES}


def by_name(pages: Pages) -> dict[str, float]:
    found = module_values(memory(pages))
    return {metric.name.lower() + ("" if lane < 0 else f"[{lane}]"): round(found[metric, lane], 3)
            for metric, lane in found}  # fmt: skip


def test_a_cmis_module_has_temperature_light_and_bias_by_lane() -> None:
    """Steps of 1/256 °C, 100 µV, 0.1 µW and 2 µA; lanes with 0 are not used."""
    assert by_name(CMIS) == {
        "module_temperature_c": 45.5, "module_voltage_v": 3.3, "tx_power_dbm[0]": 0, "tx_power_dbm[1]": -3.01,
        "rx_power_dbm[0]": -10, "rx_power_dbm[7]": -40, "bias_ma[0]": 8,
    }  # fmt: skip


@pytest.mark.parametrize(("monitors", "bias"), [(0x09, 16), (0x11, 32), (0x19, None), (0x06, None)])
def test_the_bias_has_the_advertised_multiplier(monitors: int, bias: float | None) -> None:
    """A reserved one, or no monitor, is no bias."""
    assert by_name(CMIS | {(1, 0): page(_160=bytes([monitors]))}).get("bias_ma[0]") == bias


def test_banks_and_vdm_are_read_where_they_are_advertised() -> None:
    """The second bank has lanes 8 to 15; SNR is an observable whose descriptor has its lane and type."""
    pages = CMIS | {
        (1, 0): page(_142=b"\x41", _160=b"\x04"), (0x11, 1): page(_186=words(100)),
        (0x20, 0): page(_128=b"\x03\x05\x12\x06\x00\x09\x01\x05"), (0x24, 0): page(_128=words(20 * 256, 5248, 77, 0)),
    }  # fmt: skip
    found = by_name(pages)
    assert {name: value for name, value in found.items() if "voltage" not in name and "temp" not in name} == {
        "rx_power_dbm[0]": -10, "rx_power_dbm[7]": -40, "rx_power_dbm[8]": -20, "media_snr_db[3]": 20,
        "host_snr_db[2]": 20.5,
    }  # fmt: skip


def test_other_modules() -> None:
    """SFF-8636 has all in its lower half; a passive cable has no monitors, and another kind is unknown."""
    qsfp = page(_0=b"\x11", _22=words(0xFF00), _26=words(33_000), _34=words(10_000), _42=words(3_500), _50=words(5_000))
    assert by_name({(0, 0): qsfp}) == {
        "module_temperature_c": -1, "module_voltage_v": 3.3, "rx_power_dbm[0]": 0, "bias_ma[0]": 7,
        "tx_power_dbm[0]": -3.01,
    }  # fmt: skip
    assert by_name({(0, 0): page(_0=b"\x19", _2=b"\x80")}) == {}
    assert by_name({(0, 0): page(_0=b"\x03", _14=b"\x30")}) == {}


def test_a_module_of_any_content_is_refused_or_read() -> None:
    """Also of pages that are too short."""
    rng = random.Random(20261129)
    for _ in range(500):
        try:
            module_values(lambda *_: rng.choice((b"\x18", b"\x11", b"")) + rng.randbytes(rng.choice((47, 127, 127))))
            fec_values(rng.randbytes(rng.randrange(80)))
        except Reject:
            continue


class Ethtool:
    """The kernel's side for one netdev; `error` refuses the module, and `free` blocks it until it is set."""

    def __init__(self, pages: Pages, fec: bytes = FEC) -> None:
        self.pages, self.fec = pages, fec
        self.error = 0
        self.free = threading.Event()
        self.free.set()
        self.asked: list[int] = []

    def opened(self) -> EthtoolNetlink:
        """Return a new socket."""
        return EthtoolNetlink(netlink(FakeKernel(self.answer)))

    def answer(self, kind: int, body: bytes) -> Iterable[bytes]:
        """Answer a request."""
        command, found = body[0], dict(attributes(body[4:]))
        if kind == 0x10:
            assert (command, text(found[2])) == (3, "ethtool")
            return [bytes(4) + nest((1, struct.pack("=H", FAMILY)))]
        assert kind == FAMILY and text(dict(attributes(found[1]))[2]) == "ens1np0"
        self.asked.append(command)
        if command == FEC_GET:
            assert number(dict(attributes(found[1]))[3]) == 4  # with statistics
            return [bytes(4) + nest((4, 7), (5, self.fec))]
        assert command == EEPROM_GET and self.free.wait(20)
        if self.error:
            raise OSError(self.error, "")
        place = [number(found[each]) for each in (4, 2, 3, 5)]
        return [bytes(4) + nest((7, memory(self.pages)(*place)))]


async def test_a_row_has_fec_and_module_once_after_each_reading(tmp_path: Path) -> None:
    """Statistics of the driver, which each reading has, precede."""
    write(tmp_path, CARD | {STATISTICS: "NIC statistics:\n  rx_corrected_bits_phy: 12"})
    made = whole(tmp_path, modules=Ethtool(CMIS, FEC + nest((4, u64(99)))).opened)
    assert "module_temperature_c" not in rows(await made.host.read_once())["mlx5_0"]
    await made.host.read_modules()
    found = rows(await made.host.read_once())["mlx5_0"]
    assert (found["module_temperature_c"], found["bias_ma[0]"], found["fec_corrected_codewords"]) == (45.5, 8, 100)
    assert (found["fec_codewords_by_errors[1]"], found["fec_corrected_bits"]) == (5, 12)
    after = rows(await made.host.read_once())["mlx5_0"]
    assert not [name for name in after if name.startswith(("module_temp", "fec_codewords", "rx_power"))]
    assert after["oper_up"] == 1 and after["fec_corrected_bits"] == 12


async def test_a_module_that_refuses_is_left_alone_and_costs_no_fec(tmp_path: Path) -> None:
    """Three refusals are counted; each is a line in the kernel's log, so that an hour passes before the next."""
    write(tmp_path, CARD)
    kernel = Ethtool(CMIS)
    kernel.error = errno.EIO
    made = whole(tmp_path, modules=kernel.opened)
    await made.host.read_once()
    for _ in range(62):
        await made.host.read_modules()
        assert rows(await made.host.read_once())["mlx5_0"]["fec_corrected_codewords"] == 100
    assert (kernel.asked.count(EEPROM_GET), kernel.asked.count(FEC_GET)) == (3, 62)
    assert made.metrics.value("unreadable") == 3
    kernel.error = 0
    await made.host.read_modules()
    await made.host.read_modules()
    assert rows(await made.host.read_once())["mlx5_0"]["module_temperature_c"] == 45.5


async def test_a_module_that_hangs_delays_no_reading(tmp_path: Path) -> None:
    """The rows of the port continue meanwhile."""
    write(tmp_path, CARD)
    kernel = Ethtool(CMIS)
    made = whole(tmp_path, modules=kernel.opened)
    await made.host.read_once()
    kernel.free.clear()
    reading = asyncio.create_task(made.host.read_modules())
    try:
        for _ in range(3):
            assert rows(await made.host.read_once())["mlx5_0"]["oper_up"] == 1
        assert not reading.done()
    finally:
        kernel.free.set()
        await reading
    assert rows(await made.host.read_once())["mlx5_0"]["module_temperature_c"] == 45.5


@pytest.mark.parametrize(("label", "expected"), [("Module0", 51.5), ("asic", None)])
async def test_without_the_family_the_driver_reports_the_temperature(
    tmp_path: Path, label: str, expected: float | None
) -> None:
    """The sensor of the module, and not that of the chip."""
    chip = "sys/class/net/ens1np0/device/hwmon/hwmon3"
    write(tmp_path, CARD | {f"{chip}/temp2_label": label, f"{chip}/temp2_input": "51500"})

    def missing() -> EthtoolNetlink:
        raise OSError(errno.ENOENT, "")

    for modules in (missing, None):
        made = whole(tmp_path, modules=modules)
        await made.host.read_once()
        await made.host.read_modules()
        assert rows(await made.host.read_once())["mlx5_0"].get("module_temperature_c") == expected


async def test_answers_of_any_content_end_no_reading(tmp_path: Path) -> None:
    """None, several, or attributes that are none; each is counted."""
    rng = random.Random(20261130)

    def junk(kind: int, body: bytes) -> Iterable[bytes]:
        if kind == 0x10 and rng.random() < 0.5:
            return [bytes(4) + nest((1, struct.pack("=H", FAMILY)))]
        return [rng.randbytes(rng.randrange(40)) for _ in range(rng.randrange(3))]

    write(tmp_path, CARD)
    made = whole(tmp_path, modules=lambda: EthtoolNetlink(netlink(FakeKernel(junk))))
    for _ in range(100):
        assert rows(await made.host.read_once())["mlx5_0"]["oper_up"] == 1
        await made.host.read_modules()
    assert made.metrics.value("unreadable") > 10


def test_the_real_kernel_has_the_family() -> None:
    """It answers for the loopback, which has neither FEC nor a module."""
    link = EthtoolNetlink()
    try:
        with pytest.raises(OSError, match="not supported"):
            link.fec_statistics("lo")
        with pytest.raises(OSError, match="not supported"):
            link.module_memory("lo", 0, 0, 128)
    finally:
        link.close()
