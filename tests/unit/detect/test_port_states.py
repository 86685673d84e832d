"""Tests what `measure` publishes of the states of ports: on change only, dated, and confirmed by heartbeats."""

import random
from collections.abc import Iterable, Sequence
from itertools import pairwise

import pytest

from streams.detect.measure import port_quality
from streams.detect.measure.stage import Measure
from streams.detect.params import DetectParams
from streams.wire.models import (
    Event,
    EventKind,
    Message,
    PortQuality,
    PortReadings,
    PortState,
    PortStates,
    ReadingsHeartbeat,
    Source,
)
from streams.wire.stage import Output
from streams.wire.topics import PORT_STATES
from tests.worlds.link_windows import SPEED_BPS, Value, with_quality
from tests.worlds.live_stages import in_order, shuffled
from tests.worlds.measure_stage import ADMIN, DOWNS, UP, stage
from tests.worlds.observations import GNMI, SNMP, T0, at, event, samples
from tests.worlds.small_fabric import begun
from tests.worlds.small_world import BYTES_S, SmallWorld, status


def after(at_ns: int) -> float:
    """Return the seconds after T0."""
    return at_ns / 1e9 - T0


def published(outputs: Iterable[Output]) -> list[Message]:
    return [o.message for o in outputs if o.topic is PORT_STATES and o.message is not None]


def emitted(own: Measure, messages: Sequence[Message]) -> list[Message]:
    return [message for one in messages for message in published(own.process([one]))]


def shown(message: PortStates) -> dict[str, tuple[str, float]]:
    """By port, its state and since when."""
    since = dict(zip(message.changed, message.since_ns, strict=True))
    return {
        port: (PortState(state).name, after(since.get(i, message.first_ns)))
        for i, (port, state) in enumerate(zip(message.ports, message.states, strict=True))
    }


def of(messages: Iterable[Message], device: str) -> list[PortStates]:
    return [m for m in messages if isinstance(m, PortStates) and m.device == device]


def test_a_healthy_fabric_sends_its_states_once_and_a_heartbeat_every_ten_seconds() -> None:
    """21,504 devices cost a reader nothing while nothing changes."""
    world = SmallWorld()
    found = emitted(stage(), list(world.rounds(600)))
    assert len([m for m in found if isinstance(m, PortStates)]) == len(world.topology.links_of)
    beats = [after(m.watermark_ns) for m in found if isinstance(m, ReadingsHeartbeat)]
    assert beats == [float(t) for t in range(0, 610, 10)]
    assert not [m for m in found if isinstance(m, PortQuality)]


def test_a_change_is_sent_with_its_time() -> None:
    """Down, up and administratively down: all ports of the source, with the time of those that changed."""
    own = stage()
    rounds = [(0, 1, 1), (10, 0, 1), (20, 1, 1), (30, 0, 0), (40, 0, 0)]
    found = of(
        emitted(own, [samples("p1-l0", t, {UP: {"d1": u, "d2": 1}, ADMIN: {"d1": a}}) for t, u, a in rounds]), "p1-l0"
    )
    assert [shown(m) for m in found] == [
        {"d1": ("UP", 0), "d2": ("UP", 0)},
        {"d1": ("DOWN", 10), "d2": ("UP", 0)},
        {"d1": ("UP", 20), "d2": ("UP", 0)},
        {"d1": ("ADMIN_DOWN", 30), "d2": ("UP", 0)},
    ]
    assert [after(m.changed_ns) for m in found] == [0, 10, 20, 30]


def test_a_counted_down_between_two_readings_moves_the_time() -> None:
    """The port is read up before and after, but it had a transition."""
    own = stage()
    messages = [samples("p1-l0", t, {UP: {"d1": 1}, DOWNS: {"d1": n}}) for t, n in ((0, 5), (10, 5), (20, 6))]
    assert [shown(m) for m in of(emitted(own, messages), "p1-l0")] == [{"d1": ("UP", 0)}, {"d1": ("UP", 20)}]


def test_an_event_counts_until_the_next_reading() -> None:
    """A device reports a down at once; the reading after it shows whether it lasts."""
    own = stage()
    before = emitted(own, [samples("p1-l0", 0, {UP: {"d1": 1}})])
    assert [shown(m) for m in of(before, "p1-l0")] == [{"d1": ("UP", 0)}]
    down = emitted(own, [event("p1-l0/d1", 3, EventKind.LINK_DOWN)])
    assert [shown(m) for m in of(down, "p1-l0")] == [{"d1": ("DOWN", 3)}]
    up = emitted(own, [event("p1-l0/d1", 5, EventKind.LINK_UP)])
    assert [shown(m) for m in of(up, "p1-l0")] == [{"d1": ("UP", 5)}]
    emitted(own, [event("p1-l0/d1", 7, EventKind.LINK_DOWN)])
    read = emitted(own, [samples("p1-l0", 10, {UP: {"d1": 1}})])
    assert [shown(m) for m in of(read, "p1-l0")] == [{"d1": ("UP", 10)}]
    assert not of(emitted(own, [event("p1-l0/d1", 7, EventKind.LINK_DOWN)]), "p1-l0"), "the same event again"


