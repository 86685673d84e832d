"""Messages of one stream of Cisco's telemetry: what comes out is a message that Kafka's readers take."""

from collections.abc import Iterator

from collectors.dialout.mdt import Assembly, notifications
from collectors.dialout.v1.mdt_pb2 import DialoutArgs
from collectors.gnmi.path_mapping import path_mapping
from streams.wire.errors import Reject
from tests.fakes.mdt import COUNTERS, counters, row, telemetry
from tests.fuzz.target import Target, framed, frames
from tests.fuzz.targets.gnmi import GnmiDevice

_AT_MS = 1_700_000_000_000
_OPTICS = "Cisco-IOS-XR-controller-optics-oper:optics-oper/optics-ports/optics-port/optics-info"
_STATE = "openconfig-interfaces:interfaces/interface/state"


def _parse(data: bytes) -> None:
    device, assembly = GnmiDevice(path_mapping()), Assembly(1 << 16)
    for message in frames(data):
        try:
            if (found := assembly.add(message)) is None:
                continue
            for notification in notifications(found, path_mapping().keys_of):
                device.notify(notification)
        except Reject:
            continue
    device.end()


def _seeds() -> Iterator[bytes]:
    """Yield counters, lanes and states, and a message in parts."""
    yield framed(*(counters(_AT_MS + 10_000 * number, "HundredGigE0/0/0/0", number) for number in range(3)))
    lanes = [{"lane-index": lane, "receive-power": -100 * lane} for lane in (1, 2)]
    for path, keys, content in (
        (_OPTICS, {"name": "Optics0/0/0/0"}, {"lane-data": lanes}),
        (_STATE, {"name": "Ethernet1/1"}, {"oper-status": "UP", "counters": {"in-octets": 7}}),
        ("sys/intf", {}, {"children": {"attributes": {"dn": "eth1/1"}}}),
    ):
        whole = telemetry(path, _AT_MS, row(keys, content)).SerializeToString()
        yield framed(DialoutArgs(data=whole).SerializeToString())
    whole = telemetry(COUNTERS, _AT_MS, row({"interface-name": "a"}, {"bytes-sent": 1})).SerializeToString()
    parts = (whole[:20], whole[20:])
    yield framed(*(DialoutArgs(request_id=1, data=part, total_size=len(whole)).SerializeToString() for part in parts))


TARGETS = (Target("mdt", _parse, (), _seeds),)
