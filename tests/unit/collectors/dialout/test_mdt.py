"""Tests what is read of Cisco's telemetry: rows, keys, parts, and what is refused."""

import pytest

from collectors.core.context import DeviceEvent
from collectors.core.metrics import CollectorMetrics
from collectors.dialout.mdt import Assembly, notifications
from collectors.dialout.params import Params
from collectors.dialout.v1.mdt_pb2 import DialoutArgs, Telemetry, TelemetryField
from collectors.gnmi.device_output import DeviceIdentity
from collectors.gnmi.parse import Connection
from collectors.gnmi.path_mapping import path_mapping
from streams.fabric.catalogue import Metric
from streams.wire.errors import Reject
from streams.wire.models import ABSENT_COUNTER, EventKind
from tests.fakes.mdt import COUNTERS, row, telemetry

OPTICS = "Cisco-IOS-XR-controller-optics-oper:optics-oper/optics-ports/optics-port/optics-info"
STATE = "openconfig-interfaces:interfaces/interface/state"
NXOS = "Cisco-NX-OS-device:System/intf-items/phys-items/PhysIf-list"
AT_MS = 1_790_000_000_000
NS = 1_000_000

Values = dict[tuple[str, Metric, int], float]


class Device:
    """The gNMI parser behind the messages of a device."""

    def __init__(self) -> None:
        self.connection = Connection("leaf1", Params(), DeviceIdentity(), CollectorMetrics(), on_change=True)
        self.events: list[DeviceEvent] = []

    def send(self, message: Telemetry) -> None:
        for one in notifications(message, path_mapping().keys_of):
            outputs = self.connection.process(one, AT_MS * NS)
            self.events += [output for output in outputs if isinstance(output, DeviceEvent)]

    def values(self) -> Values:
        """Return the values of the reading by port, metric and index."""
        self.connection.synced()
        reading = self.connection.flush(AT_MS * NS + 10**10)
        assert reading is not None
        return {
            (port, metric, index): float(column[at])
            for table in (reading.counters, reading.gauges)
            for metric, index, column in zip(table.metric, table.index, table.values, strict=True)
            for at, port in enumerate(reading.row)
            if column[at] == column[at] and column[at] != ABSENT_COUNTER
        }


def values(*messages: Telemetry) -> Values:
    device = Device()
    for message in messages:
        device.send(message)
    return device.values()


def by_port(found: Values, metric: Metric) -> dict[str, float]:
    return {port: value for (port, one, _), value in found.items() if one is metric}


def test_the_counters_of_a_row_belong_to_the_port_in_its_keys() -> None:
    """The key is apart from the content, and belongs to a step above the last one of the path."""
    found = values(telemetry(COUNTERS, AT_MS, *(
        row({"interface-name": name}, {"bytes-received": 7 + at, "crc-errors": 3, "applique": 1})
        for at, name in enumerate(("HundredGigE0/0/0/0", "HundredGigE0/0/0/1"))
    )))  # fmt: skip
    assert by_port(found, Metric.RX_BYTES) == {"HundredGigE0/0/0/0": 7, "HundredGigE0/0/0/1": 8}
    assert by_port(found, Metric.RX_FCS_ERRORS) == {"HundredGigE0/0/0/0": 3, "HundredGigE0/0/0/1": 3}
    assert len(found) == 4


def test_lists_inside_a_row_are_read_by_lane() -> None:
    """A field that repeats is a list; its entries are identified by their own key."""
    lanes = [{"lane-index": lane, "receive-power": 100 * lane} for lane in (1, 2)]
    found = values(telemetry(OPTICS, AT_MS, row({"name": "Optics0/0/0/0"}, {"lane-data": lanes})))
    assert {index: value for (_, metric, index), value in found.items() if metric is Metric.RX_POWER_DBM} == {
        0: 1.0,
        1: 2.0,
    }


