"""One connection to a device: bursts become readings, changes become events, and memory stays bounded."""

from time import perf_counter

import numpy as np
import pytest

from collectors.core.columns import Reading
from collectors.core.context import DeviceEvent
from collectors.core.metrics import CollectorMetrics
from collectors.gnmi.device_output import DeviceIdentity, facts_of
from collectors.gnmi.params import Params
from collectors.gnmi.parse import Connection
from lab.constants import with_constants
from streams.fabric.catalogue import Metric
from streams.wire.models import ABSENT_COUNTER, EventKind, Neighbor, Source
from tests.fixtures.gnmi_notifications import S, notification

T = 1_700_000_000 * S
DAY = 86_400
PARAMS = with_constants(Params, max_ports=4, max_paths=1000)(cadence_s=10)
COUNTERS = "/interfaces/interface[name={}]/state/counters"
STATE = "/interfaces/interface[name={}]/state"


class Device:
    """A simulated device with its connection, and a clock that only the test moves."""

    def __init__(self, *, on_change: bool = True) -> None:
        self.memory = DeviceIdentity()
        self.metrics = CollectorMetrics()
        self.on_change = on_change
        self.connect()

    def connect(self) -> None:
        self.connection = Connection("leaf1", PARAMS, self.memory, self.metrics, on_change=self.on_change)

    def send(
        self, values: dict[str, int | str | bytes], *, at_ns: int = T, prefix: str = "", received_ns: int | None = None,
        delete: tuple[str, ...] = (),
    ) -> list[Reading | DeviceEvent]:  # fmt: skip
        sent = notification(at_ns, values, prefix=prefix, delete=delete)
        return self.connection.process(sent, at_ns if received_ns is None else received_ns)

    def reading(self, now_ns: int = T + S) -> Reading:
        self.connection.synced()
        reading = self.connection.flush(now_ns)
        assert reading is not None
        return reading


def value(reading: Reading, port: str, metric: Metric) -> float | None:
    """Return a value of a reading; None is absent."""
    row = reading.row.index(port)
    for table, absent in ((reading.counters, ABSENT_COUNTER), (reading.gauges, None)):
        if metric in table.metric:
            found = table.values[table.metric.index(metric), row]
            return None if found == absent or np.isnan(found) else float(found)
    return None


def test_a_burst_is_one_reading_of_all_ports() -> None:
    """Notifications of one sample are combined; a row's own delay is preserved."""
    device = Device()
    device.send({"in-octets": 10, "out-octets": 0}, prefix=COUNTERS.format("e1"))
    device.send({"in-octets": 20}, prefix=COUNTERS.format("e2"), at_ns=T + 3_000_000)
    device.connection.synced()
    assert device.connection.flush(T + 10_000_000) is None
    reading = device.reading()
    assert reading.sampled_at_ns == T
    assert reading.row == ("e1", "e2")
    assert reading.row_delay_us == (0, 3000)
    assert value(reading, "e1", Metric.TX_BYTES) == 0
    assert value(reading, "e2", Metric.RX_BYTES) == 20
    assert device.connection.flush(T + 2 * S) is None


def test_a_reading_with_fewer_values_than_the_last_waits_longer() -> None:
    """The late half of a burst is not a separate reading, unless it does not arrive."""
    device = Device()
    for port in ("e1", "e2"):
        device.send({"in-octets": 1}, prefix=COUNTERS.format(port))
    device.reading()
    device.send({"in-octets": 2}, prefix=COUNTERS.format("e1"), at_ns=T + 10 * S)
    assert device.connection.flush(T + 11 * S) is None
    device.send({"in-octets": 2}, prefix=COUNTERS.format("e2"), at_ns=T + 10 * S, received_ns=T + 11 * S)
    assert value(device.reading(T + 12 * S), "e2", Metric.RX_BYTES) == 2
    device.send({"in-octets": 3}, prefix=COUNTERS.format("e1"), at_ns=T + 20 * S)
    assert value(device.reading(T + 23 * S), "e2", Metric.RX_BYTES) is None


def test_absent_is_not_zero() -> None:
    """A counter that a port did not report this time is absent, also if it was read before."""
    device = Device()
    device.send({"in-octets": 1, "out-octets": 2}, prefix=COUNTERS.format("e1"))
    device.reading()
    device.send({"in-octets": 3}, prefix=COUNTERS.format("e1"), at_ns=T + 10 * S)
    reading = device.reading(T + 13 * S)
    assert value(reading, "e1", Metric.RX_BYTES) == 3
    assert value(reading, "e1", Metric.TX_BYTES) is None
    assert Metric.TX_BYTES not in reading.counters.metric