def test_a_silent_source_is_sent_as_such_and_so_is_its_return() -> None:
    """Its ports keep their states, which prove nothing while it is silent."""
    own = stage()
    beats: list[Message] = [status("p1-l0", 0), *(samples("p1-l0", t, {UP: {"d1": 1}}) for t in (0, 10, 20, 30))]
    emitted(own, beats)
    (silent,) = of(published(own.advance_watermark(at(100))), "p1-l0")
    assert (after(silent.silent_since_ns), shown(silent)) == (30, {"d1": ("UP", 0)})
    (live,) = of(emitted(own, [samples("p1-l0", 200, {UP: {"d1": 1}})]), "p1-l0")
    assert live.silent_since_ns == 0


def test_a_restart_moves_the_times_of_all_ports_of_the_device() -> None:
    """Ports were down while it booted, whatever was read before and after."""
    own = stage()
    found = emitted(
        own,
        [samples("p1-l0", t, {UP: {"d1": 1}}, boot_id=boot, source=s)
         for s in (GNMI, SNMP) for t, boot in ((0, 1), (10, 1), (300, 2))],
    )  # fmt: skip
    assert [shown(m)["d1"] for m in _final(found).values()] == [("UP", 300)] * 2


def test_a_port_that_is_not_read_any_more_is_not_observed() -> None:
    """The others of its device are; what was read last is no evidence for ever."""
    own = stage()
    both = [samples("p1-l0", t, {UP: {"d1": 1, "d2": 1}}) for t in range(0, 60, 10)]
    one = [samples("p1-l0", t, {UP: {"d1": 1}}) for t in range(60, 500, 10)]
    last = of(emitted(own, [*both, *one]), "p1-l0")[-1]
    assert {port: state for port, (state, _) in shown(last).items()} == {"d1": "UP", "d2": "NOT_OBSERVED"}
    again = [samples("p1-l0", t, {UP: {"d1": 1, "d2": 1}}) for t in range(500, 600, 10)]
    (read,) = of(emitted(own, again), "p1-l0")
    assert shown(read)["d2"] == ("UP", 500)


def _final(outputs: Iterable[Message]) -> dict[tuple[str, int], PortStates]:
    return {(m.device, m.source): m for m in outputs if isinstance(m, PortStates)}