def test_a_change_of_state_is_an_event() -> None:
    """The first state is the present one; a later other one is a change."""
    device = Device()
    for status in ("UP", "DOWN"):
        device.send(telemetry(STATE, AT_MS, row({"name": "Ethernet1/1"}, {"oper-status": status})))
    assert [(event.kind, event.port) for event in device.events] == [(EventKind.LINK_DOWN, "Ethernet1/1")]


def test_rows_of_nx_os_are_in_nameless_fields() -> None:
    """Its lists have entries without a name, and their keys may be among the values."""
    content = TelemetryField(name="content", fields=[TelemetryField(fields=[
        TelemetryField(name="id", string_value="eth1/1"),
        TelemetryField(name="dbgDot3Stats-items", fields=[TelemetryField(fields=[
            TelemetryField(name="inPauseFrames", string_value="12"),
        ])]),
    ])])  # fmt: skip
    keys = TelemetryField(name="keys", fields=[TelemetryField(name="id", string_value="eth1/1")])
    found = values(telemetry(NXOS, AT_MS, TelemetryField(fields=[keys, content])))
    assert found == {("eth1/1", Metric.PAUSE_RX_FRAMES, -1): 12}


def test_a_row_has_its_own_time() -> None:
    """Rows without a time have that of the message."""
    message = telemetry(COUNTERS, AT_MS, row({}, {}, AT_MS - 5), row({}, {}))
    assert [one.timestamp for one in notifications(message, path_mapping().keys_of)] == [(AT_MS - 5) * NS, AT_MS * NS]


def test_parts_of_a_message_are_joined() -> None:
    """NX-OS sends large messages in parts, with the size of the whole in each; another request starts again."""
    whole = telemetry(COUNTERS, AT_MS, row({"interface-name": "a"}, {"bytes-received": 1})).SerializeToString()
    assembly = Assembly(1000)

    def part(request: int, data: bytes) -> Telemetry | None:
        return assembly.add(DialoutArgs(request_id=request, data=data, total_size=len(whole)).SerializeToString())

    assert part(1, whole[:10]) is None
    assert part(2, whole[:20]) is None
    joined = part(2, whole[20:])
    assert joined is not None and joined.SerializeToString() == whole


@pytest.mark.parametrize(("args", "why"), [
    (DialoutArgs(data=b"\xff"), "not a Telemetry message"),
    (DialoutArgs(data=b'{"node_id_str": "leaf1"}'), "not a Telemetry message"),
    (DialoutArgs(errors="out of memory"), "the device reports: out of memory"),
    (DialoutArgs(request_id=1, data=bytes(100), total_size=2000), "at most 1000"),
    (DialoutArgs(request_id=1, data=bytes(100), total_size=50), "parts of 100 bytes of a message of 50"),
    (DialoutArgs(data=Telemetry(data_gpb=b"x").SerializeToString()), "configure `encoding self-describing-gpb`"),
    (DialoutArgs(data=Telemetry(encoding_path="sys/intf").SerializeToString()), "no path of a YANG model"),
    (DialoutArgs(data=Telemetry(encoding_path="show interface").SerializeToString()), "no path of a YANG model"),
    (DialoutArgs(data=Telemetry().SerializeToString()), "no path of a YANG model"),
])  # fmt: skip
def test_what_cannot_be_read_is_refused_with_the_reason(args: DialoutArgs, why: str) -> None:
    """The reason has what to configure on the device."""

    def read() -> None:
        message = Assembly(1000).add(args.SerializeToString())
        assert message is not None
        list(notifications(message, path_mapping().keys_of))

    with pytest.raises(Reject, match=why):
        read()


def test_a_row_of_too_many_fields_is_refused() -> None:
    """Each is converted in Python: 4 MiB may have two million."""
    content = TelemetryField(name="content", fields=[TelemetryField(name="n")] * 20_001)
    message = Telemetry(encoding_path=COUNTERS, data_gpbkv=[TelemetryField(fields=[content])])
    with pytest.raises(Reject, match="more than 20000 fields"):
        list(notifications(message, path_mapping().keys_of))
