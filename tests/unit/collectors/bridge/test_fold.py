"""A partition's records, the messages from them, and their numbers: a repeat has the same."""

import re
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.bridge.fold import Gathered, NumberedEvent, Output, Position, Refused
from collectors.bridge.points import Source
from streams.fabric.catalogue import Metric
from streams.wire.models import EventKind
from tests.fixtures.bridge_records import COUNTERS, START_NS, S, all_of, event, fold_of, merged, octets, rows, take
from tests.fixtures.call_counting import counting


def test_the_ports_of_one_instant_are_one_reading() -> None:
    """Records a few milliseconds apart become one message; each row keeps its own time."""
    result = all_of(fold_of(), [octets(START_NS + port * 2_000_000, port, port=f"Eth{port}") for port in range(8)])
    (only,) = result
    assert only.reading.row == tuple(f"Eth{port}" for port in range(8))
    assert only.reading.sampled_at_ns == START_NS
    assert only.reading.row_delay_us == tuple(port * 2000 for port in range(8))


def test_the_next_instant_is_another_reading() -> None:
    """It ends the first, which goes out at once."""
    fold = fold_of()
    assert take(fold, [octets(START_NS, 1)]) == []
    (first,) = take(fold, [octets(START_NS + 10 * S, 2)])
    assert isinstance(first, Gathered)
    assert (first.number, first.reading.sampled_at_ns) == (1, START_NS)
    (second,) = fold.cut()
    assert isinstance(second, Gathered)
    assert (second.number, second.reading.sampled_at_ns) == (2, START_NS + 10 * S)