def _faulty() -> SmallWorld:
    return SmallWorld(
        down={"p1-h1/e0": [(100, 110), (140, 150)], "p2-l0/u2": [(150, 900)]}, disabled={"p2-l1/u0": [(300, 500)]},
        offline={"s1": [(400, 500)]}, not_polled={"p1-h2": [(300, 700)]}, boots={"s1": 520},
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_readings_within_the_lateness_changes_no_final_state(seed: int) -> None:
    """Late readings show when a port changed, not another state in the end."""
    messages = list(_faulty().rounds(1000))
    ordered = _final(emitted(stage(), in_order(messages)))
    late = _final(emitted(stage(), shuffled(messages, 8, random.Random(seed))))
    states = {key: (m.ports, m.states, m.silent_since_ns) for key, m in ordered.items()}
    assert {key: (m.ports, m.states, m.silent_since_ns) for key, m in late.items()} == states


def _qualities(world: SmallWorld, until: float, device: str = "p1-l0", **values: Value) -> list[PortReadings]:
    own = begun(Measure(DetectParams()), world.topology)
    found = emitted(own, list(with_quality(world.rounds(until), **values)))
    return [r for m in found if isinstance(m, PortQuality) and m.device == device for r in m.readings]


def test_the_quality_of_a_port_is_sent_every_minute_after_a_transition() -> None:
    """Readings follow each other without a gap, begin after the transition, and have the limits of link/degrading."""
    found = _qualities(SmallWorld(down={"p1-l0/u0": [(95, 115)]}), 300)
    assert [(r.port, after(r.begin_ns), after(r.end_ns)) for r in found] == [
        ("u0", 130, 140), ("u0", 140, 200), ("u0", 200, 260),
    ]  # fmt: skip
    params = DetectParams().degrading
    minute = found[1]
    assert (minute.bits, minute.errors, minute.ber, minute.ber_limit) == (SPEED_BPS * 60, 0, 1e-8, params.ber_clear)
    assert (minute.rx_power_dbm, minute.rx_power_limit_dbm) == (-1.0, -1.0 - params.drop_clear_db)
    assert (minute.tx_power_dbm, minute.snr_db, minute.raw_errors) == (None, None, None)


def test_the_bytes_of_a_minute_are_sent_where_they_are_counted() -> None:
    """A port that carries less is no exception; without a counter they are absent, which is not zero."""
    flap = {"p1-l0/u0": [(95.0, 115.0)]}
    counted = _qualities(SmallWorld(down=flap, slow={"p1-l0/u0": [(200, 300)]}), 260)
    assert [r.rx_bytes for r in counted if r.port == "u0"] == [10 * BYTES_S, 60 * BYTES_S, 60 * 0.7 * BYTES_S]
    assert {r.rx_bytes for r in _qualities(SmallWorld(down=flap), 260)} == {None}


def test_the_worst_reading_of_a_minute_is_sent() -> None:
    """A peak between two minutes is not lost, and errors add up; the best light sets the limit."""
    found = _qualities(
        SmallWorld(down={"p1-l0/u0": [(95, 115)]}), 260,
        errors=lambda _, t: (t >= 150) + 2 * (t >= 170) + 4 * (t >= 230),
        ber=lambda _, t: 1e-6 if t == 160 else 1e-9,
        light=lambda _, t: {130: 0.0, 180: -4.0}.get(round(t), -1.0),
    )  # fmt: skip
    assert [(r.errors, r.ber, r.rx_power_dbm, r.rx_power_limit_dbm) for r in found if r.port == "u0"] == [
        (0, 1e-9, -1.0, -2.0), (3, 1e-6, -4.0, -2.0), (4, 1e-9, -1.0, -2.0),
    ]  # fmt: skip


def test_a_port_is_watched_for_loss_of_light_and_errors_too() -> None:
    """A link that is drained for its quality has evidence though it never went down."""

    def lossy(port: str, t: float) -> float:
        return max(0, (t - 100) // 10) if port == "p1-l0/u0" and t < 400 else 30

    found = _qualities(SmallWorld(), 900, errors=lossy)
    assert {r.port for r in found} == {"u0"}
    assert found[-1].errors == 0
    dark = _qualities(SmallWorld(), 900, light=lambda port, t: -2.0 if port == "p1-l0/u1" and t > 100 else -1.0)
    assert {(r.port, r.rx_power_dbm, r.rx_power_limit_dbm) for r in dark} == {("u1", -2.0, -3.0)}


def test_a_gap_or_another_transition_begins_a_new_stretch() -> None:
    """Readings after it do not begin where those before it ended."""
    world = SmallWorld(down={"p1-l0/u0": [(95, 115), (605, 615)]}, not_polled={"p1-l0": [(300, 400)]})
    found = _qualities(world, 800)
    gaps = [(after(a.end_ns), after(b.begin_ns)) for a, b in pairwise(found) if a.end_ns != b.begin_ns]
    assert gaps == [(260, 400), (560, 630)]


def test_watched_ports_are_bounded_and_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    """The port whose last trigger is oldest is dropped first; after five days without a trigger each is."""
    monkeypatch.setattr(port_quality, "MAX_PORTS", 4)
    world = SmallWorld(down={f"p1-l0/u{n}": [(95 + 100 * n, 115 + 100 * n)] for n in range(4)})
    assert {r.port for r in _qualities(world, 700) if after(r.begin_ns) >= 500} == {"u2", "u3"}
    monkeypatch.setattr(port_quality, "WATCH_NS", 300 * 10**9)
    assert max(after(r.end_ns) for r in _qualities(world, 1000) if r.port == "u3") <= 415 + 300 + 60


def test_a_port_without_a_fault_is_read_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cordoned host had no fault of a port, so it never qualified; more faulty ports than fit do not displace it."""
    monkeypatch.setattr(port_quality, "MAX_PORTS", 4)
    world = SmallWorld(down={f"p1-l0/u{n}": [(95 + 100 * n, 115 + 100 * n)] for n in range(4)})
    first, own = stage(), stage()
    rounds = list(with_quality(world.rounds(9000)))
    request = Event("p1-l0", "d1", EventKind.WATCH, at(60), at(60), Source.SOURCE_UNSPECIFIED, "decide")
    begin = [one for one in rounds if one.sampled_at_ns <= at(60)]
    emitted(first, [*begin, request])
    own.restore(first.snapshot())
    found = emitted(own, rounds[len(begin) :])
    read = [
        r for m in found if isinstance(m, PortQuality) and m.device == "p1-l0" for r in m.readings if r.port == "d1"
    ]
    assert after(read[0].begin_ns) <= 120 and not [b for a, b in pairwise(read) if a.end_ns != b.begin_ns]
    assert 7200 <= after(read[-1].end_ns) <= 7200 + 120, "until the request ends"
