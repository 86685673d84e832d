"""Lines of kernel logs in every format that is understood, and what is none."""

import time

import pytest

from collectors.host.lines import MOST_BYTES, Line, parse, record
from streams.wire.errors import Reject

S = 10**9
NOW = 1_795_255_200 * S  # 2026-11-21T10:00:00Z
MESSAGE = "mlx5_core 0000:41:00.0 ens1np0: Link down"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"6,1042,5140900,-;{MESSAGE}", Line(MESSAGE, 5_140_900, None, 1042)),
        (f"4,7,9,-,caller=T1;{MESSAGE}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:41:00.0", Line(MESSAGE, 9, None, 7)),
        (f"<6>[    5.140900] {MESSAGE}", Line(MESSAGE, 5_140_900)),
        (f"[    5.1409] {MESSAGE}", Line(MESSAGE, 5_140_900)),
        (f"[    5.140900][  T412] {MESSAGE}", Line(MESSAGE, 5_140_900)),
        (f"[    5.140900] [    T412] {MESSAGE}", Line(MESSAGE, 5_140_900)),
        (f"kern  :info  : [    5.140900] {MESSAGE}", Line(MESSAGE, 5_140_900)),
        (f"2026-11-21T10:00:00,250000+00:00 [   T412] {MESSAGE}", Line(MESSAGE, None, NOW + S // 4)),
        (f"2026-11-21T10:00:00.25Z gpu17 kernel: [    5.140900] {MESSAGE}", Line(MESSAGE, 5_140_900, NOW + S // 4)),
        (f"2026-11-21T12:00:00.250000+02:00 gpu17 kernel: {MESSAGE}", Line(MESSAGE, None, NOW + S // 4)),
        (f"2026-11-21T10:00:00,250000+00:00 {MESSAGE}", Line(MESSAGE, None, NOW + S // 4)),
        (f"2026-11-21T07:30:00-0230 gpu17 kernel: {MESSAGE}", Line(MESSAGE, None, NOW)),
        (f"Sat 2026-11-21 10:00:00 UTC gpu17 kernel: {MESSAGE}", Line(MESSAGE, None, NOW)),
        (f"Sat 2026-11-21 07:00:00 -03 gpu17 kernel: {MESSAGE}", Line(MESSAGE, None, NOW)),
        (f"{NOW // S}.250000 gpu17 kernel: [    5.140900] {MESSAGE}", Line(MESSAGE, 5_140_900, NOW + S // 4)),
        (f"<6>1 2026-11-21T10:00:00Z gpu17 kernel - - - [    5.140900] {MESSAGE}", Line(MESSAGE, 5_140_900, NOW)),
        (f'<6>1 2026-11-21T10:00:00Z gpu17 kernel - - [a@1 b="c"] {MESSAGE}', Line(MESSAGE, None, NOW)),
        (f"<6>1 2026-11-21T10:00:00Z gpu17 kernel - - - \ufeff{MESSAGE}", Line(MESSAGE, None, NOW)),
        (f"[    5.140900] gpu17 kernel: {MESSAGE}", Line(MESSAGE, 5_140_900)),
        (f"2026-11-21T10:00:00Z kernel: [    5.140900] {MESSAGE}", Line(MESSAGE, 5_140_900, NOW)),
        (f"2026-11-21T10:00:00Z gpu17 kern.warn kernel: {MESSAGE}", Line(MESSAGE, None, NOW)),
        (f"2026-11-21T10:00:00Z kern.warn kernel: {MESSAGE}", Line(MESSAGE, None, NOW)),
        (MESSAGE, Line(MESSAGE)),
    ],
)
def test_the_formats(text: str, expected: Line) -> None:
    """The kernel's message, and both clocks if they are there."""
    assert parse(text.encode(), NOW) == expected


@pytest.mark.parametrize(
    ("text", "is_kernels"),
    [
        (f"14,7,9,-;{MESSAGE}", False),
        (f"<14>[    5.140900] {MESSAGE}", False),
        (f"user  :notice: [    5.140900] {MESSAGE}", False),
        (f"2026-11-21T10:00:00Z gpu17 evil[7]: {MESSAGE}", False),
        (f"Nov 21 10:00:00 gpu17 evil: {MESSAGE}", False),
        (f"Nov 21 10:00:00 gpu17 kernel: {MESSAGE}", True),
        (f"Nov 21 10:00:00.123456 gpu17 kernel: {MESSAGE}", True),
        (f"<14>1 2026-11-21T10:00:00Z gpu17 kernel - - - {MESSAGE}", False),
        (f"<6>1 2026-11-21T10:00:00Z gpu17 evil 7 - - {MESSAGE}", False),
        (f"1795255200.1 gpu17 evil: {MESSAGE}", False),
        (f"7,7,9,-;{MESSAGE}", True),
        (f"Nov 21 10:00:00 kernel: {MESSAGE}", True),
        (f"Nov 21 10:00:00 gpu17 kern.err kernel: {MESSAGE}", True),
        (f"Nov 21 10:00:00 gpu17 kern.err evil: {MESSAGE}", False),
    ],
)
def test_what_a_process_writes_is_not_the_kernels(text: str, is_kernels: bool) -> None:
    """A process that may write to the log cannot take a link down."""
    line = parse(text.encode(), NOW)
    assert (line.from_kernel, line.message) == (is_kernels, MESSAGE)


@pytest.mark.parametrize("ago_days", [0, 1, 40, 300])
def test_a_stamp_without_a_year_is_of_the_newest_year_that_is_not_to_come(ago_days: int) -> None:
    """In the machine's own zone, also over the turn of the year."""
    at_s = NOW // S - ago_days * 86_400
    stamp = time.strftime("%b %d %H:%M:%S", time.localtime(at_s))
    assert parse(f"{stamp} gpu17 kernel: {MESSAGE}".encode(), NOW).at_ns == at_s * S
    with_year = time.strftime("[%a %b %d %H:%M:%S %Y]", time.localtime(at_s))
    for caller in ("", "[   T412] ", "[    C3] "):  # of CONFIG_PRINTK_CALLER
        assert parse(f"{with_year} {caller}{MESSAGE}".encode(), NOW) == Line(MESSAGE, None, at_s * S)


@pytest.mark.parametrize("zone", ["CET", "PST", "AEDT"])
def test_the_name_of_a_zone_is_not_the_host(zone: str) -> None:
    """`journalctl -o short-full` writes the abbreviation of the machine's own zone."""
    stamp = time.strftime("%a %Y-%m-%d %H:%M:%S", time.localtime(NOW // S))
    for host in ("gpu17 ", "GPU ", ""):
        assert parse(f"{stamp} {zone} {host}kernel: {MESSAGE}".encode(), NOW) == Line(MESSAGE, None, NOW)
        assert not parse(f"{stamp} {zone} gpu17 evil[7]: {MESSAGE}".encode(), NOW).from_kernel
    assert parse(f"{stamp.partition(' ')[2]} GPU kernel: {MESSAGE}".encode(), NOW) == Line(MESSAGE, None, NOW)


def test_a_process_that_names_itself_kernel_is_none_by_its_facility() -> None:
    """As `logger -t kernel` with BusyBox; and a host may have the name of a process."""
    for text in ("Nov 21 10:00:00 gpu17 user.notice kernel: x", "[    5.140900] gpu17 evil: x"):
        line = parse(text.encode(), NOW)
        assert not line.from_kernel or line.message == "gpu17 evil: x"


def test_a_stamp_that_no_calendar_has_reports_nothing_of_the_time() -> None:
    """The message is read all the same."""
    for stamp in ("Foo 21 10:00:00", "Feb 31 10:00:00", "2026-13-41T99:00:00Z", "Nov 21 25:61:00"):
        line = parse(f"{stamp} gpu17 kernel: {MESSAGE}".encode(), NOW)
        assert (line.message, line.at_ns) == (MESSAGE, None)


def test_what_is_no_record_is_refused() -> None:
    """A device gives records only, and none is longer than the kernel makes it."""
    for wrong in (b"", b"hello", b"6,1,2", b"6,x,2,-;m", b"6,1,2,-;" + b"m" * MOST_BYTES):
        with pytest.raises(Reject):
            record(wrong)
    with pytest.raises(Reject):
        parse(b"m" * (MOST_BYTES + 1), NOW)
