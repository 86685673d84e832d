"""Targets of the syslog collector: lines with their events, and streams of TCP."""

from collections.abc import Iterator
from datetime import UTC, datetime

from collectors.host.lines import MOST_BYTES
from collectors.syslog.lines import parse
from collectors.syslog.listeners import Framing
from collectors.syslog.tables import classify
from streams.wire.errors import Reject
from tests.fuzz.target import Target

_NOW_NS = int(datetime(2026, 11, 28, 12, tzinfo=UTC).timestamp() * 1e9)


def _line(data: bytes) -> None:
    line = parse(data)
    if line.stamp is not None:
        line.stamp.at_ns(_NOW_NS, None)
    known = classify(line)
    assert known is None or known.port in f"{line.tag}: {line.text}"


def _stream(data: bytes) -> None:
    framing = Framing()
    for start in range(0, len(data), 7):
        assert all(0 < len(line) <= MOST_BYTES for line in framing.add(data[start : start + 7]))


def _seeds() -> Iterator[bytes]:
    yield b"<187>9: r1 RP/0/RP0/CPU0:Nov 28 11:59:58.8 : ifmgr[2]: %PKT_INFRA-LINK-3-UPDOWN : Interface Hu0/0, changed"
    yield b'<28>1 2026-11-28T11:59:58.5Z r7 mib2d 2 SNMP_TRAP_LINK_DOWN [a@1 b="c"] ifIndex 5, ifAdminStatus up(1), ifOp'
    yield b"<189>: 2026 Nov 28 06:59:58 EST: %$ VDC-1 %$ %ETHPORT-3-IF_XCVR_ALARM: Ethernet1/1, Lane 4 - Low Rx Power"
    yield b"Nov 28 11:59:58.1 r9 NOTICE swss#orchagent: :- f: PFC Watchdog detected PFC storm on port Ethernet8, queue index 3"
    yield b'{"message": "<13>Nov 28 11:59:58 r9 xcvrd: Ethernet8: Got SFP inserted event", "host": "relay"}'


TARGETS = (
    Target("syslog-line", _line, (Reject,), _seeds),
    Target("syslog-stream", _stream, (Reject,), lambda: (b"5 <1>ab4 <1>c", b"<1>a\n<1>b\n")),
)
