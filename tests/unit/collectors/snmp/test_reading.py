"""Readings from tables: names, absent columns, wraps, discontinuities, states, restarts."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.core.columns import json_lines
from collectors.core.context import DeviceEvent, Emitter
from collectors.snmp import mib
from collectors.snmp.ber import Column, Value
from collectors.snmp.port_index import port_index
from collectors.snmp.reading import Composer, LastValues, RestartDetection
from streams.fabric.catalogue import Metric
from streams.wire.errors import Reject
from streams.wire.models import EventKind, Source
from tests.fakes.publisher import RecordingPublisher
from tests.fixtures.snmp_tables import row, switch

S, DAY = 10**9, 86_400 * 10**9
HC_IN = mib.COUNTERS[Metric.RX_BYTES][0].columns[0]
IN_32 = mib.COUNTERS[Metric.RX_BYTES][1].columns[0]
IN_ERRORS = mib.COUNTERS[Metric.RX_ERRORS][0].columns[0]


def rows(composer: Composer, cells: dict[bytes, Column], cadence_s: float = 30) -> dict[str, dict[str, Any]]:
    """Return the published values of these tables, by port."""
    found = port_index(cells, mib.PHYSICAL, cadence_s, 100)
    reading = composer.compose(found, cells, (), 5 * S, 6 * S, 1)
    samples = Emitter(RecordingPublisher(), "test", 1, Source.SOURCE_SNMP).samples("sw", reading)
    return {line["port"]: line["metrics"] for line in map(orjson.loads, json_lines(samples))}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ({1: "Ethernet1", 2: "Ethernet2"}, ["Ethernet1", "Ethernet2"]),
        ({1: "lo0", 4179: "lo0", 3: "e"}, ["lo0#1", "e", "lo0#4179"]),
        ({1: "", 2: "  ", 300: "a\0b"}, ["if1", "if2", "a"]),
        ({1: "x", 7: "x", 3: "x#7"}, ["x#1", "x#7#3", "x#7"]),
    ],
)
def test_port_names_are_unique(names: dict[int, str], expected: list[str]) -> None:
    """Duplicates get their index as a suffix, rows without a name are named by it; rows are in its order."""
    found = port_index(switch(names), mib.PHYSICAL, 30, 100)
    assert list(found.name.values()) == expected


def test_a_missing_column_is_absent() -> None:
    """Neither 0 nor a guess, for the whole device and for one row."""
    cells = switch({1: "a", 2: "b"})
    cells[HC_IN] = {row(1): 7}
    result = rows(Composer(), cells)
    assert result["a"] == {"rx_bytes": 7, "oper_up": 1, "admin_up": 1, "speed_bps": 1e11}
    assert result["b"] == {"oper_up": 1, "admin_up": 1, "speed_bps": 1e11}


@pytest.mark.parametrize("value", [b"hostile", -1, 2**64 - 1])
def test_a_value_of_another_kind_is_absent(value: Value) -> None:
    """Also if a device answers a counter with a string."""
    cells = switch({1: "a"}, IF_OPER_STATUS={1: b"up"})
    cells[HC_IN], cells[mib.IF_HIGH_SPEED] = {row(1): value}, {row(1): b"fast"}
    assert rows(Composer(), cells)["a"] == {"admin_up": 1}


@pytest.mark.parametrize(
    ("oper", "expected"), [(1, 1), (2, 0), (3, 0), (4, None), (5, None), (6, 0), (7, 0), (99, None)]
)
def test_only_up_is_up_and_unknown_is_absent(oper: int, expected: int | None) -> None:
    """A port without its module (notPresent, 6) is down, and a row like every other."""
    assert rows(Composer(), switch({1: "a"}, IF_OPER_STATUS={1: oper}))["a"].get("oper_up") == expected


@pytest.mark.parametrize(
    ("high", "plain", "expected"),
    [
        (400_000, 0, 4e11), (0, 10**9, 1e9), (0, 2**32 - 1, None), (0, 0, None), (None, 10**9, 1e9),
        (2**32 - 1, 0, None), (2**32 - 1, 2**32 - 1, None), (2**32 - 1, 10**9, 1e9),
    ],
)  # fmt: skip
def test_a_speed_of_zero_or_without_end_is_absent(high: int | None, plain: int, expected: float | None) -> None:
    """Of 517 devices 311 report 0 for ports that are up; ifSpeed ends at 4.29 Gb/s, and an unknown speed may be -1."""
    cells = switch({1: "a"}, IF_SPEED={1: plain}, IF_HIGH_SPEED={} if high is None else {1: high})
    assert rows(Composer(), cells)["a"].get("speed_bps") == expected


IF, IFX, DOT3 = "1.3.6.1.2.1.2.2.1", "1.3.6.1.2.1.31.1.1.1", "1.3.6.1.2.1.10.7"
PFC = "1.3.111.2.802.1.1.21.1.1.1"
COLUMNS = {  # metric: its 64-bit columns, then its 32-bit ones, as the MIBs number them
    "rx_bytes": ((f"{IFX}.6",), (f"{IF}.10",)),
    "tx_bytes": ((f"{IFX}.10",), (f"{IF}.16",)),
    "rx_packets": ((f"{IFX}.7", f"{IFX}.8", f"{IFX}.9"), (f"{IF}.11", f"{IFX}.2", f"{IFX}.3")),
    "tx_packets": ((f"{IFX}.11", f"{IFX}.12", f"{IFX}.13"), (f"{IF}.17", f"{IFX}.4", f"{IFX}.5")),
    "rx_discards": ((), (f"{IF}.13",)),
    "tx_discards": ((), (f"{IF}.19",)),
    "rx_errors": ((), (f"{IF}.14",)),
    "tx_errors": ((), (f"{IF}.20",)),
    "rx_fcs_errors": ((f"{DOT3}.11.1.2",), (f"{DOT3}.2.1.3",)),
    "rx_symbol_errors": ((f"{DOT3}.11.1.6",), (f"{DOT3}.2.1.18",)),
    "pause_rx_frames": ((f"{DOT3}.10.1.5",), (f"{DOT3}.10.1.3",)),
    "pause_tx_frames": ((f"{DOT3}.10.1.6",), (f"{DOT3}.10.1.4",)),
    "pfc_tx_frames": ((), (f"{PFC}.2",)),
    "pfc_rx_frames": ((), (f"{PFC}.3",)),
}


def test_each_metric_has_its_own_columns_and_the_64_bit_ones_are_preferred() -> None:
    """Every column has a different number here, so that a mix-up of any two would show."""
    every = sorted({column for ways in COLUMNS.values() for way in ways for column in way})
    value = {column: 1000 + place**2 for place, column in enumerate(every)}
    wide = {column for ways in COLUMNS.values() for column in ways[0]}
    cells = switch({1: "a", 2: "b"}, IF_HIGH_SPEED={1: 10, 2: 10})
    for column in every:
        has_it = (2,) if column in wide else (1, 2)
        cells[mib.oid(column)] = {row(n): value[column] for n in has_it}
    result = rows(Composer(), cells)
    for port, place in (("a", 1), ("b", 0)):
        expected = {metric: sum(value[column] for column in ways[place] or ways[1]) for metric, ways in COLUMNS.items()}
        assert {metric: result[port][metric] for metric in COLUMNS} == expected


def test_a_32_bit_counter_continues_past_its_end_and_restarts_after_a_reset() -> None:
    """A decrease by more than half the range is a wrap; a smaller one is a reset."""
    last_values = LastValues()
    result = [last_values.value(b"c", b"r", raw) for raw in (4_000_000_000, 5, 4_000_000_000, 7, 3)]
    assert result == [4_000_000_000, 2**32 + 5, 2**32 + 4_000_000_000, 2 * 2**32 + 7, 3]


@given(st.lists(st.integers(0, 2**31 - 1), max_size=30), st.integers(0, 2**32 - 1))
def test_the_growth_of_a_counter_is_published(steps: list[int], first: int) -> None:
    """For any initial value and any number of wraps."""
    last_values, raw = LastValues(), first
    before = last_values.value(b"c", b"r", raw)
    for step in steps:
        raw = (raw + step) % 2**32
        now = last_values.value(b"c", b"r", raw)
        assert now - before == step
        before = now


def test_a_discontinuity_is_no_wrap() -> None:
    """If the device reports a discontinuity of a row, a lower value is a reset."""
    composer = Composer()
    for errors, since, expected in ((4_294_967_290, 0, 4_294_967_290), (5, 0, 2**32 + 5), (3, 77, 3), (4, 77, 4)):
        cells = switch({1: "a"}, IF_DISCONTINUITY={1: since})
        cells[IN_ERRORS] = {row(1): errors}
        assert rows(composer, cells)["a"]["rx_errors"] == expected


def test_32_bit_octets_are_used_only_if_they_wrap_slowly_enough() -> None:
    """At 100 Gb/s they wrap in a third of a second: the number of wraps between two polls is unknown."""
    for megabits, is_read in ((100, True), (100_000, False)):
        cells = switch({1: "a"}, IF_HIGH_SPEED={1: megabits})
        cells[IN_32] = {row(1): 9}
        assert ("rx_bytes" in rows(Composer(), cells)["a"]) is is_read


@pytest.mark.parametrize(("plain", "high"), [(2**32 - 1, None), (0, 0), (None, None)])
def test_32_bit_octets_of_a_port_of_unknown_speed_are_not_read(plain: int | None, high: int | None) -> None:
    """It may be of any speed. Its errors, which do not grow with the speed, are read."""
    speeds = {"IF_SPEED": {} if plain is None else {1: plain}, "IF_HIGH_SPEED": {} if high is None else {1: high}}
    cells = switch({1: "a"}, **speeds)
    cells[mib.oid(f"{IF}.10")] = cells[mib.oid(f"{IF}.11")] = cells[IN_ERRORS] = {row(1): 5}
    got = rows(Composer(), cells)["a"]
    assert "rx_bytes" not in got and "rx_packets" not in got
    assert got["rx_errors"] == 5


def test_more_ports_than_allowed_are_refused() -> None:
    """A device that invents ports is not read."""
    with pytest.raises(Reject, match="101 ports"):
        port_index(switch({n: f"e{n}" for n in range(1, 102)}), mib.PHYSICAL, 30, 100)


def test_a_restart_is_detected_and_numbered() -> None:
    """By sysUpTime if no agent counts boots; the number is stable between boots."""
    boots = RestartDetection()
    assert not boots.observe(500_000, None, None, DAY)
    first = boots.boot_id
    assert first and not boots.observe(503_000, None, None, DAY + 30 * S) and boots.boot_id == first
    assert boots.observe(1_000, None, None, DAY + 70 * S) and boots.boot_id != first
    assert abs(boots.booted_ns - (DAY + 60 * S)) < S


def test_the_agents_boot_counter_is_the_boot_id() -> None:
    """Two runs of the collector agree; if the agent does not count a boot, the time distinguishes them."""
    one, other = RestartDetection(), RestartDetection()
    one.observe(500_000, 8, 5_000, DAY)
    other.observe(900_000, 8, 9_000, DAY + 4_000 * S)
    assert one.boot_id == other.boot_id
    assert one.observe(700, 9, 7, DAY + 99 * S) and one.boot_id != other.boot_id
    assert other.observe(700, 8, 7, DAY + 5_000 * S) and other.boot_id != one.boot_id


def test_a_wrap_of_sys_up_time_is_no_restart() -> None:
    """After 497 days; nor is an agent that answers a little out of order."""
    boots = RestartDetection()
    boots.observe(2**32 - 1000, None, None, DAY)
    before = boots.boot_id
    assert not boots.observe(2000, None, None, DAY + 30 * S)
    assert not boots.observe(1800, None, None, DAY + 31 * S) and boots.boot_id == before
    assert not boots.observe(None, None, None, DAY + 60 * S)


@pytest.mark.parametrize(
    ("after", "only_agent"),
    [
        ({1: 900, 2: 700, 3: 2}, True),
        ({1: 1, 2: 2, 3: 2}, False),
        ({}, False),
    ],
)
def test_a_restarted_agent_keeps_the_boot_id_if_the_counters_went_on(after: dict[int, int], only_agent: bool) -> None:
    """One counter that was cleared is no restart; without counters the agent's word counts."""
    found = RestartDetection()
    assert not found.observe(100 * 86_400, 7, 86_400, DAY)
    boot = found.boot_id, found.booted_ns
    found.cells = {HC_IN: {row(n): 500 for n in (1, 2, 3)}}
    assert found.observe(100, 8, 1, DAY + 30 * S)
    assert found.boot_id != boot[0]
    found.pending = DeviceEvent(EventKind.DEVICE_REBOOT, "", DAY, "", found.boot_id)
    assert found.was_only_agent({HC_IN: {row(n): value for n, value in after.items()}}) is only_agent
    assert ((found.boot_id, found.booted_ns) == boot) is only_agent
    assert not found.observe(3100, 8, 31, DAY + 60 * S)


def test_ports_without_a_counter_that_most_ports_have_are_named() -> None:
    """A column that only a few ports have is none of those."""
    cells = switch({1: "a", 2: "b", 3: "c"})
    cells[HC_IN] = {row(1): 7, row(3): 9}
    cells[IN_ERRORS] = {row(1): 0}
    found = port_index(cells, mib.PHYSICAL, 30, 100)
    assert found.missing == {"rx_bytes": ("b",)}
    assert found.expected[HC_IN] == {row(1), row(3)}


@pytest.mark.parametrize(
    ("column", "metric"),
    [("IF_OPER_STATUS", "oper_up"), ("IF_ADMIN_STATUS", "admin_up"), ("IF_HIGH_SPEED", "speed_bps")],
)
def test_ports_without_a_state_that_most_ports_have_are_named(column: str, metric: str) -> None:
    """No finding of link/down is possible for a port whose state is not read."""
    cells = switch({1: "a", 2: "b", 3: "c"})
    cells[getattr(mib, column)] = {row(n): 1 for n in (1, 3)}
    assert port_index(cells, mib.PHYSICAL, 30, 100).missing == {metric: ("b",)}
