"""Tests what the lines of devices become: identity, ports, clocks, limits, and one event for each transition."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from collectors.core.context import CollectorContext, Emitter
from collectors.core.metrics import CollectorMetrics
from collectors.host.lines import MOST_BYTES
from collectors.syslog.device import Arrival
from collectors.syslog.listeners import Framing
from collectors.syslog.params import Params
from collectors.syslog.receiver import Receiver
from lab.constants import params_of
from streams.fabric.inventory import Device, Inventory, Link, PortName
from streams.wire.errors import Misconfigured, Reject
from streams.wire.models import Cause, CollectorStatus, Condition, Event, EventKind, Message, Source
from tests.fakes.publisher import RecordingPublisher
from tests.worlds.small_world import findings, play

NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)
ADDRESS = "192.0.2.1"
SWITCH = {"name": "leaf1", "addresses": [ADDRESS]}
RELAY = {"name": "log1", "addresses": ["192.0.2.9"], "relay": True}
INVENTORY = Inventory(
    devices=(
        Device("leaf1", "switch", "T0"),
        Device("Leaf2.example.com", "switch", "T0"),
        *(Device(f"h{number}", "host", "host") for number in range(1, 5)),
    ),
    links=(
        Link("leaf1", "HundredGigE0/0/0/8", "h1", "e0", "host-link"),
        Link("leaf1", "et-0/0/6", "h2", "e0", "host-link"),
        Link("leaf1", "Ethernet7", "h3", "e0", "host-link"),
        Link("leaf1", "Ethernet70", "h4", "e0", "host-link"),
    ),
    ports=(PortName("leaf1", "Ethernet7", "swp7"), PortName("leaf1", "Ethernet70", "192.0.2.70")),
)


class Reception:
    """A receiver, its events, and its time: seconds after noon."""

    def __init__(self, inventory: Inventory | None = None, **settings: Any) -> None:
        self.published, self.metrics = RecordingPublisher(), CollectorMetrics()
        context = CollectorContext(self.published, "test", self.metrics)
        emitter = Emitter(self.published, "test", 1, Source.SOURCE_SYSLOG)
        self.params = params_of(Params, {"inputs": ["udp://:514"], "targets": [SWITCH]} | settings)
        self.receiver = Receiver(self.params, context, emitter)
        self.receiver.configure(self.params.all_targets(), inventory or Inventory())

    def add(self, text: str, s: float = 0, address: str | None = ADDRESS, **how: Any) -> None:
        """Receive a line at a time, from an address or, without one, from a file."""
        sender = None if address is None else self.receiver.sender(address)
        if address is not None and sender is None:
            self.receiver.refuse(address)
            return
        arrival = Arrival(how.pop("path", "udp"), int((NOON + timedelta(seconds=s)).timestamp() * 1e9), s, **how)
        self.receiver.receive(text.encode(), sender, arrival)

    def events(self) -> list[tuple[str, str, str]]:
        return [(one.device, one.port, one.kind.name) for one in self.published.of(Event)]

    def times(self) -> list[float]:
        """Return the times of the events, as seconds after noon."""
        return [round(one.at_ns / 1e9 - NOON.timestamp(), 6) for one in self.published.of(Event)]


def stamped(s: float, text: str, host: str = "leaf1", fraction: bool = True) -> str:
    at = NOON + timedelta(seconds=s)
    return f"<187>{at:%b %d %H:%M:%S}{f'.{at:%f}' if fraction else ''} {host} {text}"


def link(s: float, state: str, port: str = "HundredGigE0/0/0/8", family: str = "LINK", **head: Any) -> str:
    what = f"%LINEPROTO-5-UPDOWN: Line protocol on Interface {port}"
    what = what if family == "LINEPROTO" else f"%PKT_INFRA-LINK-3-UPDOWN : Interface {port}"
    return stamped(s, f"ifmgr[1]: {what}, changed state to {state}", **head)


ADMIN = "ifmgr[1]: %PKT_INFRA-LINK-5-CHANGED : Interface HundredGigE0/0/0/8, changed state to Administratively Down"
SEQUENCES = {
    "both families": ([link(0, "Down"), link(0.1, "Down", family="LINEPROTO"), link(3, "Up"),
                       link(3.1, "Up", family="LINEPROTO")], "DU"),
    "the protocol first": ([link(0, "Down", family="LINEPROTO"), link(0.1, "Down"), link(3, "Up", family="LINEPROTO"),
                            link(3, "Up")], "DU"),
    "late lines of the protocol": ([link(0, "Down"), link(0.018, "Up"), link(0.02, "Down", family="LINEPROTO"),
                                    link(0.02, "Up", family="LINEPROTO")], "DU"),
    "the protocol alone": ([link(0, "down", family="LINEPROTO"), link(9, "up", family="LINEPROTO")], "DU"),
    "the protocol, long after": ([link(0, "Up"), link(60, "down", family="LINEPROTO")], "UD"),
    "flaps of 18 ms": ([link(n * 0.018, state) for n, state in enumerate(["Down", "Up"] * 4)], "DUDUDUDU"),
    "flaps within a second, in whole seconds": (
        [link(0, state, fraction=False) for state in ["Down", "Up", "Down", "Up", "Down"]], "DUDUD"),
    "a shutdown of IOS XR and its end": ([stamped(0, ADMIN), link(60, "Down"), link(62, "Up")], "sSDU"),
    "a shutdown of IOS, whose down follows": ([stamped(0, ADMIN), link(1, "down", family="LINEPROTO"), link(60, "up")],
                                              "sSU"),
    "a shutdown, twice": ([stamped(0, ADMIN), stamped(1, ADMIN)], "s"),
    "a down again after a lost up": ([link(0, "Down"), link(60, "Down")], "DD"),
}  # fmt: skip
LETTERS = {"D": "LINK_DOWN", "U": "LINK_UP", "s": "ADMIN_DOWN", "S": "ADMIN_UP"}


@pytest.mark.parametrize("name", SEQUENCES)
def test_one_transition_is_one_event(name: str) -> None:
    """LINK and LINEPROTO are one, flaps are not; what a person does is no fault of the link. Times increase."""
    lines, expected = SEQUENCES[name]
    own = Reception()
    for text in lines:
        found = re.search(r"12:(\d\d):(\d\d)(\.\d+)?", text)
        assert found is not None
        own.add(text, int(found[1]) * 60 + int(found[2]) + float(found[3] or 0) + 0.2)
    assert [LETTERS[letter] for letter in expected] == [kind for _, _, kind in own.events()]
    times = own.times()
    pairs = list(zip(times, own.events(), strict=True))
    assert all(a[0] < b[0] or "ADMIN" in a[1][2] for a, b in pairwise(pairs))


@pytest.mark.parametrize(
    ("port", "expected"),
    [
        ("HundredGigE0/0/0/8", "HundredGigE0/0/0/8"), ("Hu0/0/0/8", "HundredGigE0/0/0/8"), ("Et7", "Ethernet7"),
        ("Optics0/0/0/8", "HundredGigE0/0/0/8"), ("0/0/0/8", "HundredGigE0/0/0/8"), ("sfp-0/0/6", "et-0/0/6"),
        ("swp7", "Ethernet7"), ("Ethernet7", "Ethernet7"), ("Ethernet9", "Ethernet9"),
        ("GigabitEthernet7", "GigabitEthernet7"),
    ],
)  # fmt: skip
def test_a_port_has_the_name_of_the_inventory(port: str, expected: str) -> None:
    """Abbreviations, modules and aliases of the inventory; a name that fits no port, or several, stays."""
    own = Reception(INVENTORY)
    own.add(stamped(0, f"%SFF8472-5-THRESHOLD_VIOLATION: {port}: Rx power low alarm; Operating value: -40.0 dBm"))
    assert own.events() == [("leaf1", expected, "OPTICS_ALARM")]


def test_without_an_inventory_ports_are_those_of_earlier_lines() -> None:
    """A module is named by the numbers of its port."""
    own = Reception()
    removed = "optics[1]: %L2-OPTICS-2-TRANSCEIVER_REMOVED : Optics removed from 0/0/0/8"
    for text in (stamped(0, removed), link(1, "Down"), stamped(2, removed)):
        own.add(text, 3)
    assert [port for _, port, _ in own.events()] == ["0/0/0/8", "HundredGigE0/0/0/8", "HundredGigE0/0/0/8"]


@pytest.mark.parametrize(
    "port",
    ["et-0/0/1.0", "Ethernet1/1.100", "Vlan10", "port-channel5", "Bundle-Ether1", "ae0", "mgmt0", "Loopback0",
     "MgmtEth0/RP0/CPU0/0"],
)  # fmt: skip
def test_what_is_no_port_of_the_fabric_is_passed_over_and_counted(port: str) -> None:
    """Sub-interfaces follow their port, channels their members."""
    own = Reception()
    own.add(link(0, "Down", port))
    assert (own.events(), own.metrics.value("passed_over")) == ([], 1)


@pytest.mark.parametrize(
    ("address", "host", "expected"),
    [
        (ADDRESS, "anything", ["leaf1"]),
        ("192.0.2.9", "leaf1", ["leaf1"]),
        ("192.0.2.70", "anything", ["leaf1"]),
        ("192.0.2.9", "LEAF2", ["Leaf2.example.com"]),
        ("192.0.2.9", "re0.leaf1", ["leaf1"]),
        ("192.0.2.9", ADDRESS, ["leaf1"]),
        (None, "leaf2.example.com", ["Leaf2.example.com"]),
        ("192.0.2.9", "log1", []),
        ("192.0.2.9", "leaf9", []),
        (None, "leaf9", []),
        ("192.0.2.8", "leaf1", []),
    ],
)
def test_a_device_is_known_by_its_address_or_behind_a_relay_by_its_name(
    address: str | None, host: str, expected: list[str]
) -> None:
    """Whatever else is counted; a relay is no device."""
    own = Reception(INVENTORY, targets=[SWITCH, RELAY])
    own.add(link(0, "Down", host=host), 1, address)
    assert ([device for device, _, _ in own.events()], own.metrics.value("not_admitted")) == (expected, not expected)


@pytest.mark.parametrize(
    ("behind_s", "zone", "expected"),
    [(2, "", -2), (8, "", -8), (7 * 3600, "", 0), (-7 * 3600, "", 0), (5 * 3600, "UTC-5", 0), (-3, "", 0),
     (86_400 * 40, "", 0)],
)  # fmt: skip
def test_a_wrong_clock_is_corrected_and_its_flaps_stay_apart(behind_s: float, zone: str, expected: float) -> None:
    """A zone that is not configured is a wrong clock; a configured one is none."""
    own = Reception(targets=[SWITCH | {"zone": zone}])
    for s, state in ((0, "Down"), (0.5, "Up"), (4, "Down")):
        own.add(link(s - behind_s, state), s)
    assert own.times() == pytest.approx([expected, expected + 0.5, expected + 4])
    assert bool(own.metrics.value("clock_replaced")) is (expected == 0 and not zone)


def test_lines_that_waited_have_their_own_time() -> None:
    """Those of a file after a restart; their clock is not measured."""
    own = Reception(INVENTORY)
    own.add(link(-7200, "Down"), 0, None, is_live=False)
    assert own.times() == [-7200]


def test_the_same_line_on_two_paths_is_one_event() -> None:
    """Directly and through a relay; the same line twice on one path are two."""
    own = Reception(INVENTORY, targets=[SWITCH, RELAY])
    for address, path in ((ADDRESS, "udp"), ("192.0.2.9", "tcp")):
        for s, state in ((0, "Down"), (2, "Up")):
            own.add(link(s, state), 3, address, path=path)
    assert [kind for _, _, kind in own.events()] == ["LINK_DOWN", "LINK_UP"]
    assert own.metrics.value("passed_over") == 2


def test_floods_are_bounded_and_counted() -> None:
    """By device in lines, and by port in events; another device is not affected, and the last state is sent."""
    other = {"name": "leaf2", "addresses": ["192.0.2.2"]}
    own = Reception(lines_per_s=10, lines_burst=100, targets=[SWITCH, other])
    for number in range(1000):
        own.add(link(number / 1000, ("Up", "Down")[number % 2]), 1)
    own.add(link(1, "Down", "Ethernet1"), 1, "192.0.2.2")
    assert len(own.events()) == 21
    assert own.metrics.value("throttled", "leaf1") >= 900
    assert own.events()[-1] == ("leaf2", "Ethernet1", "LINK_DOWN")
    own.receiver.end()
    assert own.events()[-1][2] == "LINK_DOWN"


def flapping() -> list[tuple[float, str]]:
    """Return lines of a port that goes down three times; each time its module loses the signal of lane 2."""
    fault = "%PKT_INFRA-FM-2-FAULT_CRITICAL : ALARM_CRITICAL :OPTICS RX LOS LANE-2"
    return [
        (begin + s, stamped(begin + s, text))
        for begin in (10, 60, 110)
        for s, text in (
            (0, "ifmgr[1]: %PKT_INFRA-LINK-3-UPDOWN : Interface d1, changed state to Down"),
            (1, f"optics[1]: {fault} :DECLARE : d1:"),
            (4, f"optics[1]: {fault} :CLEAR : d1:"),
            (5, "ifmgr[1]: %PKT_INFRA-LINK-3-UPDOWN : Interface d1, changed state to Up"),
        )
    ]


@pytest.mark.parametrize("is_pulled", [False, True])
@pytest.mark.parametrize("has_gnmi", [False, True])
def test_a_link_that_flaps_by_its_lines_is_found_and_counted_once(*, has_gnmi: bool, is_pulled: bool) -> None:
    """Alone, and beside the events of gNMI; a module that was taken out is the cause, whatever its peer reports."""
    own = Reception(targets=[{"name": "p1-l0", "addresses": [ADDRESS]}])
    lines = flapping()
    if is_pulled:
        lines.append((11, stamped(11, "xcvrd: d1: Got SFP removed event")))
    for s, text in sorted(lines):
        own.add(text, s)
    messages: list[Message] = list(own.published.of(Event))
    if has_gnmi:
        messages += [
            replace(one, source=Source.SOURCE_GNMI, at_ns=one.at_ns + 700_000_000)
            for one in own.published.of(Event)
            if one.kind in (EventKind.LINK_UP, EventKind.LINK_DOWN)
        ]
    found = {(one.condition, one.cause, one.summary) for one in findings(play(messages))}
    cause = Cause.MODULE_REMOVED if is_pulled else Cause.CABLE
    assert found == {(Condition.LINK_FLAP, cause, "p1-h1/e0 -- p1-l0/d1 went down 3 times")}


async def test_what_no_table_knows_is_counted_by_device_and_repetitions_are_lines() -> None:
    """No event is published of either; the status has the count, which alone makes no status due."""
    own = Reception()
    for text in ("%FOO-5-BAR: something", "sshd[1]: Accepted", "last message repeated 7 times"):
        own.add(stamped(0, text))
    assert (own.events(), own.metrics.value("unknown", "leaf1"), own.metrics.value("updates", "leaf1")) == ([], 2, 10)
    own.receiver.flush(1)
    own.add(stamped(2, "%FOO-5-BAR: something"), 2)
    own.receiver.flush(2)
    assert [(one.device, one.reachable, one.unknown_lines) for one in own.published.of(CollectorStatus)] == [
        ("leaf1", True, 2)
    ]


@pytest.mark.parametrize(
    ("devices", "address", "error"),
    [
        (["leaf1"] * 4, ADDRESS, "read in part: it sends more than 1 lines a second"),
        (["leaf1"] * 4, "192.0.2.9", "read in part: it sends more than 1 lines a second"),
        (["h1", "leaf1", *(f"h{n % 4 + 1}" for n in range(100))], "192.0.2.9",
         "read in part: its relay log1 sends more than 20 lines a second"),
    ],
    ids=["from it", "through a relay", "a relay of many devices"],
)  # fmt: skip
async def test_the_status_names_a_device_with_lines_that_are_not_read(
    devices: list[str], address: str, error: str
) -> None:
    """For a minute after the last one."""
    own = Reception(INVENTORY, lines_per_s=1, lines_burst=2, targets=[SWITCH, RELAY])
    for device in devices:
        own.add(stamped(0, "sshd[1]: Accepted", device), 0, address)
    own.receiver.flush(1)
    own.receiver.flush(100)
    assert [one.error for one in own.published.of(CollectorStatus) if one.device == "leaf1"] == [error, ""]


def framed(*parts: bytes) -> Iterator[bytes]:
    framing = Framing()
    for part in parts:
        yield from framing.add(part)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((b"5 <1>ab6 <1>", b"a\nb"), [b"<1>ab", b"<1>a\nb"]),
        ((b"<1>a\n<1>b\r\n\n<1", b">c\n"), [b"<1>a", b"<1>b\r", b"<1>c"]),
        ((b"<1>" + b"x" * 2 * MOST_BYTES, b"y\n<1>b\n"), [b"<1>b"]),
        ((b"<",), []),
    ],
)
def test_a_stream_is_divided_by_counts_or_ends_of_lines(parts: tuple[bytes, ...], expected: list[bytes]) -> None:
    """The first byte decides; of an oversized line nothing is read."""
    assert list(framed(*parts)) == expected


@pytest.mark.parametrize("data", [b"GET", b"0 x", b"99999 x", b"123456", b"5x", b"5 <1>abx"])
def test_a_stream_that_is_no_syslog_is_refused(data: bytes) -> None:
    """Its connection is closed."""
    with pytest.raises(Reject):
        list(framed(data))


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"inputs": ["udp:514x"]}, "is no input"),
        ({"inputs": ["http://x"]}, "is no input"),
        ({"inputs": ["tls://:6514"]}, "needs cert_file"),
        ({"targets": [SWITCH | {"addresses": ["leaf1"]}]}, "names are not resolved"),
    ],
)
def test_wrong_settings_are_refused_by_name(settings: dict[str, Any], error: str) -> None:
    """At the start, and without a device at all."""
    with pytest.raises(ValueError, match=error):
        params_of(Params, {"inputs": ["udp://:514"], "targets": [SWITCH]} | settings)


def test_targets_are_needed_and_have_known_zones() -> None:
    """An inventory is enough for files; the error names the target."""
    for settings, error in (
        ({}, "no targets and no inventory"),
        ({"targets": [SWITCH | {"zone": "Mars"}]}, "leaf1: unknown zone 'Mars'"),
    ):
        with pytest.raises(Misconfigured, match=error):
            params_of(Params, {"inputs": ["udp://:514"]} | settings).all_targets()
