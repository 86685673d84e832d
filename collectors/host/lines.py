"""Parses one line of a kernel log in any format to the kernel's message and its time, and dates it. Pure.

Formats: records of `/dev/kmsg` (Documentation/ABI/testing/dev-kmsg), `dmesg` with and without levels, `dmesg -T` and
`--time-format iso`, and the files of rsyslog and journald in the traditional and the ISO format, of RFC 5424, of
`journalctl -o short-precise`, `short-full`, `short-unix` and `short-monotonic`, of BusyBox, and without a host name.

The kernel stamps its log with the CPU's clock (`local_clock`), which is not disciplined: an error of 50 parts in a
million is two minutes in a month, and `dmesg -T` has the same error. A line that is read when it is written shows it.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from streams.wire.errors import Reject

MOST_BYTES = 8192
"""The maximum size of a /dev/kmsg record (CONSOLE_EXT_LOG_MAX); a longer line of a file is not from the kernel."""

_S = 1_000_000_000
_A = re.ASCII
_RECORD = re.compile(r"(\d{1,4}),(\d{1,19}),(\d{1,18}),[^;\n]{0,200};([^\n]*)", _A)
_PRIORITY = re.compile(r"<(\d{1,4})>", _A)
_LEVEL = re.compile(r"(\w{1,10}) *:(\w{1,10}) *: ", _A)
_SINCE_BOOT = re.compile(r"\[ *(\d{1,9})\.(\d{1,9})\] ?", _A)
_CALLER = re.compile(r"\[ *[TC]\d{1,8}\] ?", _A)
"""The thread or CPU (CONFIG_PRINTK_CALLER), which dmesg writes after a time in any form."""
_ISO = re.compile(
    r"([A-Z][a-z]{2} )?\[?(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?"
    r"(Z|[+-]\d\d:?\d\d| UTC|(?(1) (?:[A-Z]{3,5}|[+-]\d\d(?:\d\d)?)|(?!)))?\]? ",
    _A,
)
"""The abbreviation of a zone, `CET` or `-03`, is written with a weekday only: without one it may be the host's name."""
_UNIX = re.compile(r"(\d{9,10})\.(\d{1,9}) ", _A)
_RFC5424 = re.compile(r"\d{1,2} (?=\d{4}-\d\d-\d\dT)", _A)
_FIELDS = re.compile(r"\S{1,255} (\S{1,64}) \S{1,128} \S{1,32} (?:-|(?:\[[^\]]{0,2000}\]){1,16}) ?\ufeff?", _A)
"""Host, application, process and message ids, structured data, and the mark of UTF-8 of RFC 5424."""
_CTIME = re.compile(r"\[(?:[A-Z][a-z]{2}) ([A-Z][a-z]{2}) +(\d{1,2}) (\d\d):(\d\d):(\d\d) (\d{4})\] ?", _A)
_SYSLOG = re.compile(r"([A-Z][a-z]{2}) +(\d{1,2}) (\d\d):(\d\d):(\d\d)(?:\.\d{1,9})? ", _A)
_TAG = re.compile(
    r"(?:kern\.[a-z]{1,8} )?(kernel)(?:\[\d{1,10}\])?: ?"
    r"|\S{1,255} (?:kern\.[a-z]{1,8} )?([\w./-]{1,64})(?:\[\d{1,10}\])?: ?", _A
)  # fmt: skip
"""The host, BusyBox's facility and level, and the tag. A facility other than the kernel's makes it no kernel line."""
_OF_HOST = re.compile(r"\S{1,255} kernel: ?", _A)
"""Follows the kernel's own time in the lines of `journalctl -o short-monotonic` only."""
MONTHS = {"JanFebMarAprMayJunJulAugSepOctNovDec"[at : at + 3]: at // 3 + 1 for at in range(0, 36, 3)}
_DAY_NS = 86_400 * _S


@dataclass(frozen=True, slots=True)
class Line:
    """A kernel message.

    `since_boot_us` is by the kernel's clock, `at_ns` by the file's writer; each is None if the line has no such time.
    `sequence` is the number of a /dev/kmsg record. If `from_kernel` is False, another process wrote it.
    """

    message: str
    since_boot_us: int | None = None
    at_ns: int | None = None
    sequence: int | None = None
    from_kernel: bool = True


def parse(data: bytes, now_ns: int) -> Line:
    """Parse one line or record; a line without a time is valid. Raises Reject for an oversized line."""
    if len(data) > MOST_BYTES:
        raise Reject(f"a line of {len(data)} bytes")
    text = data.decode("utf-8", "replace")
    if record := _RECORD.match(text):
        return _record(record)
    if result := _PRIORITY.match(text):
        tail = text[result.end() :]
        version = _RFC5424.match(tail)
        rest = _after_time(tail, now_ns) if version is None else _after_time(tail[version.end() :], now_ns, _FIELDS)
        return rest if int(result[1]) < 8 else _is_foreign(rest)
    if level := _LEVEL.match(text):
        rest = _after_time(text[level.end() :], now_ns)
        return rest if level[1] == "kern" else _is_foreign(rest)
    return _after_time(text, now_ns)


def record(data: bytes) -> Line:
    """Parse one record of /dev/kmsg; raises Reject if it is invalid."""
    if len(data) > MOST_BYTES or not (result := _RECORD.match(data.decode("utf-8", "replace"))):
        raise Reject(f"no record of a kernel log: {data[:40]!r}")
    return _record(result)


def _record(text: re.Match[str]) -> Line:
    """Convert a match to a Line: the kernel marks records of other processes with a facility above 0."""
    return Line(text[4], int(text[3]), None, int(text[2]), from_kernel=int(text[1]) < 8)


def _is_foreign(line: Line) -> Line:
    return Line(line.message, line.since_boot_us, line.at_ns, line.sequence, from_kernel=False)


def _after_time(text: str, now_ns: int, header: re.Pattern[str] = _TAG) -> Line:
    at_ns, rest, is_syslog = _wall_time(text, now_ns)
    from_kernel = True
    if is_syslog:
        tag = header.match(rest)
        rest, from_kernel = (rest[tag.end() :], "kernel" in tag.groups()) if tag else (rest, False)
    since_boot_us = None
    if result := _SINCE_BOOT.match(rest):
        since_boot_us = int(result[1]) * 1_000_000 + int(result[2].ljust(6, "0")[:6])
        rest = rest[result.end() :]
    if caller := _CALLER.match(rest):
        rest = rest[caller.end() :]
    if result and not is_syslog and (tag := _OF_HOST.match(rest)):
        rest = rest[tag.end() :]
    return Line(rest.rstrip("\r\n"), since_boot_us, at_ns, None, from_kernel)


def _wall_time(text: str, now_ns: int) -> tuple[int | None, str, bool]:
    """Return the time at the start of a line, the rest, and True if a host name and a tag may follow."""
    if result := _ISO.match(text):
        by_dmesg = "," in result[0]  # only dmesg writes a comma, and no host or tag
        return _iso(result), text[result.end() :], not by_dmesg
    if result := _UNIX.match(text):
        return int(result[1]) * _S + int(result[2].ljust(9, "0")), text[result.end() :], True
    if result := _CTIME.match(text):
        month, day, hour, minute, second, year = result.groups()
        return _local(int(year), month, day, hour, minute, second), text[result.end() :], False
    if result := _SYSLOG.match(text):
        return _yearless(result, now_ns), text[result.end() :], True
    return None, text, False


def _iso(text: re.Match[str]) -> int | None:
    _, date, clock, fraction, zone = text.groups()
    zone = (zone or "").strip().replace("UTC", "Z")
    zone = "" if zone.isalpha() and zone != "Z" else zone
    try:  # without a zone, the time is in the machine's zone, and so is that with another name
        return int(datetime.fromisoformat(f"{date}T{clock}{zone}").timestamp()) * _S + int(
            (fraction or "0").ljust(9, "0")
        )
    except (ValueError, OverflowError):
        return None


def _yearless(text: re.Match[str], now_ns: int) -> int | None:
    """Return the time in the latest year that is not in the future; clocks and zones may differ by a day."""
    year = time.localtime(now_ns // _S).tm_year
    at_ns = _local(year + 1, *text.groups())
    for earlier in (year, year - 1):
        if at_ns is not None and at_ns <= now_ns + _DAY_NS:
            break
        at_ns = _local(earlier, *text.groups())
    return at_ns


def _local(year: int, month: str, day: str, hour: str, minute: str, second: str) -> int | None:
    """Return the time in the machine's own zone, which the writers of such lines use."""
    if month not in MONTHS:
        return None
    try:
        datetime(year, MONTHS[month], int(day), int(hour), int(minute), min(int(second), 59), tzinfo=UTC)
        return int(time.mktime((year, MONTHS[month], int(day), int(hour), int(minute), int(second), 0, 0, -1))) * _S
    except (ValueError, OverflowError):
        return None


_US = 1000
_BACKWARDS_US = 5_000_000
"""Lines may be slightly out of order; a larger step back means another boot."""
_AGREE_NS = 2_000_000_000
"""Tolerance between a stamp in whole seconds and the kernel's clock within one boot."""


def system_boot_ns() -> int:
    """Return the boot time of the running kernel, when its clock was 0, in Unix ns.

    The kernel's monotonic clock stops during a suspend, as the log's clock does. A step of the time of day moves the
    boot time, and older stamps get the corrected time.
    """
    return time.time_ns() - time.monotonic_ns()  # noqa: TID251 — the two clocks are what is compared here


@dataclass(slots=True)
class Times:
    """Computes the time of each line, in the order in which the lines were written.

    `zero` returns the boot time in Unix ns, 0 if unknown. `boot_zero_ns` is the lines' boot time if they are from an
    earlier boot; else 0. `lag_ns` is the known delay of the log's clock behind the time of day.
    """

    zero: Callable[[], int]
    lag_ns: int = 0
    boot_zero_ns: int = 0
    last_us: int = 0

    def at_ns(self, line: Line, now_ns: int, waited_ns: int | None) -> int | None:
        """Return the time of a line; None if it is unknown.

        `waited_ns` is the longest possible time between writing and reading the line, None if unknown.
        """
        if line.since_boot_us is None:
            return None if line.at_ns is None else min(line.at_ns, now_ns)
        if line.since_boot_us < self.last_us - _BACKWARDS_US:
            self.boot_zero_ns = self.lag_ns = 0
            self.last_us = line.since_boot_us
        self.last_us = max(self.last_us, line.since_boot_us)
        zero_ns = self.zero_ns()
        if not zero_ns:
            return None if line.at_ns is None else min(line.at_ns, now_ns)
        bare_ns = zero_ns + line.since_boot_us * _US
        if waited_ns is not None and not self.boot_zero_ns and line.at_ns is None:
            # The line was written within the last `waited_ns`: the clock's error is between these two.
            self.lag_ns = min(max(self.lag_ns, now_ns - bare_ns - waited_ns), now_ns - bare_ns)
        at_ns = bare_ns + self.lag_ns
        if line.at_ns is not None and abs(at_ns - line.at_ns) > _AGREE_NS:
            return min(line.at_ns, now_ns)  # another boot, or a wrong clock: use the writer's time
        return min(at_ns, now_ns)

    def zero_ns(self) -> int:
        """Return the boot time of the lines' boot; 0 if unknown."""
        return self.boot_zero_ns or self.zero()