def test_the_next_sample_ends_a_burst_that_was_never_quiet() -> None:
    """Two samples are never one reading, however late they are processed."""
    device = Device()
    device.send({"in-octets": 1}, prefix=COUNTERS.format("e1"))
    (first,) = device.send({"in-octets": 2}, prefix=COUNTERS.format("e1"), at_ns=T + 10 * S)
    assert isinstance(first, Reading)
    assert value(first, "e1", Metric.RX_BYTES) == 1
    assert value(device.reading(T + 11 * S), "e1", Metric.RX_BYTES) == 2


@pytest.mark.parametrize("path", ["/interfaces", "/interfaces/interface[name=e1]/state", "/"])
def test_json_of_a_container_is_the_same_as_its_leaves(path: str) -> None:
    """Blobs at any level, with modules before the names and numbers as strings, give the same values."""
    state = b'{"openconfig-interfaces:oper-status":"UP","counters":{"in-octets":"18446744073709551000","in-pkts":7}}'
    blobs = {
        "/interfaces/interface[name=e1]/state": state,
        "/interfaces": b'{"openconfig-interfaces:interface":[{"name":"e1","state":' + state + b"}]}",
        "/": b'{"openconfig-interfaces:interfaces":{"interface":[{"name":"e1","state":' + state + b"}]}}",
    }
    device = Device()
    device.send({path: blobs[path]})
    reading = device.reading()
    assert int(reading.counters.values[reading.counters.metric.index(Metric.RX_BYTES), 0]) == 18446744073709551000
    assert value(reading, "e1", Metric.RX_PACKETS) == 7
    assert value(reading, "e1", Metric.OPER_UP) == 1


def test_a_change_of_state_is_emitted_at_once_and_its_first_value_is_not() -> None:
    """The state at connection is no event; later changes are, with the device's value and time."""
    device = Device()
    assert device.send({"oper-status": "UP", "admin-status": "UP"}, prefix=STATE.format("e1")) == []
    assert value(device.reading(), "e1", Metric.OPER_UP) == 1
    events = device.send({"oper-status": "DOWN"}, prefix=STATE.format("e1"), at_ns=T + 5 * S)
    assert events == [DeviceEvent(EventKind.LINK_DOWN, "e1", T + 5 * S, "oper-status DOWN")]
    assert device.send({"oper-status": "DOWN"}, prefix=STATE.format("e1"), at_ns=T + 6 * S) == []
    device.connect()
    assert device.send({"oper-status": "UP"}, prefix=STATE.format("e1"), at_ns=T + 7 * S) == []


def test_a_state_sent_on_change_is_in_every_sample() -> None:
    """ON_CHANGE sends nothing while nothing changes: the state is retained; sampled states are in their sample only."""
    for on_change, expected in ((True, 0.0), (False, None)):
        device = Device(on_change=on_change)
        device.send({"oper-status": "DOWN"}, prefix=STATE.format("e1"))
        device.send({"in-octets": 1}, prefix=COUNTERS.format("e1"))
        assert value(device.reading(), "e1", Metric.OPER_UP) == 0
        device.send({"in-octets": 2}, prefix=COUNTERS.format("e1"), at_ns=T + 10 * S)
        assert value(device.reading(T + 13 * S), "e1", Metric.OPER_UP) == expected


def test_sampled_states_give_no_events() -> None:
    """The time of a change is unknown if states are only sampled; the samples show it."""
    device = Device(on_change=False)
    assert device.send({"oper-status": "UP"}, prefix=STATE.format("e1")) == []
    assert device.send({"oper-status": "DOWN"}, prefix=STATE.format("e1"), at_ns=T + 1) == []


def test_the_state_of_a_subinterface_is_not_that_of_its_port() -> None:
    """Only a complete path matches."""
    device = Device()
    assert (
        device.send(
            {"oper-status": "DOWN"}, prefix="/interfaces/interface[name=e1]/subinterfaces/subinterface[index=1]/state"
        )
        == []
    )
    device.send({"in-octets": 1}, prefix=COUNTERS.format("e1"))
    assert value(device.reading(), "e1", Metric.OPER_UP) is None


