"""Tests the parsing of syslog lines and the vendors' tables: head, time, and event of lines as devices write them."""

import contextlib
import json
import time
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from collectors.host.lines import MOST_BYTES
from collectors.syslog.lines import parse
from collectors.syslog.stamps import configured_zone
from collectors.syslog.tables import classify, tables
from streams.wire.errors import Reject

NOW_NS = int(datetime(2026, 11, 28, 12, tzinfo=UTC).timestamp() * 1e9)
T = "Nov 28 11:59:58"
XR = "RP/0/RP0/CPU0:"
JUNOS = "ifIndex 5, ifAdminStatus up(1), ifOperStatus down(2), ifName et-0/0/0"

LINES = {
    # line -> host, seconds before its arrival (None: it has no time), event, port, code
    f"<187>9: r1 {XR}{T}.8 : ifmgr[2]: %PKT_INFRA-LINK-3-UPDOWN : Interface HundredGigE0/0/0/4, changed state to Down":
        ("r1", 1.2, "LINK_DOWN", "HundredGigE0/0/0/4", 0),
    f"r1 {XR}{T}.9 : optics_driver[1]: %PKT_INFRA-FM-2-FAULT_CRITICAL : ALARM_CRITICAL :OPTICS RX LOS LANE-2 :CLEAR : "
    "Optics0/0/0/8:": ("r1", 1.1, "SIGNAL_RESTORED", "Optics0/0/0/8", 2),
    f"r1 {XR}{T}.9 : o[1]: %PKT_INFRA-FM-2-FAULT_CRITICAL : ALARM_CRITICAL :OPTICS RX LOS LANE-0 :DECLARE : "
    "Optics0/0/0/8:": ("r1", 1.1, "LOSS_OF_SIGNAL", "Optics0/0/0/8", 0),
    f"r1 {XR}{T}.9 : o[1]: %PKT_INFRA-FM-4-FAULT_MINOR : ALARM_MINOR :OPTICS RX POWER LANE-0 LOW ALARM :DECLARE : "
    "Optics0/0/0/8:": ("r1", 1.1, "OPTICS_ALARM", "Optics0/0/0/8", 0),
    f"{XR}{T} PDT: o[1]: %L2-OPTICS-2-TRANSCEIVER_REMOVED : Optics tranceiver removed from port 0/0/0/8":
        ("", -7 * 3600 + 2, "MODULE_REMOVED", "0/0/0/8", 0),
    "<189>: 2026 Nov 28 06:59:58 EST: %ETHPORT-5-IF_DOWN_LINK_FAILURE: Interface Ethernet1/33 is down (Link failure)":
        ("", 2, "LINK_DOWN", "Ethernet1/33", 0),
    "<189>: 2026 Nov 28 04:59:58 mdt: %ETHPORT-3-IF_DOWN_ADMIN_DOWN: Interface Ethernet1/1(to x) is down (admin)":
        ("", 3600 + 2, "ADMIN_DOWN", "Ethernet1/1", 0),
    f"<187>{T} r3 %$ VDC-1 %$ %ETHPORT-3-IF_XCVR_ALARM: Ethernet1/1, Lane 4 - Low Rx Power Warning":
        ("r3", 2, "OPTICS_ALARM", "Ethernet1/1", 4),
    f"<187>{T} r3 %ETHPORT-4-IF_XCVR_WARNING: Ethernet1/1, Lane 4 - Low Rx Power Warning cleared":
        ("r3", 2, "OPTICS_CLEARED", "Ethernet1/1", 4),
    "<189>5: r5: *Nov 14 08:30:56: %LINK-5-CHANGED: Interface GigabitEthernet2, changed state to administratively down":
        ("r5", None, "ADMIN_DOWN", "GigabitEthernet2", 0),
    f"<189>521: r1: 000519: {T}.699 UTC+01:30: %LINK-SW2_SP-3-UPDOWN: Interface Gi1/0/5, changed state to up":
        ("r1", 5400 + 1.301, "LINK_UP", "Gi1/0/5", 0),
    "<189>34: 2y10w: %BGP-5-ADJCHANGE: neighbor 10.0.0.1 Down BGP Notification sent":
        ("", None, "BGP_DOWN", "10.0.0.1", 0),
    "00:01:01: %SYS-5-RELOAD: Reload requested by console.": ("", None, "DEVICE_REBOOT", "", 0),
    f"<165>{T} r6 Ebra: %LINEPROTO-5-UPDOWN: Line protocol on Interface Ethernet28 (x, changed state to up), "
    "changed state to down": ("r6", 2, "LINK_DOWN", "Ethernet28", 0),
    f"<165>{T} UTC r6 Ebra: %LINEPROTO-5-UPDOWN: Line protocol on Interface Ethernet28, changed state to down":
        ("r6", 2, "LINK_DOWN", "Ethernet28", 0),
    f"<165>{T} 2026 CET r6 Ebra: %LINEPROTO-5-UPDOWN: Line protocol on Interface Ethernet28, changed state to down":
        ("r6", 3602, "LINK_DOWN", "Ethernet28", 0),
    f"<165>{T} EST Ebra: %LINEPROTO-5-UPDOWN: Line protocol on Interface Ethernet28, changed state to down":
        ("EST", 2, "LINK_DOWN", "Ethernet28", 0),
    f"<165>{T} r6 Bgp: %BGP-5-ADJCHANGE: peer 10.0.0.1 (VRF default AS 1) old state Established event Stop "
    "new state Idle": ("r6", 2, "BGP_DOWN", "10.0.0.1", 0),
    f"<165>{T} r6 Bgp: %BGP-5-ADJCHANGE: peer 10.0.0.1 (VRF default AS 1) old state Idle event Start new state Connect":
        ("r6", 2, "", "", 0),
    f"<28>{T} re0.r7 mib2d[2]: SNMP_TRAP_LINK_DOWN: {JUNOS}:1": ("r7", 2, "LINK_DOWN", "et-0/0/0:1", 0),
    f"<28>{T} r7-re1 mib2d[2]: %DAEMON-4-SNMP_TRAP_LINK_DOWN: {JUNOS}": ("r7", 2, "LINK_DOWN", "et-0/0/0", 0),
    f"<28>{T} r7 mib2d[2]: SNMP_TRAP_LINK_DOWN: {JUNOS.replace('Status up(1)', 'Status down(2)')}":
        ("r7", 2, "ADMIN_DOWN", "et-0/0/0", 0),
    f'<28>1 2026-11-28T11:59:58.5Z r7 mib2d 2 SNMP_TRAP_LINK_DOWN [junos@2636.1 a="x\\]"] {JUNOS}':
        ("r7", 1.5, "LINK_DOWN", "et-0/0/0", 0),
    f"<28>{T} r7 chassisd[1]: sfp-0/0/6 link 6 SFP receive power low  alarm set":
        ("r7", 2, "OPTICS_ALARM", "sfp-0/0/6", -1),
    f"<28>{T} r7 craftd[1]:  Alarm cleared: Fan color=RED, class=CHASSIS, reason=Fan 1 Failure":
        ("r7", 2, "HARDWARE_CLEARED", "", 0),
    "<180>1 2026-11-28T11:59:58Z r8 sr_chassis_mgr - - -  chassis|3|3|9|W: The subinterface ethernet-1/31.0 is now "
    "down for reason: port-down": ("r8", 2, "LINK_DOWN", "ethernet-1/31.0", 0),
    "<180>1 2026-11-28T11:59:58Z r8 sr_chassis_mgr - - - chassis|3|3|9|W: Interface ethernet-1/31 is now down for "
    "reason: port-admin-disabled": ("r8", 2, "ADMIN_DOWN", "ethernet-1/31", 0),
    "<180>1 2026-11-28T11:59:58Z r8 sr_bgp_mgr - - - bgp|3|3|9|W: Peer 10.0.0.1 moved from higher state ESTABLISHED to "
    "lower state IDLE due to event STOP": ("r8", 2, "BGP_DOWN", "10.0.0.1", 0),
    f"{T}.1 r9 NOTICE swss#orchagent: :- report_pfc_restored: PFC Watchdog storm restored on port Ethernet8, "
    "queue index 3, queue id 0x1 and port id 0x2.": ("r9", 1.9, "PFC_RESTORED", "Ethernet8", 3),
    f"{T}.1 r9 NOTICE swss#orchagent: :- report_pfc_storm: PFC Watchdog detected PFC storm on port Ethernet8, "
    "queue index 3, queue id 0x1": ("r9", 1.9, "PFC_STORM", "Ethernet8", 3),
    f"{T}.1 r9 NOTICE swss#orchagent: :- updatePortOperStatus: Port Ethernet8 oper state set from up to down":
        ("r9", 1.9, "LINK_DOWN", "Ethernet8", 0),
    f"{T} r9 NOTICE pmon#xcvrd[29]: Ethernet8: Got SFP removed event": ("r9", 2, "MODULE_REMOVED", "Ethernet8", 0),
    f"{T} r9 WARNING pmon#thermalctld: Fan fault warning cleared: fan1": ("r9", 2, "HARDWARE_CLEARED", "", 0),
    f"<13>{T} r9 bgpd[1]: [M59KS-A3ZXZ] %ADJCHANGE: neighbor swp1(leaf1) in vrf default Down Interface down":
        ("r9", 2, "BGP_DOWN", "swp1", 0),
    "2026-11-28T11:59:58.250+00:00 c1 switchd[12]: nic_set_carrier: swp1: setting kernel carrier: down":
        ("c1", 1.75, "LINK_DOWN", "swp1", 0),
    "<186>Nov 28 2026 19:59:58+08:00 r10 %%01IFNET/2/linkDown_clear(l):CID=0x8;The interface status changes. "
    "(ifName=GE1/0/1, AdminStatus=UP, OperStatus=UP)": ("r10", 2, "LINK_UP", "GE1/0/1", 0),
    "<165>1 2026-11-28T11:59:58Z r11 dn_alm 6 - - Node.1-Unit.1:PRI [event], Dell EMC (OS10) %IFM_OSTATE_DN: Interface "
    "operational state is down :ethernet1/1/12": ("r11", 2, "LINK_DOWN", "ethernet1/1/12", 0),
    "<165>1 2026-11-28T11:59:58Z r11 dn_alm 6 - - Node.1-Unit.1:PRI [event], Dell EMC (OS10) %IFM_OSTATE_UP: Interface "
    "operational state is up :ethernet1/1/12:4": ("r11", 2, "LINK_UP", "ethernet1/1/12:4", 0),
    f"<188>{T} r12 TMNX: 169 Base SNMP-WARNING-linkDown-2004 [1/1/c1/1]:  Interface 1/1/c1/1 is not operational":
        ("r12", 2, "LINK_DOWN", "1/1/c1/1", 0),
    f"<188>{T} r13 %%10IFNET/3/PHY_UPDOWN: Physical state on the interface FortyGigE1/0/53 changed to down.":
        ("r13", 2, "LINK_DOWN", "FortyGigE1/0/53", 0),
    f"<188>{T} 2026 r13 %%10IFNET/5/LINK_UPDOWN: Line protocol state on the interface FortyGigE1/0/53 changed to up.":
        ("r13", 2, "LINK_UP", "FortyGigE1/0/53", 0),
    "<188>%Nov 28 11:59:58:500 2026 r13 IFNET/3/PHY_UPDOWN: Physical state on the interface X1/0/1 changed to down.":
        ("r13", 1.5, "LINK_DOWN", "X1/0/1", 0),
    f"<187>7: r1 0/RP0/ADMIN0:{T}.5 : envmon[3]: %PKT_INFRA-FM-3-FAULT_MAJOR : ALARM_MAJOR :FAN TRAY :DECLARE : "
    "0/FT1: ":
        ("r1", 1.5, "HARDWARE_FAULT", "", 0),
    f"<189>7: r1 LC/0/0/CPU0:{T}.5 : bfd_agent[1]: %L2-BFD-6-SESSION_STATE_DOWN : BFD session to neighbor 10.1.1.1 on "
    "interface HundredGigE0/0/0/1 has gone down. Reason: Echo": ("r1", 1.5, "BFD_DOWN", "HundredGigE0/0/0/1", 0),
    f"<189>{T} r6 Bfd: %BFD-5-STATE_CHANGE: peer (vrf:default, ip:10.0.0.2, intf:Ethernet1, srcPort:1) changed state "
    "from Up to Down diag None": ("r6", 2, "BFD_DOWN", "Ethernet1", 0),
    "<189>2026 Nov 28 11:59:58.500 r3 %ETHPORT-5-IF_DOWN_NONE: Interface Ethernet1/33 is down(None)":
        ("r3", 1.5, "LINK_DOWN", "Ethernet1/33", 0),
    f"<30>{T} c1 smond[8]: Fan1(Fan Tray 1): state changed from OK to BAD": ("c1", 2, "HARDWARE_FAULT", "", 0),
    "<165>1 2026-11-28T11:59:58Z r11 dn_alm 6 - - Node.1-Unit.1:PRI [event], Dell (OS10) %BGP_NBR_BKWD_STATE_CHG: "
    "Backward state change occurred Hold Time expired for Nbr:10.0.0.1 VRF:default":
        ("r11", 2, "BGP_DOWN", "10.0.0.1", 0),
    # A relay puts its head before the device's, whose time and host count.
    f"<187>Nov 28 12:00:00 relay 521: r1: {T}: %LINK-3-UPDOWN: Interface Gi1/0/5, changed state to up":
        ("r1", 2, "LINK_UP", "Gi1/0/5", 0),
    f"<187>Nov 28 12:00:00 10.0.0.9 <187>{T} r2 %ETHPORT-5-IF_UP: Interface Ethernet1/14 is up in mode trunk":
        ("r2", 2, "LINK_UP", "Ethernet1/14", 0),
    f"<187>{T} 2001:db8::1 %LINK-3-UPDOWN: Interface Gi1/0/5, changed state to up":
        ("2001:db8::1", 2, "LINK_UP", "Gi1/0/5", 0),
    json.dumps({"message": f"<13>{T} r9 xcvrd: Ethernet8: Got SFP inserted event", "host": "relay"}):
        ("r9", 2, "MODULE_INSERTED", "Ethernet8", 0),
    json.dumps({"message": "Ethernet8: Got SFP inserted event", "host": "r9", "timestamp": "2026-11-28T11:59:58Z"}):
        ("r9", 2, "MODULE_INSERTED", "Ethernet8", 0),
    # Lines that quote a message, and messages that no table knows.
    f"<187>{T} r1 AAA[1]: user admin ran: send log %LINK-3-UPDOWN: Interface Gi1/0/5, changed state to down":
        ("r1", 2, None, "", 0),
    f"<187>{T} r1 %PARSER-5-CFGLOG_LOGGEDCMD: command: %LINK-3-UPDOWN: Interface Gi1/0/5, changed state to down":
        ("r1", 2, None, "", 0),
    f"<187>{T} r1 sshd[4]: Failed password for Port Ethernet8 oper state set from up to down": ("r1", 2, None, "", 0),
}  # fmt: skip


