"""Tests that what the bridge does not read is counted, and logged once with a sample and the next step."""

from collections.abc import Iterator

import orjson
import pytest
from structlog.testing import capture_logs

from collectors.bridge.fold import Refused
from collectors.bridge.left_out import LeftOut, Reason
from streams.fabric.catalogue import Metric
from tests.fixtures.bridge_records import START_NS, S, all_of, fold_of, merged, octets, take

Logs = list[dict[str, object]]


@pytest.fixture
def logs() -> Iterator[Logs]:
    with capture_logs() as captured:
        yield captured  # type: ignore[misc]


def reasons(logs: Logs) -> list[object]:
    return [line["reason"] for line in logs if line["event"] == "not read"]


@pytest.mark.parametrize("path", ["/interfaces", "/interfaces/interface", "openconfig:/interfaces/interface/state"])
def test_telegrafs_link_state_is_read_wherever_its_path_ends(path: str, logs: Logs) -> None:
    """The tag `path` may be the list, its entry or the container, by the subscription and `trim_field_names`."""
    line = f'ifstate,name=Ethernet1/1,path={path},source=leaf1 oper_status="DOWN",admin_status="UP" {START_NS}'
    assert merged(all_of(fold_of(), [line])) == {"Ethernet1/1": {(Metric.OPER_UP, -1): 0.0, (Metric.ADMIN_UP, -1): 1.0}}
    assert not logs


def test_leaves_of_other_containers_are_read_by_the_beginning_and_end_of_their_path() -> None:
    """The family of the link state: Ethernet counters, queues and the boot time, with trimmed names."""
    fold = fold_of()
    result = all_of(
        fold,
        [
            f"e,name=Et1,path=/interfaces/interface/ethernet,source=l1 in_mac_pause_frames=7i {START_NS}",
            f"q,interface_id=Et1,name=Et1,queue_name=3,path=/qos/interfaces,source=l1 dropped_pkts=5i {START_NS}",
            f"b,path=/system,source=l1 boot_time={START_NS}i {START_NS}",
        ],
    )
    assert merged(result) == {"Et1": {(Metric.PAUSE_RX_FRAMES, -1): 7, (Metric.QUEUE_DROPPED_PACKETS, 3): 5}}
    assert fold.devices.known["l1"].boot_id == START_NS


@pytest.mark.parametrize("field", ['oper_status="UP"', "in_octets=5i"])
@pytest.mark.parametrize("tag", ["index", "subinterface_index"])
def test_a_subinterface_is_not_its_port_where_the_path_ends_at_the_port(tag: str, field: str, logs: Logs) -> None:
    """Its state and counters have the same names; the tag of its key differs."""
    fold = fold_of()
    line = f"sub,{tag}=0,name=Et1,path=/interfaces/interface,source=leaf1 {field} {START_NS}"
    assert all_of(fold, [line]) == []
    assert fold.devices.metrics.by_label("unknown") == {"sub": 1} and reasons(logs) == ["no_signal"]


NOTIFICATION = {
    "source": "leaf1:57400",
    "subscription-name": "ports",
    "timestamp": START_NS + 1,
    "time": "2023-11-14T22:13:20.000000001Z",
    "prefix": "openconfig:interfaces/interface[name=Ethernet1/1]",
    "updates": [
        {"Path": "state/counters/in-octets", "values": {"state/counters/in-octets": 2**60 + 1}},
        {"Path": "state/oper-status", "values": {"state/oper-status": "DOWN"}},
        {"Path": "ethernet/state", "values": {"ethernet/state": {"counters": {"in-mac-pause-frames": "9"}}}},
    ],
}


def test_gnmics_format_json_is_read_as_its_events() -> None:
    """It is gnmic's format if none is configured: keys in paths, a prefix, nested values, a sync response."""
    fold = fold_of()
    path = "components/component{}/transceiver/physical-channels/channel{}/state/input-power"
    lane = {"Path": path.format("[name=x[1\\]]", "[index=2]"), "values": {path.format("", ""): -1.5}}
    other = NOTIFICATION | {"prefix": "", "updates": [lane]}
    result = all_of(fold, [orjson.dumps(one) for one in (NOTIFICATION, {"sync-response": True}, other)])
    assert {one.device for one in result} == {"leaf1"}
    assert merged(result) == {
        "Ethernet1/1": {(Metric.RX_BYTES, -1): float(2**60 + 1), (Metric.OPER_UP, -1): 0.0,
                        (Metric.PAUSE_RX_FRAMES, -1): 9},
        "x[1]": {(Metric.RX_POWER_DBM, 2): -1.5},
    }  # fmt: skip
    assert fold.devices.metrics.value("poisoned") == 0


def test_deletes_of_gnmics_format_json_are_no_refusal() -> None:
    """An empty list of updates is left out by gnmic."""
    fold = fold_of()
    gone = {"source": "l1", "timestamp": START_NS, "deletes": ["interfaces/interface[name=Et1]"]}
    assert take(fold, [orjson.dumps(gone)]) == [] and fold.devices.metrics.value("poisoned") == 0