def test_a_new_boot_time_is_a_reboot_and_the_boot_id() -> None:
    """Also across connections; small variations of the boot time are none."""
    device = Device()
    boot = T - 86_400 * S
    assert device.send({"/system/state/boot-time": boot}) == []
    assert device.send({"/system/state/boot-time": boot + S}) == []
    device.connect()
    (events,) = device.send({"/system/state/boot-time": T - 5 * S})
    assert isinstance(events, DeviceEvent) and events.kind is EventKind.DEVICE_REBOOT and events.code == T - 5 * S
    device.send({"in-octets": 1}, prefix=COUNTERS.format("e1"))
    assert device.reading().boot_id == T - 5 * S


def test_a_clock_ahead_is_replaced_and_counted() -> None:
    """A device whose clock is more than 1 s ahead must not affect others; one that is behind keeps its time."""
    device = Device()
    device.send({"in-octets": 1}, prefix=COUNTERS.format("e1"), at_ns=T + 5 * S, received_ns=T)
    assert device.reading().sampled_at_ns == T
    assert device.metrics.value("clock_replaced") == 1
    device.send({"in-octets": 1}, prefix=COUNTERS.format("e1"), at_ns=T - 60 * S, received_ns=T)
    assert device.reading().sampled_at_ns == T - 60 * S


@pytest.mark.parametrize("old_first", [False, True])
def test_leaves_dated_by_their_last_change_are_sampled_when_they_arrive(old_first: bool) -> None:
    """Arista EOS dates a sampled leaf by its last change: each sample is one reading, at its arrival."""
    device = Device()
    changed = {"in-octets": 0, "in-errors": 3 * DAY, "in-fcs-errors": 3 * DAY}
    for n in range(4):
        now, found = T + n * 10 * S, []
        for leaf, age in sorted(changed.items(), key=lambda item: item[1], reverse=old_first):
            since_ns = now if not age else T - age * S
            found += device.send({leaf: 7 + n}, prefix=COUNTERS.format("e1"), at_ns=since_ns, received_ns=now)
            device.send({"out-octets": 5}, prefix=COUNTERS.format("e2"), at_ns=T - DAY * S, received_ns=now)
        assert found == []
        reading = device.reading(now + 4 * S)
        assert (reading.sampled_at_ns, reading.row_delay_us) == (now, ())
        assert (value(reading, "e1", Metric.RX_BYTES), value(reading, "e2", Metric.TX_BYTES)) == (7 + n, 5)