@pytest.mark.parametrize("text", LINES)
def test_a_line_has_its_host_its_time_and_its_event(text: str) -> None:
    """As devices of each vendor write it; an unset clock and an uptime are no time."""
    host, ago_s, event, port, code = LINES[text]
    line = parse(text.encode())
    at_ns = None if line.stamp is None else line.stamp.at_ns(NOW_NS, None)
    assert (line.host, None if at_ns is None else (NOW_NS - at_ns) / 1e9) == (host, ago_s)
    known = classify(line)
    if event is None:
        assert known is None
    else:
        assert known is not None
        kind = known.kind.name if known.kind is not None else ""
        assert (kind, known.port, known.code) == (event, port, code)


@pytest.mark.parametrize(
    ("text", "repeats", "event"),
    [
        ("<187>: 2026 Nov 28 07:00:00 EST: last message repeated 2 times", 2, None),
        (f"<187>{T} r1 message repeated 7 times: [ Ethernet8: Got SFP removed event]", 7, "MODULE_REMOVED"),
        (
            f"<187>{T} r1 %LINK-3-UPDOWN: Interface Gi1/0/5, changed state to up (message repeated 7 times)",
            7,
            "LINK_UP",
        ),
    ],
)
def test_a_repetition_is_a_count_and_no_event_of_its_own(text: str, repeats: int, event: str | None) -> None:
    """A line that only counts repetitions of the last one has no text."""
    line = parse(text.encode())
    known = classify(line)
    assert (line.repeats, known.kind.name if known and known.kind else None) == (repeats, event)
    assert bool(line.text) is (event is not None)


