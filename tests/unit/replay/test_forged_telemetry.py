"""Tests what forged telemetry of root on one GPU host reaches, by the mode of `[identity]` (docs/security.md)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from streams.decide.params import DecideParams
from streams.detect.thresholds import ns
from streams.fabric.catalogue import Metric
from streams.fabric.ids import Port
from streams.replay.driver import GRAIN_NS, Driver
from streams.wire.identity import MacSigner, MacVerifier, Secret, Unauthenticated
from streams.wire.models import (
    NO_INDEX,
    Action,
    CollectorStatus,
    Condition,
    Event,
    EventKind,
    Facts,
    Finding,
    Message,
    Neighbor,
    Remediation,
    Samples,
    Source,
    Verdict,
)
from streams.wire.topics import COLLECTOR_STATUS, EVENTS, FACTS, SAMPLES, Record, decode, encode
from tests.fixtures.runtime_bindings import FakeRecord
from tests.worlds.observations import GNMI, SNMP, T0, at, event, samples
from tests.worlds.small_world import SmallWorld, findings, play, recorded, stages, status

SECRET = Secret(b"s" * 32)
ATTACKER = "p1-h1"
LEAF, LINK = "p2-l0", "link:p2-l0/u0--s1/p2-l0"
ENDS = ("p2-l0/u0", "s1/p2-l0")


@dataclass(frozen=True)
class Attack:
    """Forged messages about another pod, and what they reach if nothing refuses them."""

    forged: Sequence[Message]
    until: float
    invented: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset()
    actions: frozenset[str] = frozenset()
    world: SmallWorld = field(default_factory=SmallWorld)


def flaps(start: float) -> Iterator[Event]:
    """A link that goes down and comes back ten times, as both of its ends report."""
    for t in range(10):
        for port, delay in zip(ENDS, (0, 0.5), strict=True):
            yield event(port, start + 30 * t + delay, EventKind.LINK_DOWN)
            yield event(port, start + 30 * t + delay + 2, EventKind.LINK_UP)


def symbol_errors(port: str) -> Iterator[Samples]:
    device, _, name = port.partition("/")
    for t in range(3, 600, 10):
        yield samples(device, t, {Metric.RX_SYMBOL_ERRORS: {name: 50.0 * t}}, source=SNMP, sequence=t)


def healthy(*devices: str) -> list[Samples]:
    """The readings of a healthy fabric, 1 ms after the honest ones of the same collector."""
    return [
        replace(one, sampled_at_ns=one.sampled_at_ns + 10**6, received_at_ns=one.received_at_ns + 10**6)
        for one in SmallWorld().rounds(600)
        if one.device in devices and one.sampled_at_ns >= at(300)
    ]


def dated(offset_s: float) -> list[Samples]:
    """The readings of a healthy switch by a clock that is wrong by an offset."""
    return [replace(one, sampled_at_ns=one.sampled_at_ns + ns(offset_s)) for one in healthy(LEAF)]


def facts(device: str, t: float, run: int, neighbors: Iterable[tuple[str, Port]], version: str = "1.0") -> Facts:
    """Return what a device reports about itself, with its LLDP neighbors."""
    named = tuple(Neighbor(port, *far) for port, far in neighbors)
    return Facts(device, at(t), GNMI, os_version=version, neighbors=named, collector_run=run)


class CabledWorld(SmallWorld):
    """Devices that report their neighbors, at the start and after half an hour; the cable of ENDS may be elsewhere."""

    miscabled = False

    def other_messages(self, until: float) -> Iterator[Message]:
        for t in range(5, int(until), 1800):
            for device in self.topology.links_of:
                yield facts(device, t, 1, self.neighbors(device))

    def neighbors(self, device: str) -> Iterator[tuple[str, Port]]:
        """Yield each port of a device and its neighbor."""
        for port in map(partial(Port, device), self.ports_of(device)):
            link = self.topology.link_at(port)
            assert link is not None
            yield port.port, _ELSEWHERE if self.miscabled and port == _MOVED else link.far_end(port)


class MiscabledWorld(CabledWorld):
    """A fabric with a cable in another leaf than the inventory has."""

    miscabled = True


_MOVED, _ELSEWHERE = Port("s1", "p2-l0"), Port("p1-l0", "u0")
_MISCABLED = f"LINK_MISCABLED {LINK}"


def moved_cable(run: int) -> list[Facts]:
    return [facts("s1", 400, run, [("p2-l0", _ELSEWHERE)])]


def cable_in_place(run: int) -> list[Facts]:
    """Each time after those of the honest collector."""
    return [facts("s1", t + 1, run, CabledWorld().neighbors("s1")) for t in range(5, 2400, 1800)]


def other_version(run: int) -> list[Facts]:
    return [facts("s1", 400, run, CabledWorld().neighbors("s1"), "9.9")]


_DEGRADING = frozenset({f"LINK_DEGRADING {LINK}", f"TELEMETRY_CONTRADICTION {LINK}"})
ATTACKS = {
    "LINK_DOWN at both ends of an uplink": Attack(
        [*flaps(100), *flaps(2600)], 3100, invented=frozenset({f"LINK_FLAP {LINK}"}),
        actions=frozenset({f"OBSERVE {LINK}", f"DRAIN_LINK {LINK}"}),
    ),
    "symbol errors at both ends of an uplink": Attack(
        [one for port in ENDS for one in symbol_errors(port)], 600, invented=_DEGRADING,
        actions=frozenset({f"OBSERVE {LINK}"}),
    ),
    "symbol errors at one end of an uplink": Attack(
        list(symbol_errors(ENDS[1])), 600, invented=_DEGRADING, actions=frozenset({f"OBSERVE {LINK}"}),
    ),
    "healthy samples 1 ms after those of a real outage": Attack(
        healthy(LEAF, "s1"), 600, invented=frozenset({f"LINK_FLAP {LINK}"}), hidden=frozenset({f"LINK_DOWN {LINK}"}),
        actions=frozenset({f"OBSERVE {LINK}"}), world=SmallWorld(down={ENDS[0]: [(300, 600)]}),
    ),
    "samples of a switch that is dead": Attack(
        healthy(LEAF), 600, hidden=frozenset({f"TELEMETRY_STALE device:{LEAF}"}),
        actions=frozenset({f"OBSERVE device:{LEAF}"}), world=SmallWorld(offline={LEAF: [(300, 600)]}),
    ),
    "neighbors of a switch that report another cable": Attack(
        moved_cable(1), 2400, invented=frozenset({_MISCABLED}), actions=frozenset({f"OBSERVE {LINK}"}),
        world=CabledWorld(),
    ),
    "neighbors that hide a wrong cable": Attack(
        cable_in_place(1), 2400, hidden=frozenset({_MISCABLED}), actions=frozenset(), world=MiscabledWorld(),
    ),
    "another version of a switch": Attack(
        other_version(1), 2400, invented=frozenset({"FLEET_VERSION_DRIFT cohort:os/gnmi/9.9"}), world=CabledWorld(),
    ),
    "samples of a switch dated an hour ahead": Attack(
        dated(3600), 600, invented=frozenset({f"DEVICE_CLOCK_SKEW device:{LEAF}"}),
        actions=frozenset({f"OBSERVE device:{LEAF}"}),
    ),
}  # fmt: skip


class ReadWorld(SmallWorld):
    """Switches whose collector also reads the errors and the traffic of ports."""

    @property
    def _columns(self) -> tuple[tuple[Metric, int], ...]:
        return tuple((metric, NO_INDEX) for metric in (Metric.RX_SYMBOL_ERRORS, Metric.RX_BYTES))


_SYMBOLS = ATTACKS["symbol errors at both ends of an uplink"]
_DOUBTED = {(Verdict.NEEDS_APPROVAL, "unknown coverage")}
WITHOUT_KEYS: dict[str, tuple[Attack, set[tuple[Verdict, str]], set[str]]] = {
    "LINK_DOWN at both ends of an uplink": (
        ATTACKS["LINK_DOWN at both ends of an uplink"], _DOUBTED, {"LINK_FLAP"}
    ),
    "symbol errors at both ends of an uplink": (replace(_SYMBOLS, world=ReadWorld()), _DOUBTED, {"LINK_DEGRADING"}),
    "symbol errors that the switch's collector does not read": (_SYMBOLS, _DOUBTED, {"LINK_DEGRADING"}),
    "healthy samples 1 ms after those of a real outage": (
        ATTACKS["healthy samples 1 ms after those of a real outage"], set(), {"LINK_FLAP"}
    ),
}  # fmt: skip
"""The attacks by a forger that does not know the run of the honest collector: the drains that they reach, which were
approved before, and the findings whose coverage is unknown."""


@pytest.mark.parametrize("name", WITHOUT_KEYS)
def test_contradictions_make_the_evidence_of_a_forgery_unknown(name: str) -> None:
    """Without keys a drain by forged records needs approval where an honest collector reads what they contradict."""
    attack, drained, named = WITHOUT_KEYS[name]
    forged = [replace(one, collector="x", collector_run=7) for one in attack.forged if isinstance(one, Event | Samples)]
    published = play([*recorded(attack.world, attack.until), *forged], decide=DecideParams(mode="act"))
    drains = [one for one in published if isinstance(one, Remediation) and one.action is Action.DRAIN_LINK]
    verdicts = {(one.verdict, one.constraint) for one in drains if one.verdict is not Verdict.REVOKED}
    assert verdicts == drained
    unknown = {one.condition.name for one in findings(published) if one.coverage and one.coverage.seen is None}
    assert unknown == {*named, "TELEMETRY_CONTRADICTION"}


def slow_statuses(device: str) -> Iterator[CollectorStatus]:
    """Statuses with a cadence of an hour, and one with which the collector ends."""
    for t in range(1, 600, 10):
        yield CollectorStatus("g0", 7, Source.SOURCE_GNMI, device, at(t), True, cadence_ns=ns(3600), ended=t > 590)


@pytest.mark.parametrize("forged", [healthy(LEAF), list(slow_statuses(LEAF)), [*healthy(LEAF), *slow_statuses(LEAF)]])
def test_another_run_does_not_hide_a_dead_switch(forged: Sequence[Samples | CollectorStatus]) -> None:
    """Its collector goes on to report that it has no samples, so samples and statuses of another run do not count."""
    attack = ATTACKS["samples of a switch that is dead"]
    honest = list(recorded(attack.world, attack.until))
    true, justified = concluded(honest)
    found, actions = concluded([*honest, *(replace(one, collector_run=7) for one in forged)])
    assert attack.hidden <= true == found and actions == justified


def of_another_run(one: Samples, **fields: Any) -> Samples:
    """Return a reading that follows an honest one after a millisecond, by another run."""
    times = {name: getattr(one, name) + 10**6 for name in ("sampled_at_ns", "received_at_ns")}
    return replace(one, collector="x", collector_run=7, **times | fields)


FORGED_STATES: dict[str, list[Message]] = {
    "readings of another boot": [
        of_another_run(one, boot_id=99) for one in SmallWorld().rounds(130) if one.device == LEAF
    ],
    "restarts": [
        replace(event(f"{LEAF}/", 200 + t, EventKind.DEVICE_REBOOT), port="", collector="x", collector_run=7)
        for t in range(0, 90, 30)
    ],
    "ups during an outage": [
        replace(event(port, 301 + t, EventKind.LINK_UP), collector="x", collector_run=7)
        for t in range(0, 300, 5) for port in ENDS
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED_STATES)
def test_another_run_neither_restarts_a_device_nor_ends_an_outage(name: str) -> None:
    """The collector that reads the device shows both at its next reading, so that those of another run do not count."""
    honest = list(recorded(SmallWorld(down={ENDS[0]: [(300, 600)]}), 700))
    assert concluded([*honest, *FORGED_STATES[name]]) == concluded(honest)


@pytest.mark.parametrize("run", [0, 7])
@pytest.mark.parametrize("forged", [moved_cable, cable_in_place, other_version])
def test_facts_of_another_run_do_not_count(forged: Callable[[int], list[Facts]], run: int) -> None:
    """Facts with the run of no collector, or without a run, are not of the collector that reads the switch."""
    for world in (CabledWorld(), MiscabledWorld()):
        honest = list(recorded(world, 2400))
        assert concluded([*honest, *forged(run)]) == concluded(honest)


def test_facts_of_former_collectors_count() -> None:
    """They have no run; a collector that takes over from one sends its own."""
    former = list(recorded(MiscabledWorld(), 2400))
    former = [replace(one, collector_run=0) if isinstance(one, Facts) else one for one in former]
    assert concluded(former) == concluded(recorded(MiscabledWorld(), 2400)) == ({_MISCABLED}, {f"OBSERVE {LINK}"})


@pytest.mark.parametrize("offset_s", [1, 3600, -20, -3600])
@pytest.mark.parametrize("world", [SmallWorld(), SmallWorld(offline={LEAF: [(300, 600)]})])
def test_dated_samples_of_another_run_change_nothing(world: SmallWorld, offset_s: float) -> None:
    """Wherever a forger dates the samples of a switch: its clock is not in doubt, and its silence is found."""
    honest = list(recorded(world, 600))
    forged = [replace(one, collector="x", collector_run=7) for one in dated(offset_s)]
    assert concluded_on_arrival([*honest, *forged]) == concluded_on_arrival(honest)


@pytest.mark.parametrize("silent_s", [15, 60])
@pytest.mark.parametrize("ends", [True, False])
def test_a_collector_that_takes_over_is_no_silence(silent_s: int, ends: bool) -> None:
    """The former one ends in order or is killed; the next one has another run, and reads after a while."""
    messages: list[Message] = []
    for one in recorded(SmallWorld(), 900):
        if isinstance(one, Samples | CollectorStatus):
            t = (one.received_at_ns if isinstance(one, Samples) else one.at_ns) / 1e9 - T0
            if not 300 <= t < 300 + silent_s:
                messages.append(replace(one, collector_run=1 if t < 300 else 2))
    if ends:
        messages += [replace(status(device, 301), ended=True) for device in SmallWorld().topology.devices]
    stale = [one for one in findings(play(messages)) if one.condition is Condition.TELEMETRY_STALE]
    assert all(one.resolved_at_ns is not None for one in stale)
    assert bool(stale) == (silent_s > 30)


def record_of(message: Message, signer: MacSigner, route: str | None = None) -> Record:
    """Return a record with a MAC; a forger signs with its own key, whatever device the message names."""
    topics = {Event: EVENTS, Samples: SAMPLES, Facts: FACTS, CollectorStatus: COLLECTOR_STATUS}
    record = encode(topics[type(message)], message)
    header = signer.header(record if route is None else replace(record, route=route))
    assert header is not None
    return replace(record, headers=(header,))


def accepted(records: Iterable[Record], mode: str, folder: Path) -> tuple[list[Message], int]:
    """Return the messages that pass, and the number of refusals that are counted."""
    (folder / "secrets").write_text(SECRET.value.hex())
    verifier = MacVerifier(folder / "secrets", is_required=mode == "require")
    passed: list[Message] = []
    refusals: list[str] = []
    for record in records:
        if mode == "off":
            passed.append(decode(record.topic, record.value, record.headers))
            continue
        read = FakeRecord(0, record.value, record.headers, record.key)
        try:
            passed.append(verifier.decode(record.topic, read, lambda _topic, _offset, why: refusals.append(why)))
        except Unauthenticated:
            continue
    assert {why.split(" on ")[0] for why in refusals} <= {f"host/{ATTACKER} may not report"}
    return passed, len(refusals)


def concluded(messages: Iterable[Message]) -> tuple[set[str], set[str]]:
    """Return the findings, and the actions that were approved."""
    return _conclusions(play(messages, decide=DecideParams(mode="act")))


def concluded_on_arrival(messages: Iterable[Message]) -> tuple[set[str], set[str]]:
    """Return the same of messages in the order of their arrival, in which live stages get them."""
    driver = Driver(stages(decide=DecideParams(mode="act")), SmallWorld().topology)
    published: list[Finding | Remediation] = []
    for _, batch in groupby(sorted(messages, key=_arrived_ns), key=lambda one: _arrived_ns(one) // GRAIN_NS):
        published += driver.process(list(batch))
    return _conclusions(published)


def _arrived_ns(message: Message) -> int:
    if isinstance(message, Samples):
        return message.received_at_ns
    assert isinstance(message, CollectorStatus)
    return message.at_ns


def _conclusions(published: Sequence[Finding | Remediation]) -> tuple[set[str], set[str]]:
    actions = {
        f"{one.action.name} {one.target.id}"
        for one in published
        if isinstance(one, Remediation) and one.verdict is Verdict.APPROVED
    }
    return {f"{one.condition.name} {one.subject.id}" for one in findings(published)}, actions


@pytest.mark.parametrize("mode", ["off", "observe", "require"])
@pytest.mark.parametrize("name", ATTACKS)
def test_what_forged_telemetry_reaches(name: str, mode: str, tmp_path: Path) -> None:
    """With `require` nothing changes; otherwise faults are invented and hidden, and `observe` counts each record."""
    attack = ATTACKS[name]
    topology = attack.world.topology
    signers = {host: MacSigner([SECRET.key_of(f"host/{host}")]) for host in topology.devices if "-h" in host}
    switches = MacSigner([SECRET.key_of("collector/p?-l?,s?")])
    honest = list(recorded(attack.world, attack.until))
    own = [record_of(one, signers.get(one.device, switches)) for one in honest if hasattr(one, "device")]
    forged = [record_of(one, signers[ATTACKER], ATTACKER) for one in attack.forged]
    messages, refusals = accepted([*own, *forged], mode, tmp_path)
    assert refusals == (0 if mode == "off" else len(forged))
    found, actions = concluded(messages)
    true, justified = concluded(honest)
    assert attack.hidden <= true and not attack.invented & true
    if mode == "require":
        assert (found, actions) == (true, justified)
    else:
        assert found == (true | attack.invented) - attack.hidden
        assert actions == attack.actions
