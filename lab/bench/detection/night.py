"""Plays a night: eight hours, twelve faults, two maintenance windows and a restart, and compares its pages.

The stages and the notifier run in memory, by the times at which messages arrive. Each event states whether a person on
call wants to be woken for it; the report has every text that was sent.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np

from lab.world.delivery_model import Cadence, DeliveryModel
from lab.world.demo_fabric import DemoShape, inventory
from lab.world.effects import CollectorRestart, Effect, Interval
from lab.world.fabric_arrays import fabric_arrays
from lab.world.faults.congestion import PauseStorm
from lab.world.faults.devices import ClockSkew, Reboot, SilentDevice
from lab.world.faults.hosts import GpuFault, SlowRail
from lab.world.faults.links import Degrading, LinkDown, LinkFlap
from lab.world.ground_truth import PlacedFault
from lab.world.host_agents import collector_name, gpu_address
from lab.world.telemetry import COLLECTORS, Telemetry, collector_of
from lab.world.traffic import Traffic
from lab.world.world import World
from streams.config.settings import Settings
from streams.detect.fabric_side import devices_of
from streams.fabric.inventory import Inventory, Link
from streams.fabric.topology import Topology
from streams.instrument.text import format_time
from streams.notify.alert import Alert
from streams.notify.notifier import Notifier
from streams.notify.params import NotifyParams
from streams.replay.backtest import stages
from streams.replay.driver import Driver
from streams.wire.models import Control, ControlKind, Finding, Message

_S = 10**9
BEGIN_NS = round(datetime(2026, 3, 2, 22, tzinfo=UTC).timestamp()) * _S
HOURS = 8
_SHAPE = DemoShape(pods=2, hosts=3, planes=2, spines=1, uplinks=2)
_CADENCE = Cadence(30, 30)
_LATE_NS = 300 * _S
"""A page so long after the end of its event still belongs to it."""
_DEVICE_OFF_THE_BUS_XID = 79


@dataclass(frozen=True, slots=True)
class NightEvent:
    """Something that happens, how many times a person wants to be woken for it, and how many times it grows then."""

    what: str
    interval: Interval
    faults: tuple[PlacedFault, ...] = ()
    pages: int = 0
    follow_ups: int = 0
    devices: frozenset[str] = frozenset()
    """The devices in maintenance; empty for a fault."""
    is_restart: bool = False


@dataclass(frozen=True, slots=True)
class SentText:
    """One message to the person on call."""

    at_ns: int
    kind: str
    """`page`, `follow-up` or `end`."""
    finding: Finding
    text: str


@dataclass(slots=True)
class Night:
    """The events, and the messages that were sent."""

    events: Sequence[NightEvent]
    sent: list[SentText] = field(default_factory=list)
    findings: dict[str, Finding] = field(default_factory=dict)

    @property
    def pages(self) -> list[SentText]:
        """Return the pages, without their follow-ups and ends."""
        return [one for one in self.sent if one.kind == "page"]

    def pages_of(self, event: NightEvent) -> list[SentText]:
        """Return the pages for an event: of a finding that began while it lasted, at one of its devices."""
        return [one for one in self.pages if _belongs(one.finding, event)]

    def follow_ups_of(self, event: NightEvent) -> list[SentText]:
        """Return the follow-ups of the pages for an event."""
        ids = {one.finding.id for one in self.pages_of(event)}
        return [one for one in self.sent if one.kind == "follow-up" and one.finding.id in ids]

    @property
    def unwanted(self) -> list[SentText]:
        """Return the pages that belong to no event."""
        return [one for one in self.pages if not any(_belongs(one.finding, event) for event in self.events)]

    @property
    def is_as_wanted(self) -> bool:
        """Return whether each event has exactly the wanted pages and follow-ups, and nothing else has a page."""
        sent = ((len(self.pages_of(event)), len(self.follow_ups_of(event))) for event in self.events)
        wanted = ((event.pages, event.follow_ups) for event in self.events)
        return not self.unwanted and all(one == other for one, other in zip(sent, wanted, strict=True))


def _at(minutes: float, lasting_s: float) -> Interval:
    start_ns = BEGIN_NS + round(minutes * 60 * _S)
    return Interval(start_ns, start_ns + round(lasting_s * _S))


def night_events(fabric: Inventory) -> list[NightEvent]:
    """Return the events of the night on the fabric of two pods."""
    uplinks: dict[str, list[Link]] = {}
    for link in fabric.links:
        if link.role == "fabric-link":
            uplinks.setdefault(link.a_device, []).append(link)
    rails = {device.name: [link for link in fabric.links if link.a_device == device.name] for device in fabric.devices}

    def uplink(leaf: str, number: int) -> Link:
        return uplinks[leaf][number]

    def rail(host: str, number: int) -> Link:
        return next(link for link in rails[host] if link.rail == number)

    flap = tuple(_at(20 + 2 * n, 3) for n in range(6))
    return [
        NightEvent("an uplink flaps six times", _at(20, 700), (LinkFlap(uplink("pod1-leaf3", 0), flap),)),
        NightEvent("a rail of a job's host loses its link", _at(50, 1500),
                   (LinkDown(rail("pod1-host1", 2), _at(50, 1500)),), pages=1),
        NightEvent("a leaf restarts by itself", _at(90, 240), (Reboot("pod2-leaf4", _at(90, 240)),), pages=1),
        NightEvent("an uplink degrades", _at(110, 1800),
                   (Degrading(uplink("pod2-leaf1", 0), uplink("pod2-leaf1", 0).z, _at(110, 1800), 1e-6, ber=2e-5),)),
        NightEvent("a GPU falls off the bus", _at(150, 1800),
                   (GpuFault("pod2-host1", gpu_address(3), _at(150, 1800), _DEVICE_OFF_THE_BUS_XID),), pages=1),
        NightEvent("a host is in maintenance: restart and pulled cables", _at(180, 3600),
                   (Reboot("pod1-host3", _at(185, 400)), LinkDown(rail("pod1-host3", 5), _at(200, 1500))),
                   devices=frozenset({"pod1-host3"})),
        NightEvent("a spine restarts by itself", _at(255, 300), (Reboot("spine1", _at(255, 300)),), pages=1),
        NightEvent("a leaf loses two of four uplinks, five minutes later a third", _at(275, 1200),
                   tuple(LinkDown(uplink("pod1-leaf7", n), _at(275 + after, 1200 - 60 * after))
                         for n, after in ((0, 0), (2, 1 / 30), (1, 5))), pages=1, follow_ups=1),
        NightEvent("a NIC sends pause without end", _at(305, 240),
                   (PauseStorm(rail("pod2-host2", 1), rail("pod2-host2", 1).a, _at(305, 240)),), pages=1),
        NightEvent("railsight restarts; meanwhile a rail loses its link", _at(325, 207),
                   (LinkDown(rail("pod2-host3", 6), _at(326, 1800)),), pages=1, is_restart=True),
        NightEvent("a leaf is in maintenance: two restarts", _at(365, 2700),
                   (Reboot("pod1-leaf6", _at(370, 300)), Reboot("pod1-leaf6", _at(390, 300))),
                   devices=frozenset({"pod1-leaf6"})),
        NightEvent("a rail is slow", _at(385, 1500), (SlowRail(rail("pod2-host1", 7), _at(385, 1500), 0.5),)),
        NightEvent("a leaf does not answer its collector", _at(415, 1200),
                   (SilentDevice("pod2-leaf2", _at(415, 1200)),)),
        NightEvent("the clock of a leaf is wrong", _at(440, 1500), (ClockSkew("pod1-leaf1", _at(440, 1500), 90.0),)),
    ]  # fmt: skip


def play_night(seed: int = 1) -> Night:
    """Simulate the night and return its messages to the person on call."""
    fabric = inventory(_SHAPE, BEGIN_NS)
    events = night_events(fabric)
    topology = Topology(fabric)
    restarts = [event.interval for event in events if event.is_restart]
    person = _Person(Night(events))
    driver = Driver(stages(Settings()), topology)
    controls = sorted(_controls(events), key=lambda one: one.at_ns or 0)
    for at_ns, batch in _batches(fabric, topology, events, seed):
        while controls and (controls[0].at_ns or 0) <= at_ns:
            person.plan(controls[0], at_ns)
            driver.process([controls.pop(0)])
        for message in driver.process(batch) if batch else ():
            if isinstance(message, Finding):
                person.receive(message, at_ns)
        if any(interval.contains(at_ns) for interval in restarts):
            person.is_restarted = True
        else:
            person.look(at_ns)
    return person.night


def _batches(
    fabric: Inventory, topology: Topology, events: Sequence[NightEvent], seed: int
) -> Iterator[tuple[int, list[Message]]]:
    """Yield the messages of the night; a restart of railsight ends all collectors for its time."""
    arrays, rng = fabric_arrays(fabric), np.random.default_rng(seed)
    whole = Interval(BEGIN_NS, BEGIN_NS + HOURS * 3600 * _S)
    hosts = [device.name for device in fabric.devices if device.kind == "host"]
    collectors = [*map(collector_of, range(COLLECTORS)), *(collector_name("nic", host) for host in hosts)]
    effects: list[Effect] = [effect for event in events for fault in event.faults for effect in fault.effects(arrays)]
    effects += [CollectorRestart(name, one.interval) for name in collectors for one in events if one.is_restart]
    world = World(fabric, arrays, Traffic(len(hosts), 3, whole, rng), effects, BEGIN_NS, rng)
    telemetry = Telemetry(world, topology, effects, _CADENCE, DeliveryModel(), rng)
    return telemetry.batches(whole.start_ns, whole.end_ns, 5 * _S)


def _controls(events: Sequence[NightEvent]) -> Iterator[Control]:
    for event in events:
        for device in sorted(event.devices):
            yield Control(f"m-{device}", ControlKind.MAINTENANCE, device, *event.interval, "anna", "planned work")


@dataclass(slots=True)
class _Person:
    """The notifier, and what it sends to the person on call."""

    night: Night
    notifier: Notifier = field(init=False)
    controls: list[Control] = field(default_factory=list)
    is_restarted: bool = False
    _active: dict[tuple[str, str], Alert] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.notifier = self._new()

    def _new(self) -> Notifier:
        board, runbooks = "https://grafana.example.net", "https://docs.example.net/runbooks"
        return Notifier(NotifyParams(cluster="local", dashboard_url=board, runbooks_url=runbooks))

    def plan(self, control: Control, at_ns: int) -> None:
        """Process a maintenance."""
        self.controls.append(control)
        self.notifier.process(control, at_ns)

    def receive(self, finding: Finding, at_ns: int) -> None:
        """Process a revision."""
        self.night.findings[finding.id] = finding
        self.notifier.process(finding, at_ns)

    def look(self, at_ns: int) -> None:
        """Post what is due, and record the texts that Alertmanager sends to the person."""
        if self.is_restarted:
            self._succeed(at_ns)
        due = self.notifier.due(at_ns)
        self.notifier.posted(due, at_ns)
        for alert in due:
            if alert.labels["kind"] != "page":
                continue
            key = alert.labels["finding_id"], alert.labels.get("follow_up", "")
            is_open = alert.ends_at_ns > at_ns
            if is_open and key not in self._active:
                self._send(alert, "follow-up" if key[1] else "page", at_ns)
                self._active[key] = alert
            elif not is_open and self._active.pop(key, None) is not None and not key[1]:
                self._send(alert, "end", at_ns)

    def _succeed(self, at_ns: int) -> None:
        """Replace the notifier by one that reads the topics and Alertmanager, as after a restart."""
        self.is_restarted = False
        posted = list(self.notifier.desired_alerts.values())
        self.notifier = self._new()
        for control in self.controls:
            self.notifier.process(control, at_ns)
        for finding in self.night.findings.values():
            self.notifier.process(finding, at_ns)
        self.notifier.restore(posted, at_ns)

    def _send(self, alert: Alert, kind: str, at_ns: int) -> None:
        finding = self.night.findings[alert.labels["finding_id"]]
        self.night.sent.append(SentText(at_ns, kind, finding, alert.annotations["page"]))


def _belongs(finding: Finding, event: NightEvent) -> bool:
    own = {truth.truth.device for fault in event.faults for truth in fault.ground_truths()} | event.devices
    wide = Interval(event.interval.start_ns - _LATE_NS, event.interval.end_ns + _LATE_NS)
    return not own.isdisjoint(devices_of(finding)) and wide.contains(finding.started_at_ns)


def night_lines(night: Night) -> Iterator[str]:
    """Yield the events with their pages, then every text."""
    yield f"{'begin':<10}{'wanted':>8}{'sent':>6}  event; +1 is a follow-up"
    for event in night.events:
        clock = format_time(event.interval.start_ns).split(" ")[1]
        wanted = _count(event.pages, event.follow_ups)
        sent = _count(len(night.pages_of(event)), len(night.follow_ups_of(event)))
        yield f"{clock:<10}{wanted:>8}{sent:>6}  {event.what}"
    yield f"pages of no event: {len(night.unwanted)}"
    for number, one in enumerate(night.sent, 1):
        yield ""
        yield f"{number}. {format_time(one.at_ns)}  {one.kind}"
        yield from (f"   {line}" for line in one.text.splitlines())
    yield ""
    yield "as wanted" if night.is_as_wanted else "NOT as wanted"


def _count(pages: int, follow_ups: int) -> str:
    return f"{pages} +{follow_ups}" if follow_ups else f"{pages}"
