"""Tests what forged telemetry of root on one GPU host reaches, by the mode of `[identity]` (docs/security.md)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from streams.decide.params import DecideParams
from streams.fabric.catalogue import Metric
from streams.wire.identity import MacSigner, MacVerifier, Secret, Unauthenticated
from streams.wire.models import Event, EventKind, Message, Remediation, Samples, Verdict
from streams.wire.topics import COLLECTOR_STATUS, EVENTS, SAMPLES, Record, decode, encode
from tests.fixtures.runtime_bindings import FakeRecord
from tests.worlds.observations import SNMP, at, event, samples
from tests.worlds.small_world import SmallWorld, findings, play, recorded

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


ATTACKS = {
    "LINK_DOWN at both ends of an uplink": Attack(
        [*flaps(100), *flaps(2600)], 3100, invented=frozenset({f"LINK_FLAP {LINK}"}),
        actions=frozenset({f"OBSERVE {LINK}", f"DRAIN_LINK {LINK}"}),
    ),
    "symbol errors at both ends of an uplink": Attack(
        [one for port in ENDS for one in symbol_errors(port)], 600, invented=frozenset({f"LINK_DEGRADING {LINK}"}),
        actions=frozenset({f"DRAIN_LINK {LINK}"}),
    ),
    "symbol errors at one end of an uplink": Attack(
        list(symbol_errors(ENDS[1])), 600, invented=frozenset({f"LINK_DEGRADING {LINK}"}),
    ),
    "healthy samples 1 ms after those of a real outage": Attack(
        healthy(LEAF, "s1"), 600, invented=frozenset({f"LINK_FLAP {LINK}"}), hidden=frozenset({f"LINK_DOWN {LINK}"}),
        actions=frozenset({f"OBSERVE {LINK}"}), world=SmallWorld(down={ENDS[0]: [(300, 600)]}),
    ),
    "samples of a switch that is dead": Attack(
        healthy(LEAF), 600, hidden=frozenset({f"TELEMETRY_STALE device:{LEAF}"}),
        actions=frozenset({f"OBSERVE device:{LEAF}"}), world=SmallWorld(offline={LEAF: [(300, 600)]}),
    ),
}  # fmt: skip


def record_of(message: Message, signer: MacSigner, route: str | None = None) -> Record:
    """Return a record with a MAC; a forger signs with its own key, whatever device the message names."""
    topic = EVENTS if isinstance(message, Event) else SAMPLES if isinstance(message, Samples) else COLLECTOR_STATUS
    record = encode(topic, message)
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
    published = play(messages, decide=DecideParams(mode="act"))
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
