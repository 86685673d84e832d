"""Texts of sysfs: valid and invalid ones."""

import pytest

from collectors.kernel import values
from collectors.kernel.values import vpd
from streams.wire.errors import Reject


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("18446744073709551614", 2**64 - 2),
        ("18446744073709551615", None),
        ("N/A (no PMA)", None),
        ("N/A", None),
    ],
)
def test_a_counter_is_a_number_or_reported_to_be_none(text: str, value: int | None) -> None:
    """A value that the device does not have is absent, never 0."""
    assert values.counter(text) == value


@pytest.mark.parametrize(
    "text", ["", "-1", "+1", "1.5", "0x10", "1_000", "18446744073709551616", "9" * 40, "１２", "1\n2", "n/a?"]
)
def test_what_is_no_counter_is_refused(text: str) -> None:
    """Python would take underscores, signs and other scripts' digits for numbers."""
    with pytest.raises(Reject):
        values.counter(text)


def test_words_of_four_bytes_wrap_where_64_bits_do() -> None:
    """A 64-bit counter of 4-byte units exceeds 64 bits in bytes."""
    assert values.times(4631917, 4) == 18527668
    assert values.times(2**62, 4) == 0
    assert values.times(None, 4) is None


@pytest.mark.parametrize(
    ("text", "bps"),
    [("100 Gb/sec (4X EDR)", 1e11), ("2.5 Gb/sec (1X SDR)", 2.5e9), ("10 Gb/sec (4X)", 1e10), ("0 Gb/sec", None)],
)
def test_a_rate_is_in_bits_a_second(text: str, bps: float | None) -> None:
    assert values.rate_bps(text) == bps


@pytest.mark.parametrize(("text", "bps"), [("1000", 1e9), ("-1", None), ("4294967295", None), ("0", None)])
def test_a_speed_that_is_not_known_is_none(text: str, bps: float | None) -> None:
    """Drivers report -1, signed or unsigned, for a port that is down."""
    assert values.speed_bps(text) == bps


def test_a_state_without_its_number_is_refused() -> None:
    """And so are speeds, operstates, carriers and flags that are none."""
    for parse, text in (
        (values.port_is_up, "ACTIVE"), (values.port_is_enabled, ""), (values.speed_bps, "-7"),
        (values.speed_bps, "fast"), (values.operstate_is_up, "sideways"), (values.carrier, "2"),
        (values.is_enabled, "up"), (values.rate_bps, "fast"),
    ):  # fmt: skip
        with pytest.raises(Reject):
            parse(text)


def test_up_and_enabled_as_the_kernel_writes_them() -> None:
    """An initializing link carries no traffic yet; `unknown` is absent."""
    assert [values.port_is_up(result) for result in ("4: ACTIVE", "5: ACTIVE_DEFER", "2: INIT", "1: DOWN")] == [
        1,
        1,
        0,
        0,
    ]
    assert [values.port_is_enabled(result) for result in ("5: LinkUp", "2: Polling", "3: Disabled")] == [1, 1, 0]
    assert [values.operstate_is_up(result) for result in ("up", "lowerlayerdown", "dormant", "unknown")] == [
        1,
        0,
        None,
        None,
    ]
    assert [values.is_enabled(result) for result in ("0x1003", "0x1002")] == [1, 0]


def test_names_of_a_device_are_known_by_their_form() -> None:
    """A GUID of zeros is one that a virtual function was not given."""
    assert values.guid("946D:AE03:00aa:bbcc") == "946d:ae03:00aa:bbcc"
    assert values.guid("0000:0000:0000:0000") == values.guid(None) == values.guid("junk") == ""
    assert values.port_guid("fe80:0000:0000:0000:946d:ae03:00aa:bbcc") == "946d:ae03:00aa:bbcc"
    assert values.mac("00:00:00:00:00:00") == ""
    assert values.pci_address("/sys/devices/pci0000:00/0000:00:03.0/0000:1a:00.1/net/eth0") == "0000:1a:00.1"
    assert values.pci_address("/sys/devices/pci0000:00/0000:00:03.0/virtio2") == "0000:00:03.0"


def test_ethtool_prints_names_with_colons_blanks_and_brackets() -> None:
    """The value is what stands behind the last colon; headings have none."""
    text = (
        "NIC statistics:\n   [3]: tx_bytes: 5\n   Queue[0] AllocFails: 2\n     a: -1\n     b: 999999999999999999999\n"
    )
    assert list(values.ethtool_statistics(text)) == [("[3]: tx_bytes", 5), ("Queue[0] AllocFails", 2)]


def test_a_default_route_names_its_netdev() -> None:
    """A route to a part of the world, and the kernel's own over the loopback, are none."""
    ipv4 = (
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
        "bond0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
        "ens1np0\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n"
    )
    ipv6 = f"{'0' * 32} 00 {'0' * 32} 00 fe800000000000000000000000000001 00000400 1 0 00000003 eno1\n" + (
        f"{'0' * 32} 00 {'0' * 32} 00 {'0' * 32} ffffffff 1 0 00200200 lo\n"
    )
    assert values.default_routes(ipv4, ipv6) == {"bond0", "eno1"}
    assert values.default_routes("", "") == frozenset()


def test_a_boot_is_known_by_the_kernels_own_number() -> None:
    """0 stands for unknown."""
    assert values.boot_id("6f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0") == 0x6F1E2D3C4B5A6978
    assert values.boot_id("") == values.boot_id("junk") == 0
    assert values.boot_time_ns("cpu 1 2\nbtime 1700000000\n") == 1_700_000_000 * 10**9
    assert values.boot_time_ns("") == values.boot_time_ns("btime x") == 0


def test_vital_product_data_names_the_part_and_its_restriction() -> None:
    """As far as it makes sense; a size that leads outside ends it."""
    body = b"PN\x05MCX75SN\x06MT2301V3\x0bSMDL=SW_MNG"
    data = b"\x82\x04\x00Card\x90" + len(body).to_bytes(2, "little") + body + b"\x78"
    found = vpd(data)
    assert (found.part_number, found.serial, found.is_restricted) == ("MCX75", "MT2301", True)
    assert vpd(b"") == vpd(b"\xff\xff\xff") == vpd(b"\x90\xff\xffPN")
    assert not vpd(data.replace(b"SW_MNG", b"GENERA")).is_restricted