@pytest.mark.parametrize(
    "value",
    [
        b'{"update":{"timestamp":"1700000000000000000","update":[]}}',
        b"interfaces/interface[name=Et1]/state/counters/in-octets: 5",
        orjson.dumps(NOTIFICATION | {"updates": [{"Path": 5}]}),
        orjson.dumps(NOTIFICATION | {"prefix": "a" * 200_000}),
        b"\x0a\xff",
    ],
)
def test_a_format_that_is_not_read_is_refused_and_logged_once(value: bytes, logs: Logs) -> None:
    """protojson, flat, proto: the log names the formats that are read."""
    fold = fold_of()
    refused = [one for one in take(fold, [value, value]) if isinstance(one, Refused)]
    assert [one.value for one in refused] == [value, value] and fold.devices.metrics.value("poisoned") == 2
    (line,) = [line for line in logs if line["event"] == "not read"]
    assert line["reason"] == "bad_record" and "format: event" in str(line["next"]) and line["sample"]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (f"cpu,host=a usage=1 {START_NS}", "no_input"),
        (f"infiniband,device=mlx5_0,port=1 link_downed=1i {START_NS}", "no_device"),
        (f"ifs,source=l1,name=Et1,path=/interfaces/interface/state mtu=9000i {START_NS}", "no_signal"),
        (f"ifs,source=l1,path=/interfaces/interface/state/counters in_octets=9i {START_NS}", "no_port"),
        (f"ifs,source=l1,name=Et1,path=/interfaces/interface/state/counters in_octets=9.5 {START_NS}", "bad_value"),
        (f"snmp,agent_host=l1 uptime=-5i {START_NS}", "bad_value"),
    ],
)
def test_each_reason_is_logged_once_with_a_sample_and_the_next_step(record: str, reason: str, logs: Logs) -> None:
    """Each is counted too, every time."""
    fold = fold_of()
    assert all_of(fold, [record, record]) == []
    assert reasons(logs) == [reason] and all(line["sample"] and line["next"] for line in logs)
    assert sum(fold.devices.metrics.value(name) for name in ("unknown", "unnamed", "unreadable")) == 2


def test_the_log_is_bounded(logs: Logs) -> None:
    """A broken source may have any number of measurements."""
    left_out = LeftOut()
    for n in range(1000):
        left_out.report(Reason.NO_INPUT, f"m{n}", lambda: "x")
    assert len(logs) == 201 and "more kinds" in str(logs[-1]["event"])


def telegraf_json(second: int, octets: int) -> bytes:
    """Return a metric as Telegraf's JSON serializer writes it by default: its time in whole seconds."""
    return orjson.dumps({
        "name": "ifs", "timestamp": second, "fields": {"in_octets": octets, "oper_status": "UP"},
        "tags": {"source": "leaf1", "name": "Et1", "path": "/interfaces/interface"},
    })  # fmt: skip


@pytest.mark.parametrize(("spacing_s", "counters"), [(2, [0]), (10, [0]), (20, [0, 1, 2, 3]), (60, [0, 1, 2, 3])])
def test_counters_in_whole_seconds_are_read_only_if_their_rates_are_right(
    spacing_s: int, counters: list[int], logs: Logs
) -> None:
    """At 2 s a cut time makes a rate wrong by up to a half; states and gauges are read in any case."""
    fold = fold_of()
    at_s = START_NS // S
    result = all_of(fold, [telegraf_json(at_s + n * spacing_s, n) for n in range(4)])
    found = [merged([one])["Et1"] for one in result]
    assert [one[Metric.RX_BYTES, -1] for one in found if (Metric.RX_BYTES, -1) in one] == counters
    assert [one[Metric.OPER_UP, -1] for one in found] == [1.0] * 4
    dropped = 4 - len(counters)
    assert fold.devices.metrics.value("coarse_times", "leaf1") == dropped
    assert [("json_timestamp_units" in str(line["next"])) for line in logs] == [True] * bool(dropped)


@pytest.mark.parametrize(("offset_ns", "counters"), [(0, 1), (1_234, 4)])
def test_times_that_telegraf_rounded_are_whole_seconds_also_in_ns(offset_ns: int, counters: int, logs: Logs) -> None:
    """Its default `precision` rounds what it polls; an exact time is never a multiple of a second."""
    fold, line = fold_of(), "interface,agent_host=leaf1,ifName=Et1 ifHCInOctets={}i,ifOperStatus=1i {}"
    lines = [line.format(n, START_NS + n * 10 * S + offset_ns) for n in range(4)]
    found = [merged([one])["Et1"] for one in all_of(fold, lines)]
    assert sum((Metric.RX_BYTES, -1) in one for one in found) == counters
    assert [one[Metric.OPER_UP, -1] for one in found] == [1.0] * 4
    assert [("precision" in str(line["next"])) for line in logs] == [True] * (counters == 1)


def test_readings_in_whole_seconds_keep_their_numbers() -> None:
    """The number of a reading does not depend on whether its counters were read: it is the identity of a message."""
    at_s = START_NS // S
    records = [telegraf_json(at_s + 2 * n, n) for n in range(4)]
    assert [one.number for one in all_of(fold_of(), records)] == [1, 2, 3, 4]
    only_octets = [
        orjson.dumps(orjson.loads(one) | {"fields": {"in_octets": n}}) for n, one in enumerate(records)
    ]  # fmt: skip
    later = octets(START_NS + 60 * S, 5)
    assert [one.number for one in all_of(fold_of(), [*only_octets, later])] == [1, 5]