@pytest.mark.parametrize(
    ("text", "zone", "ago_s"),
    [
        ("Nov 28 06:59:58", "America/New_York", 2),
        ("Nov 28 17:29:58", "Asia/Kolkata", 2),
        ("Nov 28 17:29:58 IST", "Asia/Kolkata", 2),
        ("Nov 28 20:59:58", "UTC+9", 2),
        ("Nov 28 11:59:58Z", "America/New_York", 2),
        ("Dec 31 23:59:58", "", -33 * 86_400 - 12 * 3600 + 2),
        ("Feb 29 00:00:00", "", None),
        ("Nov 31 00:00:00", "", None),
        ("Nov 28 24:00:00", "", None),
    ],
)
def test_a_zone_of_the_device_and_the_nearest_year_date_a_line(text: str, zone: str, ago_s: float | None) -> None:
    """A zone that the line writes as an offset precedes; an impossible date is none."""
    line = parse(f"{text} r1 x: y".encode() if ":" in text and "IST" not in text else f"{text}: %X-1-Y: z".encode())
    at_ns = None if line.stamp is None else line.stamp.at_ns(NOW_NS, configured_zone(zone))
    assert (None if at_ns is None else (NOW_NS - at_ns) / 1e9) == ago_s


def test_a_line_of_the_last_year_and_of_the_next_is_of_the_nearest_year() -> None:
    """At the turn of a year, and on 29 February."""
    for text, near, expected in (
        ("Dec 31 23:59:58", datetime(2027, 1, 1, tzinfo=UTC), datetime(2026, 12, 31, 23, 59, 58, tzinfo=UTC)),
        ("Jan  1 00:00:02", datetime(2026, 12, 31, 23, 59, tzinfo=UTC), datetime(2027, 1, 1, 0, 0, 2, tzinfo=UTC)),
        ("Feb 29 00:00:02", datetime(2028, 2, 29, tzinfo=UTC), datetime(2028, 2, 29, 0, 0, 2, tzinfo=UTC)),
    ):
        stamp = parse(f"{text} r1 x: y".encode()).stamp
        assert stamp is not None
        assert stamp.at_ns(int(near.timestamp() * 1e9), None) == int(expected.timestamp() * 1e9)
    assert configured_zone("Europe/Berlin") == ZoneInfo("Europe/Berlin")
    with pytest.raises(ValueError, match="unknown zone 'Mars'"):
        configured_zone("Mars")


