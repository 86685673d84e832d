"""Tests that one sign alone decides nothing: cached counters, ports that report down, restarts that agents report."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from streams.config.settings import Settings
from streams.detect.measure.storage.column_store import Column
from streams.fabric.catalogue import Metric
from streams.replay.backtest import Recording, run
from streams.wire.models import Condition, EventKind, Message, Source, Symptom
from streams.wire.symptoms import CounterGrowth
from tests.recordings import DATA
from tests.worlds.measure_stage import stage, symptoms_of
from tests.worlds.observations import Cells, after, at, event, samples
from tests.worlds.small_world import findings, play

BER: Column = (Metric.PRE_FEC_BER, -1)
UP, RX, TX, PAUSED = Metric.OPER_UP, Metric.RX_BYTES, Metric.TX_BYTES, Metric.PFC_RX_PAUSE_USECONDS
GBPS = 10**9 // 8


def paused_port(refresh_s: int, *, sent_gbps: float = 60, since_s: int = 0) -> Iterator[Message]:
    """Yield readings every 10 s of a port that is paused 85 % of the time, whose bytes are refreshed more slowly."""
    for t in range(0, 400, 10):
        seen = t // refresh_s * refresh_s
        sent = min(seen, since_s) * 200 + max(0, seen - since_s) * sent_gbps
        traffic = {RX: {"d1": 10**15 + seen * GBPS, "d2": 10**15}, TX: {"d1": 10**15 + int(sent * GBPS), "d2": 7}}
        indexed: Cells = {(metric, -1): own for metric, own in traffic.items()}
        indexed[PAUSED, 3] = {"d1": int(max(0, t - since_s) * 850_000)}
        indexed[Metric.SPEED_BPS, -1] = {"d1": 400e9, "d2": 400e9}
        yield samples("p1-l0", t, {}, indexed=indexed)


@pytest.mark.parametrize(
    ("messages", "is_storm"),
    [
        pytest.param(list(paused_port(10)), False, id="fresh"),
        pytest.param(list(paused_port(30)), False, id="refreshed every 30 s, paused from the first reading"),
        pytest.param(list(paused_port(30, since_s=200)), False, id="refreshed every 30 s"),
        pytest.param(list(paused_port(60, since_s=200)), False, id="refreshed every 60 s"),
        pytest.param(list(paused_port(20, since_s=200)), False, id="refreshed every 20 s"),
        pytest.param(list(paused_port(10, since_s=200, sent_gbps=0)), True, id="a storm"),
        pytest.param(list(paused_port(30, since_s=200, sent_gbps=0)), True, id="a storm, refreshed every 30 s"),
    ],
)
def test_a_counter_that_was_not_refreshed_is_unknown_and_not_zero(messages: list[Message], is_storm: bool) -> None:
    """Bytes between two refreshes are no standstill; a real storm is found whatever the refresh period."""
    assert ("PAUSE_RECEIVED_BEGAN" in {s.kind.name for s in symptoms_of(stage(), messages)}) is is_storm


PORTS = [f"d{port}" for port in range(8)]
"""Four line cards of two ports; the last port of all is idle except for LLDP."""


def line_cards(
    phases: Sequence[int], *, refresh_s: int = 30, storm: tuple[int, int] = (0, 0), idle: bool = False
) -> Iterator[Message]:
    """Yield readings every 10 s of line cards that refresh their bytes in different phases, and pause throttles.

    Nothing leaves d0 in a storm, during which its peer pauses it all the time. It is idle before, if so given.
    """
    start, end = storm
    for t in range(0, 800, 10):
        received: dict[str, float | None] = {}
        sent: dict[str, float | None] = {}
        for number, port in enumerate(PORTS):
            phase = phases[number // 2]
            seen = (t - phase) // refresh_s * refresh_s + phase
            grown = 0 if idle and number == 0 else seen * 60 * GBPS if number < 7 else t // 30 * 300
            in_storm = min(max(seen - start, 0), end - start) if number == 0 and not idle else 0
            received[port], sent[port] = 10**15 + grown, 10**15 + grown - in_storm * 60 * GBPS
        paused: dict[str, float | None] = dict.fromkeys(PORTS[1:7], t * 850_000.0)
        paused["d0"] = min(max(t - start, 0), end - start) * 1e6
        speeds = dict.fromkeys(PORTS, 400e9)
        indexed: Cells = {(RX, -1): received, (TX, -1): sent, (PAUSED, 3): paused, (Metric.SPEED_BPS, -1): speeds}
        yield samples("p1-l0", t, {}, indexed=indexed)


@pytest.mark.parametrize("phases", [(0, 0, 0, 0), (0, 10, 0, 10), (0, 10, 20, 10)], ids=str)
@pytest.mark.parametrize("refresh_s", [10, 20, 30, 60])
def test_line_cards_that_refresh_in_different_phases_are_no_storm(phases: Sequence[int], refresh_s: int) -> None:
    """A port that moves does not show that the ports of other line cards were refreshed."""
    assert [s.kind.name for s in symptoms_of(stage(), list(line_cards(phases, refresh_s=refresh_s)))] == []


@pytest.mark.parametrize("restored_after", [0, 4, 35])
@pytest.mark.parametrize("idle", [False, True])
@pytest.mark.parametrize(("phases", "refresh_s"), [((0, 0, 0, 0), 10), ((0, 0, 0, 0), 30), ((0, 10, 20, 10), 30)])
def test_a_storm_is_found_whatever_the_phases(
    phases: Sequence[int], refresh_s: int, idle: bool, restored_after: int
) -> None:
    """A storm at a busy port or at an idle one is found by the second refresh, and its end by the next one.

    Also if a snapshot is read after so many readings.
    """
    messages, own = list(line_cards(phases, refresh_s=refresh_s, storm=(400, 600), idle=idle)), stage()
    found = symptoms_of(own, messages[:restored_after])
    if restored_after:
        data, own = own.snapshot(), stage()
        own.restore(data)
    found += symptoms_of(own, messages[restored_after:])
    assert [(s.kind.name, s.port) for s in found] == [("PAUSE_RECEIVED_BEGAN", "d0"), ("PAUSE_RECEIVED_ENDED", "d0")]
    began, ended = (s.at_ns for s in found)
    assert at(410) <= began <= at(410 + 2 * refresh_s)
    assert at(600) < ended <= at(600 + 2 * refresh_s)


def test_storms_that_repeat_at_one_port_are_no_slow_counter() -> None:
    """A port stands still in each storm, but no other port stands still and moves with it."""
    messages: list[Message] = []
    sent = 0
    for t in range(0, 400, 10):
        in_storm = t >= 200 and t % 30 != 0
        sent += 0 if in_storm else 10**10
        bytes_of = dict.fromkeys(PORTS[1:], 10**15 + t * GBPS) | {"d0": 10**15 + sent}
        cells: Cells = {(RX, -1): bytes_of, (TX, -1): bytes_of, (PAUSED, 3): {"d0": max(0, t - 190) * 1e6}}
        cells[Metric.SPEED_BPS, -1] = dict.fromkeys(PORTS, 400e9)
        messages.append(samples("p1-l0", t, {}, indexed=cells))
    found = [s for s in symptoms_of(stage(), messages) if s.kind.name == "PAUSE_RECEIVED_BEGAN"]
    assert [after(s.at_ns) for s in found] == [200, *range(220, 400, 30)]


@pytest.mark.parametrize(
    ("received", "ups"),
    [
        pytest.param([0] * 20, [], id="receives nothing"),
        pytest.param([9] + [0] * 19, [], id="grows once after it went down"),
        pytest.param([9] * 20, [120], id="receives"),
        pytest.param([9] * 8 + [0] * 12, [120], id="receives, and then no longer"),
    ],
)
def test_a_port_that_receives_frames_has_a_carrier_whatever_it_reports(received: Sequence[int], ups: list[int]) -> None:
    """A standby member of a LAG may report down; two readings with frames from it show its carrier.

    Another port in use shows that the device refreshes its counters for each reading.
    """
    total = 10**9
    messages: list[Message] = []
    for t, (state, grown) in enumerate([(1, 0), (1, 0), *((0, grown) for grown in received)]):
        total += grown
        cells: dict[Metric, dict[str, float | None]] = {UP: {"d1": state}, RX: {"d1": total, "d2": t * 10**9}}
        messages.append(samples("p1-l0", 80 + 10 * t, cells))
    found = symptoms_of(stage(), messages)
    assert [after(s.at_ns) for s in found if s.kind.name == "CAME_UP"] == ups
    downs = [after(s.at_ns) for s in found if s.kind.name == "WENT_DOWN"]
    assert downs == ([100, 210] if len(set(received)) > 1 and ups else [100])


@pytest.mark.parametrize(("counter", "restarts"), [(900, 0), (3, 1)])
def test_a_restart_by_syslog_needs_the_counters_of_another_source(counter: int, restarts: int) -> None:
    """A line about a restart is one sign."""
    messages: list[Message] = [
        samples("p1-l0", 0, {UP: {"d1": 1}, RX: {"d1": 500}}),
        event("p1-l0", 5, EventKind.DEVICE_REBOOT, Source.SOURCE_SYSLOG),
        samples("p1-l0", 10, {UP: {"d1": 1}, RX: {"d1": counter}}),
    ]
    assert [s.kind.name for s in symptoms_of(stage(), messages)].count("RESTARTED") == restarts


@pytest.mark.parametrize("boots", [(7, 7), (7, 8)])
@pytest.mark.parametrize(("counter", "restarts"), [(900, 0), (3, 1)])
def test_a_restart_by_event_or_boot_id_needs_counters_that_began_again(
    counter: int, restarts: int, boots: tuple[int, int]
) -> None:
    """An agent that restarted, or a stepped clock, excuses nothing. Without a reading, it counts."""
    messages: list[Message] = [
        samples("p1-l0", 0, {UP: {"d1": 1}, RX: {"d1": 500}}, boot_id=boots[0]),
        event("p1-l0", 5, EventKind.DEVICE_REBOOT),
        samples("p1-l0", 10, {UP: {"d1": 1}, RX: {"d1": counter}}, boot_id=boots[1]),
    ]
    found = symptoms_of(stage(), messages)
    assert len({(s.at_ns, s.by_event) for s in found if s.kind.name == "RESTARTED"}) == restarts * len(set(boots))
    silent = symptoms_of(own := stage(), messages[:2])
    silent += [o.message for o in own.advance_watermark(at(90)) if isinstance(o.message, Symptom)]
    assert {after(s.at_ns) for s in silent if s.kind.name == "RESTARTED"} == {5}


@pytest.mark.parametrize("by_event", [False, True], ids=["by boot id", "by event"])
@pytest.mark.parametrize("is_restored", [False, True], ids=["", "restored"])
@pytest.mark.parametrize(
    ("later", "next_s", "restarts"),
    [
        pytest.param([{"d1": 900, "d2": 900}], 10, 0, id="the counters went on"),
        pytest.param([{"d2": 900}], 10, 0, id="a message of one port went on"),
        pytest.param([{"d1": 3, "d2": 3}], 10, 1, id="the counters began again"),
        pytest.param([{"d1": None}, {"d1": 3, "d2": 3}], 10, 1, id="the counters began again, read late"),
        pytest.param([{"d1": None}] * 20, 10, 0, id="no counters for three minutes, read all the time"),
        pytest.param([{"d1": None}] * 20, 120, 1, id="no counters for three minutes, not read while it boots"),
    ],
)
def test_a_reading_without_counters_neither_confirms_nor_refutes_a_restart(
    later: list[dict[str, float | None]], next_s: int, restarts: int, is_restored: bool, by_event: bool
) -> None:
    """The walk of an agent that was restarted may end early; the next reading with counters decides, or the time."""
    begun = 7 if by_event else 8
    absent: dict[str, float | None] = {"d1": None}
    messages: list[Message] = [samples("p1-l0", 0, {UP: {"d1": 1}, RX: {"d1": 500, "d2": 500}}, boot_id=7)]
    messages += [event("p1-l0", 5, EventKind.DEVICE_REBOOT)] if by_event else []
    messages += [
        samples("p1-l0", t, {UP: {"d1": 1}, RX: counters}, boot_id=begun)
        for t, counters in zip(range(next_s, 1000, 10), [absent, *later], strict=False)
    ]
    own, first = stage(), 3 if by_event else 2
    found = symptoms_of(own, messages[:first])
    assert found == [] or next_s > 10
    if is_restored:
        data, own = own.snapshot(), stage()
        own.restore(data)
    found = [s for s in [*found, *symptoms_of(own, messages[first:])] if s.kind.name == "RESTARTED"]
    assert len(found) == restarts
    assert {(after(s.at_ns), s.by_event) for s in found} <= {(5 if by_event else next_s, by_event)}


@pytest.mark.parametrize(("silent_s", "restarts"), [(10, 0), (200, 1)])
def test_a_report_after_the_first_readings_of_a_restarted_device_counts(silent_s: int, restarts: int) -> None:
    """A device that was silent around its boot was not read all the time, although readings came before the report."""
    states: dict[Metric, dict[str, float | None]] = {UP: {"d1": 1}, RX: {"d1": None}}
    messages: list[Message] = [samples("p1-l0", t, {**states, RX: {"d1": 500}}) for t in range(0, 100, 10)]
    begin_s = 90 + silent_s
    messages += [samples("p1-l0", t, states) for t in (begin_s, begin_s + 10)]
    messages.append(event("p1-l0", begin_s - 5, EventKind.DEVICE_REBOOT))
    messages += [samples("p1-l0", t, states) for t in range(begin_s + 20, begin_s + 300, 10)]
    found = [after(s.at_ns) for s in symptoms_of(stage(), messages) if s.kind.name == "RESTARTED"]
    assert found == [begin_s - 5] * restarts


@pytest.mark.parametrize("cadence_s", [10, 60, 300])
@pytest.mark.parametrize(("counter", "restarts"), [(10**6, 0), (3, 1)])
def test_a_restart_waits_for_the_next_reading_of_a_slow_source(cadence_s: int, counter: int, restarts: int) -> None:
    """A reading that is due, or half a cadence late, decides; readings of others in the meantime do not."""
    last_s = 5 * cadence_s
    late_s = last_s + cadence_s * 3 // 2
    messages: list[Message] = [
        samples("p1-l0", t, {UP: {"d1": 1}, RX: {"d1": 500 + t}}, boot_id=7) for t in range(0, last_s + 1, cadence_s)
    ]
    messages.append(event("p1-l0", last_s + 2, EventKind.DEVICE_REBOOT))
    messages += [samples("p1-l1", t, {UP: {"d1": 1}}) for t in range(last_s + 3, late_s, 10)]
    messages.append(samples("p1-l0", late_s, {UP: {"d1": 1}, RX: {"d1": counter}}, boot_id=7))
    assert [s.kind.name for s in symptoms_of(stage(), messages)].count("RESTARTED") == restarts


@pytest.mark.parametrize(
    ("levels", "is_found"),
    [
        pytest.param({BER: 0.0, (Metric.RX_POWER_DBM, 0): -30.0}, True, id="no light"),
        pytest.param({BER: 0.0, (Metric.MEDIA_SNR_DB, 0): 0.0}, True, id="no SNR"),
        pytest.param({(Metric.RX_POWER_DBM, 0): -30.0}, True, id="no light, without a BER"),
        pytest.param({BER: 0.0}, False, id="only a BER of 0"),
        pytest.param({BER: 1e-7, (Metric.RX_POWER_DBM, 0): -2.2}, False, id="healthy"),
    ],
)
def test_a_link_that_is_dark_for_two_of_ten_minutes_is_degrading(levels: dict[Column, float], is_found: bool) -> None:
    """A BER of 0 without a signal is no perfect link, and closes nothing."""
    healthy = {BER: 2e-7, (Metric.RX_POWER_DBM, 0): -2.0, (Metric.MEDIA_SNR_DB, 0): 20.0}
    messages = []
    for t in range(0, 3600, 10):
        now = levels if t >= 600 and t % 600 < 120 else {column: healthy[column] for column in levels}
        indexed: Cells = {column: {"u0": value} for column, value in (now | {(UP, -1): 1.0}).items()}
        messages.append(samples("p1-l0", t, {}, indexed=indexed))
    found = {f.condition for f in findings(play(messages))}
    assert found == ({Condition.LINK_DEGRADING} if is_found else set())


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("b4_cached_bytes", {"CONGESTION_INCAST"}),
        ("b4c_fresh_bytes", {"CONGESTION_INCAST"}),
        ("b6_agent_restart_masks_flap", {"LINK_FLAP"}),
        ("b6c_flap_alone", {"LINK_FLAP"}),
        ("b7_dormant_standby", set()),
        ("b8_sonic_alias_lldp", set()),
        ("t1_rounded_10s", set()),
    ],
)
def test_a_recording_after_a_public_report_has_only_the_true_finding(
    case: str, expected: set[str], tmp_path: Path
) -> None:
    """See DECISIONS.md for each of them."""
    folder = DATA / "field" / "net" / "rec" / case
    if not folder.is_dir():
        pytest.skip(f"without the recording {folder}")
    events, facts = folder / "events.csv", folder / "facts.jsonl"
    recording = Recording(
        (folder / "samples.csv.gz",), (events,) if events.exists() else (), facts if facts.exists() else None, None,
        None, folder / "inventory",
    )  # fmt: skip
    out = tmp_path / "found.jsonl"
    run(recording, Settings(), out)
    text = out.read_text()
    assert {name for name in CONDITIONS if f'"{name}"' in text} == expected


CONDITIONS = (
    "CONGESTION_INCAST", "CONGESTION_PFC_STORM", "LINK_FLAP", "LINK_DOWN", "LINK_MISCABLED", "DEVICE_DOWN",
    "TELEMETRY_STALE", "CONGESTION_COLLAPSE", "CONGESTION_IMBALANCE", "RAIL_DEGRADED",
)  # fmt: skip


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1)], ids=["in order", "late"])
@pytest.mark.parametrize("jump", [2**63, 2**64 - 3, 10**6])
def test_a_counter_that_jumps_was_set(jump: int, order: Sequence[int]) -> None:
    """A link does not go down a thousand times a second; a counter that fell below zero has such a growth."""
    values = (5, jump, jump + 1)
    messages = [samples("p1-l0", n * 10, {Metric.LINK_DOWN_EVENTS: {"d1": v}}) for n, v in enumerate(values)]
    found = [one.payload for one in symptoms_of(stage(), [messages[place] for place in order])]
    assert {one.growth for one in found if isinstance(one, CounterGrowth)} == {1}