def test_a_value_that_comes_again_is_another_reading_however_soon() -> None:
    """A port read every 100 ms loses none of its readings."""
    result = all_of(fold_of(), [octets(START_NS + n * S // 10, n) for n in range(5)])
    assert [rows(one.reading)["Ethernet1"][Metric.RX_BYTES, -1] for one in result] == [0, 1, 2, 3, 4]


def test_the_same_record_twice_is_one_value() -> None:
    """A retried record adds nothing."""
    result = all_of(fold_of(), [octets(START_NS, 7), octets(START_NS, 7)])
    assert merged(result) == {"Ethernet1": {(Metric.RX_BYTES, -1): 7}}
    assert len(result) == 1


def test_two_devices_in_one_unit_have_its_number() -> None:
    """Identity is by device, so that they may."""
    result = all_of(fold_of(), [octets(START_NS, 1, "leaf1"), octets(START_NS + 1, 2, "leaf2")])
    assert [(one.device, one.number) for one in result] == [("leaf1", 1), ("leaf2", 1)]


def test_a_time_ahead_of_ours_is_replaced_and_counted() -> None:
    """DESIGN 2.1; the values are kept."""
    fold = fold_of()
    (only,) = all_of(fold, [octets(START_NS + 5 * S, 1)], received_ns=START_NS)
    assert only.reading.sampled_at_ns == START_NS
    assert fold.devices.metrics.value("clock_replaced") == 1


def test_what_has_no_time_has_kafkas() -> None:
    """A line without one was true when it was written."""
    fold = fold_of()
    fold.add(
        Source(0, START_NS, b"if,source=l,name=Et1,path=/interfaces/interface/state/counters in_octets=1i"), START_NS
    )
    (only,) = fold.cut()
    assert isinstance(only, Gathered)
    assert only.reading.sampled_at_ns == START_NS


def test_unknown_measurements_are_counted_by_name() -> None:
    """And they are not logged one by one."""
    fold = fold_of()
    assert take(fold, [f"cpu,host=a usage=1,idle=2 {START_NS}", f"cpu,host=a usage=1 {START_NS}"]) == []
    assert fold.devices.metrics.by_label("unknown") == {"cpu": 3}


def test_a_poisoned_record_is_refused_by_name_and_the_stream_goes_on() -> None:
    """It is handed on with its reason, and what is around it is read."""
    fold = fold_of()
    result = [
        *take(fold, [octets(START_NS, 1), b"{", b"\xff\xfe", octets(START_NS + 1, 2, port="Ethernet2")]),
        *fold.cut(),
    ]
    refused = [one for one in result if isinstance(one, Refused)]
    assert [(one.offset, one.value) for one in refused] == [(1, b"{"), (2, b"\xff\xfe")]
    assert "not JSON" in refused[0].reason and "not UTF-8" in refused[1].reason
    assert fold.devices.metrics.value("poisoned") == 2
    assert merged(one for one in result if isinstance(one, Gathered)).keys() == {"Ethernet1", "Ethernet2"}


def test_an_unreadable_value_is_counted_and_absent() -> None:
    """Its neighbours are read."""
    fold = fold_of()
    values = {f"{COUNTERS}/in-octets": "lots", f"{COUNTERS}/out-octets": 2.5, f"{COUNTERS}/in-pkts": "NA",
              f"{COUNTERS}/out-pkts": 4}  # fmt: skip
    result = all_of(fold, [orjson.dumps(event(START_NS, values))])
    assert merged(result) == {"Ethernet1": {(Metric.TX_PACKETS, -1): 4}}
    assert fold.devices.metrics.value("unreadable", "leaf1") == 2


def test_a_change_of_state_is_reported_at_once() -> None:
    """As the event that it is, at the device's time; how a port stands at first is no change."""
    fold = fold_of()
    path = "/interfaces/interface/state/oper-status"
    result = take(fold, [orjson.dumps(event(START_NS + n * 10 * S, {path: text})) for n, text in
                       enumerate(["UP", "UP", "DOWN", "DOWN", "UP"])])  # fmt: skip
    emitted = [one for one in result if isinstance(one, NumberedEvent)]
    assert [(one.event.kind, one.event.port, one.event.at_ns) for one in emitted] == [
        (EventKind.LINK_DOWN, "Ethernet1", START_NS + 20 * S), (EventKind.LINK_UP, "Ethernet1", START_NS + 40 * S),
    ]  # fmt: skip
    assert len({one.number for one in emitted}) == 2


@pytest.mark.parametrize(
    ("boot_s", "octets", "reboots"),
    [(15, 2, 1), (15, 900, 0), (-60, 900, 0), (-60, 2, 1)],
)
def test_another_boot_time_is_a_reboot_if_the_counters_began_again(boot_s: int, octets: int, reboots: int) -> None:
    """The readings after it carry it; a stepped clock moves it, and the counters go on."""
    fold = fold_of()
    boots = [orjson.dumps(event(START_NS + n * 10 * S, {"/system/state/boot-time": boot, f"{COUNTERS}/in-octets": own}))
             for n, (boot, own) in enumerate([(START_NS - 100 * S, 500), (START_NS - 99 * S, 600),
                                              (START_NS + boot_s * S, octets)])]  # fmt: skip
    result = [*take(fold, boots), *fold.cut()]
    first, last = START_NS - 100 * S, START_NS + boot_s * S
    boot_ids = [one.reading.boot_id for one in result if isinstance(one, Gathered)]
    assert boot_ids == [first, first, last if reboots else first]
    assert [one.event.kind for one in result if isinstance(one, NumberedEvent)] == [EventKind.DEVICE_REBOOT] * reboots


def test_leaves_dated_by_their_last_change_are_sampled_when_their_record_is_written() -> None:
    """One reading for each sample, whatever times its leaves have; records that are all old keep their times."""
    fold, old = fold_of(), START_NS - 86_400 * S
    records = [
        Source(2 * n + k, START_NS + n * 10 * S, orjson.dumps(event(at_ns, {f"{COUNTERS}/{leaf}": 5 + n})))
        for n in range(4)
        for k, (at_ns, leaf) in enumerate([(START_NS + n * 10 * S, "in-octets"), (old, "in-errors")])
    ]  # fmt: skip
    result: list[Output] = [output for record in records for output in fold.add(record, record.at_ns)] + fold.cut()
    readings = [one.reading for one in result if isinstance(one, Gathered)]
    assert [one.sampled_at_ns for one in readings] == [START_NS + n * 10 * S for n in range(4)]
    assert all(len(one.counters.metric) == 2 for one in readings)
    late = fold_of()
    found = late.add(Source(0, START_NS, orjson.dumps(event(old, {f"{COUNTERS}/in-octets": 5}))), START_NS) + late.cut()
    assert [one.reading.sampled_at_ns for one in found if isinstance(one, Gathered)] == [old]


@pytest.mark.parametrize(
    ("name", "is_read"),
    [
        ("in-octets", True),
        ("counters/in-octets", True),
        ("/interface/state/counters/in-octets", True),
        ("interfaces_interface_state_counters_in_octets", True),
        ("interfaces.interface.state.counters.in-octets", True),
        ("state_counters_in_octets", True),
        ("counters.in_octets", True),
        ("/INTERFACES/INTERFACE/STATE/COUNTERS/IN-OCTETS", True),
        ("IN-OCTETS", True),
        ("octets", False),
        ("in_octets_rate", False),
    ],
)
def test_names_that_gnmic_trimmed_are_read_if_they_are_unambiguous(name: str, is_read: bool) -> None:
    fold = fold_of()
    result = [*take(fold, [orjson.dumps([event(START_NS, {name: 123})])]), *fold.cut()]
    assert [merged([one])["Ethernet1"][Metric.RX_BYTES, -1] for one in result if isinstance(one, Gathered)] == (
        [123] if is_read else []
    )
    assert fold.devices.metrics.value("unknown") == (not is_read)


def test_names_without_slashes_are_read_from_telegraf_too() -> None:
    """A processor that joins the steps of Telegraf's fields, and a field that begins with the port."""
    for name in ("interfaces_interface_state_counters_in_octets", "interface/state/counters/in_octets"):
        line = f"openconfig,source=leaf1,interface_name=Ethernet1 {name}=123i {START_NS}"
        (one,) = all_of(fold_of(), [line])
        assert rows(one.reading)["Ethernet1"][Metric.RX_BYTES, -1] == 123


def test_a_port_is_named_by_a_renamed_tag() -> None:
    value = event(START_NS, {f"{COUNTERS}/in-octets": 123})
    value["tags"]["interface"] = value["tags"].pop("interface_name")
    (one,) = all_of(fold_of(), [orjson.dumps([value])])
    assert rows(one.reading)["Ethernet1"][Metric.RX_BYTES, -1] == 123


def test_a_record_of_a_schema_registry_is_refused_with_the_reason() -> None:
    """Its five bytes are named, and the next record is read."""
    fold = fold_of()
    plain = orjson.dumps([event(START_NS, {f"{COUNTERS}/in-octets": 1})])
    refused, read = [*take(fold, [b"\0\0\0\0\x07" + plain, plain]), *fold.cut()]
    assert isinstance(refused, Refused) and "five bytes of a schema registry (0, id 7)" in refused.reason
    assert isinstance(read, Gathered)


@pytest.mark.parametrize(
    ("uptimes", "reboots"),
    [((100, 1100, 50_000, 20), 1), ((2**32 - 500, 300), 0), ((1000, 800), 0), ((90_000, "NA", 91_000), 0)],
)
def test_an_uptime_that_goes_back_is_a_reboot(uptimes: tuple[object, ...], reboots: int) -> None:
    """Its wrap after 497 days is none, and neither is an answer out of order."""
    fold = fold_of()
    lines = [f"snmp,agent_host=l1 uptime={n if isinstance(n, int) else 0}i {START_NS + i * 10 * S}"
             for i, n in enumerate(uptimes) if isinstance(n, int)]  # fmt: skip
    emitted = [one for one in take(fold, lines) if isinstance(one, NumberedEvent)]
    assert [one.event.kind for one in emitted] == [EventKind.DEVICE_REBOOT] * reboots


def test_past_the_bound_of_ports_and_devices_nothing_is_retained() -> None:
    """Whatever a peer sends; it is counted."""
    fold = fold_of(max_ports=2, max_devices=2)
    result = all_of(fold, [octets(START_NS, 1, f"leaf{n}", f"Eth{m}") for n in range(4) for m in range(4)])
    assert {(one.device, one.reading.row) for one in result} == {
        ("leaf0", ("Eth0", "Eth1")),
        ("leaf1", ("Eth0", "Eth1")),
    }
    assert fold.devices.metrics.value("out_of_bounds") > 0


def test_json_of_too_many_elements_is_refused_before_it_is_parsed() -> None:
    """The parser takes a second for the two million lists of 4 MiB."""
    (refused,) = take(fold_of(), ["[" + "[]," * 600_000 + "1]"])
    assert isinstance(refused, Refused) and "elements of JSON, more than 600000" in refused.reason


# Identity: reading again from a safe position gives the same messages under the same numbers.


def identity(result: Output) -> tuple[object, ...]:
    match result:
        case Gathered(device, number, reading):
            return "samples", device, number, reading.sampled_at_ns, reading.row, reading.counters.values.tobytes()
        case NumberedEvent(device, number, happening, _):
            return "event", device, number, happening
        case Refused(offset, reason, _):
            return "refused", offset, reason


STREAM = st.lists(
    st.tuples(
        st.sampled_from(["leaf1", "leaf2", "leaf3"]),
        st.sampled_from(["Eth1", "Eth2"]),
        st.integers(0, 40),  # tenths of a second
        st.booleans(),  # an event alone, or with the one before it
        st.booleans(),  # a long pause after it: a cut
    ),
    min_size=1,
    max_size=40,
)


@given(STREAM, st.data())
def test_a_restart_reports_the_same_under_the_same_numbers(
    stream: list[tuple[str, str, int, bool, bool]], data: st.DataObject
) -> None:
    """From every position that was ever safe, with the cuts that were declared, whatever came in whichever order.

    The messages after that position are published again, byte for byte, and nothing else.
    """
    records: list[bytes] = []
    cuts: set[int] = set()
    for number, (device, port, tenth, alone, is_cut) in enumerate(stream):
        made = event(START_NS + tenth * S // 10, {f"{COUNTERS}/in-octets": number}, device, port)
        if alone or not records:
            records.append(orjson.dumps([made]))
        else:
            records[-1] = orjson.dumps([*orjson.loads(records[-1]), made])
        if is_cut:
            cuts.add(len(records))
    fold = fold_of("gnmic")
    result: list[tuple[int, Output]] = []
    safe: list[Position] = []
    declared: list[int] = []
    for offset, value in enumerate(records):
        result += [(offset, one) for one in fold.add(Source(offset, 0, value), START_NS * 2)]
        safe.append(fold.safe)
        if offset + 1 in cuts and fold.is_gathering:
            declared.append(fold.next_offset)
            safe.append(fold.safe)
            result += [(offset + 1, one) for one in fold.cut()]
            safe.append(fold.safe)
    end = len(records)
    declared.append(end)
    result += [(end, one) for one in fold.cut()]
    position = data.draw(st.sampled_from(safe))
    again = fold_of("gnmic", position, [cut for cut in declared if cut > position.offset])
    repeated: list[Output] = []
    for offset in range(position.offset, end):
        repeated += again.add(Source(offset, 0, records[offset]), START_NS * 2)
    repeated += again.cut()
    first = [identity(one) for _, one in result if isinstance(one, Gathered) and one.number >= position.number]
    assert [identity(one) for one in repeated if isinstance(one, Gathered)] == first


@given(STREAM)
def test_no_value_is_lost_and_no_number_is_given_twice(stream: list[tuple[str, str, int, bool, bool]]) -> None:
    """Every value is in a reading, and a device has a number once."""
    fold = fold_of("gnmic")
    result = all_of(fold, [octets(START_NS + tenth * S // 10, number, device, port)
                         for number, (device, port, tenth, _, _) in enumerate(stream)])  # fmt: skip
    numbers = [(one.device, one.number) for one in result]
    assert len(set(numbers)) == len(numbers)
    newest = {(device, port, tenth): float(number) for number, (device, port, tenth, _, _) in enumerate(stream)}
    found = {value for one in result for row in rows(one.reading).values() for value in row.values()}
    assert set(newest.values()) <= found


def test_a_unit_without_end_is_ended_where_it_can_be_committed() -> None:
    """Batches of two instants each never leave a record's end without something gathered; after a while one is made."""
    fold = fold_of("gnmic")
    batches = [orjson.dumps([event(START_NS + (2 * n + i) * 10 * S, {f"{COUNTERS}/in-octets": n}) for i in (1, 2)])
               for n in range(6000)]  # fmt: skip
    take(fold, batches)
    assert 0 < fold.next_offset - fold.safe.offset <= 5000


def test_a_topic_that_was_made_again_goes_on_under_new_numbers() -> None:
    """Its offsets start again; numbers only grow, so nothing looks like an earlier message."""
    fold = fold_of(start=Position(100, 7), declared=[150])
    result = take(fold, [octets(START_NS, 1)])
    fold.next_offset = 0
    result += fold.add(Source(0, 0, octets(START_NS + 10 * S, 2)), START_NS * 2)
    result += fold.cut()
    assert [one.number for one in result if isinstance(one, Gathered)] == [7, 8]


QUARTER = 2**18
WIDE_AND_DEEP = {
    "brackets": b"[" * QUARTER,
    "objects": b'{"a":' * (QUARTER // 5),
    "quotes": b'x y="' + b'\\"' * QUARTER,
    "equals": b"a=" * QUARTER,
    "fields": b"x " + b"f=1," * QUARTER + b"g=1 1700000000",
    "backslashes": b"\\" * 2 * QUARTER,
    "spaces": b"x,t=" + b"\\ " * QUARTER + b" f=1",
    "lines in quotes": b'x f="' + b"\n" * QUARTER,
    "open quotes": b'x f="a\n' * (QUARTER // 8),
    "keys of a path": orjson.dumps([event(START_NS, {"[" * QUARTER: 1})]),
    "items of a path": orjson.dumps([event(START_NS, {"/interface.1" * (QUARTER // 12): 1})]),
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("value", WIDE_AND_DEEP.values(), ids=WIDE_AND_DEEP)
def test_a_wide_and_a_deep_record_cost_what_they_weigh(value: bytes) -> None:
    """A quarter of a megabyte of one sign takes a moment; in quadratic time it would take many minutes."""
    take(fold_of(), [value])


NEW_NAMES = {
    "fields": [event(START_NS, {f"/interfaces/x{number}": 1}) for number in range(2_500)],
    "tags": [event(START_NS, {"/x": 1}, **{f"tag{number}": "a"}) for number in range(2_500)],
    "long tags": [event(START_NS, {"/x": 1}, long="a" * 9_000)] * 10,
    "long fields": [event(START_NS, {"/" + "x" * 5_000 + str(number): 1}) for number in range(10)],
}


@pytest.mark.parametrize("points", NEW_NAMES.values(), ids=NEW_NAMES)
def test_the_new_names_of_a_record_are_examined_up_to_a_limit(points: list[dict[str, Any]]) -> None:
    """Each is searched in all profiles. What is past the limit is counted, and the next record is read as always."""
    fold = fold_of()
    with counting() as counted:
        take(fold, [orjson.dumps(points)])
    assert counted["SeriesKind._names"] <= 2_000
    assert fold.devices.metrics.value("unknown", "ports") == sum(len(point["values"]) for point in points)
    assert merged(all_of(fold, [octets(START_NS + S, 7)])) == {"Ethernet1": {(Metric.RX_BYTES, -1): 7}}


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"[" + b"1," * 100_000 + b"1]", r"not an event: 1 \(and 1000 more\)"),
        (b"a\n" * 100_000, r"line 1: .* \(and 1000 more\)"),
        (b"[" + b" " * (4 << 20) + b"]", "has 4194306 bytes, more than 4194304"),
        (b"[" * 100_000, "not JSON"),
        (b"x,source=a f=1i\n" * 50_001, "has more than 200000 values or 50000 points"),
        (b"x,source=a " + b",".join(b"f%d=1i" % n for n in range(200_001)), "has more than 200000 values"),
    ],
)
def test_a_hostile_record_is_refused_after_bounded_work(value: bytes, why: str) -> None:
    """A thousand invalid parts of a record are examined, and no record above the limit of bytes."""
    (refused,) = take(fold_of(), [value])
    assert isinstance(refused, Refused) and re.match(why, refused.reason)