@pytest.mark.parametrize("data", [b"", b"\0\0\n", b"x" * (MOST_BYTES + 1), b"{", b'{"host": "x"}', b'{"message": 5}'])
def test_what_is_no_line_is_refused(data: bytes) -> None:
    """Empty, oversized, or JSON without a message."""
    with pytest.raises(Reject):
        parse(data)


HOSTILE = [
    "A" * 8000, " " * 8000, "1: " * 2600, "a: " * 2600, "ALARM_X :OPTICS " + "A " * 3900, "[" * 8000, "%" * 8000,
    "sfp-0/0/6 " + " alarm " * 1100, "%" + "A-" * 3900, ":" * 8000, "1.1" * 2600, "ifName=" * 1100, "0/" * 3900,
    "<1>" * 2600, "Nov 28 11:59:58 " * 480, "{" * 8000, "re0." * 1900, "A_" * 3900, "a.a-" * 1900,
    "Line protocol on Interface x (" * 260,
]  # fmt: skip


@pytest.mark.parametrize(
    "begin",
    ["", f"<187>{T} r1 ", "%PKT_INFRA-FM-2-FAULT_MINOR : ", "%L2-OPTICS-2-TRANSCEIVER_REMOVED : ",
     "<1>1 2026-11-28T11:59:58Z r1 a - - - "],
)  # fmt: skip
def test_no_content_costs_more_than_milliseconds(begin: str) -> None:
    """A pattern that backtracks would stop the collector; all of them are bounded."""
    for text in HOSTILE:
        begun = time.process_time()
        with contextlib.suppress(Reject):
            classify(parse((begin + text)[:MOST_BYTES].encode()))
        assert time.process_time() - begun < 0.25, (begin, text[:20])


def test_the_tables_have_their_sources_and_no_rule_twice() -> None:
    """A date, a source, and for each mnemonic the part of the vendors that writes it."""
    assert len(tables()) >= 6
    for table in tables():
        assert table.source
        rules = [(rule.mnemonic, rule.facility, rule.text.pattern) for rule in table.rule]
        assert len(set(rules)) == len(rules)