def test_send_times_of_a_backlog_and_of_a_slow_clock_are_preserved() -> None:
    """Messages that arrive late together keep their times, and so does a device whose clock is an hour behind."""
    for behind_s in (0, 3600):
        device, times = Device(), []
        for n in range(12):
            at_ns = T + (n * 10 - behind_s) * S
            outputs = device.send(
                {"in-octets": n}, prefix=COUNTERS.format("e1"), at_ns=at_ns, received_ns=T + max(n, 8) * 10 * S
            )
            times += [(output.sampled_at_ns - at_ns) // S for output in outputs if isinstance(output, Reading)]
        assert times == [-10] * 11


def test_a_first_state_sent_on_change_holds_at_the_reading() -> None:
    """Its own time is that of its last change, days ago."""
    device = Device()
    device.send({"oper-status": "UP"}, prefix=STATE.format("e2"), at_ns=T - DAY * S, received_ns=T)
    device.send({"in-octets": 1}, prefix=COUNTERS.format("e1"))
    reading = device.reading()
    assert (reading.sampled_at_ns, reading.row_delay_us, reading.row) == (T, (), ("e2", "e1"))


BOOT = T - 10 * 86_400 * S


@pytest.mark.parametrize(
    ("boot", "counter", "is_reboot"),
    [
        pytest.param(BOOT + 40 * S, 900, False, id="clock stepped forward"),
        pytest.param(BOOT - 90 * S, 900, False, id="clock stepped back"),
        pytest.param(T - 60 * S, 900, False, id="agent restarted"),
        pytest.param(T - 60 * S, 3, True, id="restarted"),
        pytest.param(10 * 86_400 * 100, 900, False, id="uptime in hundredths"),
        pytest.param(BOOT // 10_000_000, 900, False, id="hundredths of a second"),
    ],
)
def test_a_boot_time_that_moves_is_a_reboot_if_the_counters_began_again(
    boot: int, counter: int, is_reboot: bool
) -> None:
    """On one connection it never is: no connection survives a restart. After that the counters decide."""
    device = Device()
    device.send({"/system/state/boot-time": BOOT})
    device.send({"in-octets": 500, "out-octets": 600}, prefix=COUNTERS.format("e1"))
    before = device.reading()
    assert device.send({"/system/state/boot-time": BOOT + 40 * S}) == []
    device.memory.may_have_restarted()
    device.connect()
    assert device.send({"/system/state/boot-time": boot}) == []
    device.send({"in-octets": counter, "out-octets": counter}, prefix=COUNTERS.format("e1"), at_ns=T + 10 * S)
    reading = device.reading(T + 14 * S)
    event = device.memory.reboot
    assert (event is not None and event.kind is EventKind.DEVICE_REBOOT) == is_reboot
    assert reading.boot_id == (boot if is_reboot else before.boot_id)


@pytest.mark.parametrize(
    "hostile",
    [
        {"/": b'{"interfaces":{"interface":[' + b",".join(b'{"name":"e%d"}' % n for n in range(20_000)) + b"]}}"},
        {"/interfaces": b"[" + b",".join([b"1"] * 100_000) + b"]"},
        {"/" + "a/" * 5_000: 1},
        {f"/n{n}": 1 for n in range(5_000)},
    ],
)
def test_a_large_message_is_processed_in_slices(hostile: dict[str, int | str | bytes]) -> None:
    """No slice has more than some milliseconds of work, and what is out of bounds is counted and not processed."""
    device = Device()
    sent = notification(T, hostile)
    took, slices = [], device.connection.slices(sent, T)
    while True:
        began = perf_counter()
        ended = next(slices, StopIteration) is StopIteration
        took.append(perf_counter() - began)
        assert device.connection.flush(T + 100 * S) is None
        if ended:
            break
    assert sorted(took)[len(took) // 2] < 0.05
    assert len(took) >= 10 or device.metrics.value("out_of_bounds")
    assert value_of_rx_after(device) == 4


def value_of_rx_after(device: Device) -> float | None:
    device.connection.process(notification(T, {"in-octets": 4}, prefix=COUNTERS.format("e1")), T)
    return value(device.reading(), "e1", Metric.RX_BYTES)


def test_the_leaf_before_damping_has_priority() -> None:
    """If a device has several counters of transitions, `link-transitions` is used."""
    for order in (("carrier-transitions", "link-transitions"), ("link-transitions", "carrier-transitions")):
        device = Device()
        device.send(
            {name: {"carrier-transitions": 2, "link-transitions": 8}[name] for name in order},
            prefix=COUNTERS.format("e1"),
        )
        assert value(device.reading(), "e1", Metric.LINK_TRANSITIONS) == 8


def test_values_that_are_no_numbers_are_absent_and_counted() -> None:
    """Text, a negative counter and the absent value are not counters."""
    device = Device()
    device.send(
        {"in-octets": "NA", "out-octets": b'"-1"', "in-pkts": ABSENT_COUNTER - 0, "out-pkts": 5},
        prefix=COUNTERS.format("e1"),
    )
    reading = device.reading()
    assert reading.counters.metric == (Metric.TX_PACKETS,)
    assert device.metrics.value("unreadable") >= 2


def test_a_delete_clears_values() -> None:
    """A deleted value is absent; an empty path deletes nothing."""
    device = Device()
    device.send({"oper-status": "UP"}, prefix=STATE.format("e1"))
    device.send({"oper-status": "UP"}, prefix=STATE.format("e2"))
    device.send({"in-octets": 1}, prefix=COUNTERS.format("e2"), delete=())
    device.send({}, delete=("/interfaces/interface[name=e1]",))
    device.send({}, delete=("/",))
    reading = device.reading()
    assert value(reading, "e1", Metric.OPER_UP) is None
    assert value(reading, "e2", Metric.OPER_UP) == 1


@pytest.mark.parametrize(
    ("deleted", "remaining"),
    [
        ("/interfaces/interface[name=*]", []),
        ("/interfaces/interface[name=*]/state/oper-status", []),
        ("/interfaces/*", []),
        ("/interfaces/interface[name=e1]/*", ["e2"]),
        ("/interfaces/interface[name=*]/config", ["e1", "e2"]),
    ],
)
def test_a_delete_with_wildcards_clears_all_that_match(deleted: str, remaining: list[str]) -> None:
    """A state that is sent on change would stay for ever."""
    device = Device()
    for port in ("e1", "e2"):
        device.send({"oper-status": "UP", "counters/in-octets": 1}, prefix=STATE.format(port))
    device.send({}, delete=(deleted,))
    reading = device.reading()
    assert [port for port in reading.row if value(reading, port, Metric.OPER_UP) is not None] == remaining


def test_a_delete_with_some_keys_clears_all_entries_that_have_them() -> None:
    """A list with several keys, of which a device names one."""
    neighbor = "/network-instances/network-instance[name=d]/protocols/protocol[identifier=BGP][name={}]/bgp/neighbors"
    device = Device()
    for name, peer in (("b", "10.0.0.1"), ("c", "10.0.0.2")):
        path = f"{neighbor.format(name)}/neighbor[neighbor-address={peer}]/state"
        device.send({"session-state": "ESTABLISHED"}, prefix=path)
    device.send({"in-octets": 1}, prefix=COUNTERS.format("e1"))
    device.send({}, delete=("/network-instances/network-instance[name=d]/protocols/protocol[name=b]",))
    reading = device.reading()
    assert value(reading, "10.0.0.2", Metric.BGP_SESSION_UP) == 1
    assert "10.0.0.1" not in reading.row or value(reading, "10.0.0.1", Metric.BGP_SESSION_UP) is None


def test_ports_past_the_bound_are_left_out_and_counted() -> None:
    """A device that invents ports uses no memory."""
    device = Device()
    for number in range(50):
        device.send({"in-octets": number}, prefix=COUNTERS.format(f"e{number}"))
    assert len(device.reading().row) == PARAMS.max_ports
    assert device.metrics.value("out_of_bounds") >= 46


def test_paths_past_the_limit_are_evicted_and_the_rest_still_read() -> None:
    """A device that invents paths uses no memory, and its real counters are still read."""
    device = Device()
    for number in range(3000):
        device.send({f"/nonsense/n{number}": 1})
    device.send({"in-octets": 9}, prefix=COUNTERS.format("e1"))
    assert value(device.reading(), "e1", Metric.RX_BYTES) == 9
    assert device.metrics.value("out_of_bounds") >= 2


def test_facts_are_those_of_the_chassis() -> None:
    """Vendor, model, serial and software are from the component that is the chassis, neighbors from LLDP."""
    device = Device()
    device.send(
        {"type": "openconfig-platform-types:CHASSIS", "mfg-name": "Acme", "part-no": "X1", "serial-no": "S9"},
        prefix="/components/component[name=Chassis]/state",
    )
    device.send({"type": "FAN", "mfg-name": "Wind"}, prefix="/components/component[name=Fan1]/state")
    device.send({"software-version": "4.1"}, prefix="/system/state")
    neighbor = "/lldp/interfaces/interface[name=e1]/neighbors/neighbor[id=1]/state"
    device.send({"system-name": "spine1", "port-id": "e7"}, prefix=neighbor)
    facts = facts_of("leaf1", T, Source.SOURCE_GNMI, device.memory)
    assert (facts.vendor, facts.model, facts.serial, facts.os_version) == ("Acme", "X1", "S9", "4.1")
    assert facts.neighbors == (Neighbor("e1", "spine1", "e7"),)


@pytest.mark.parametrize(("cadence_s", "readings"), [(0.05, 200), (10.0, 2)])
def test_samples_every_50_ms_are_readings_of_the_cadence(cadence_s: float, readings: int) -> None:
    """As requested each is a reading; from a device that ignores the interval they are combined, the newest count."""
    device = Device()
    device.connection = Connection(
        "leaf1", Params(cadence_s=cadence_s), device.memory, device.metrics, on_change=True
    )  # fmt: skip
    device.connection.synced()
    found: list[Reading] = []
    for n in range(200):
        at_ns = T + n * 50_000_000
        outputs = device.send({"in-octets": n}, prefix=COUNTERS.format("e1"), at_ns=at_ns)
        found += [output for output in outputs if isinstance(output, Reading)]
    if (last := device.connection.flush(T + 60 * S)) is not None:
        found.append(last)
    assert len(found) == readings
    assert value(found[-1], "e1", Metric.RX_BYTES) == 199
    counts = [value(reading, "e1", Metric.RX_BYTES) or 0.0 for reading in found]
    assert counts == sorted(counts) and len(set(counts)) == readings
