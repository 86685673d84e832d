"""Messages of one gNMI connection, by the profile of each vendor: what comes out is a message that Kafka's readers take."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from google.protobuf.message import DecodeError

from collectors.core.columns import Reading
from collectors.core.context import DeviceEvent, Emitter
from collectors.core.metrics import CollectorMetrics
from collectors.gnmi.device_output import DeviceIdentity, facts_of
from collectors.gnmi.params import Params
from collectors.gnmi.parse import Connection
from collectors.gnmi.path_mapping import PathMapping, path_mapping
from collectors.gnmi.profile import COMMON, profiles
from collectors.gnmi.v1 import gnmi_lite_pb2
from lab.constants import with_constants
from streams.wire.models import Source
from tests.fixtures.gnmi_notifications import S, notification
from tests.fuzz.target import BrokenPromise, Target, framed, frames
from tests.fuzz.targets.wire import ReadingPublisher

_START_NS = 1_700_000_000 * S
_PARAMS = with_constants(Params, max_ports=16, max_paths=1000)(cadence_s=10)
_COUNTERS = "/interfaces/interface[name=Ethernet1]/state/counters"
_STATE = "/interfaces/interface[name=Ethernet1]/state"
_CHASSIS = "/components/component[name=Chassis]/state"


class GnmiDevice:
    """One device and what a collector makes of its messages."""

    def __init__(self, mapping: PathMapping) -> None:
        self._identity, metrics = DeviceIdentity(), CollectorMetrics()
        self._connection = Connection(
            "leaf1", _PARAMS, self._identity, metrics, on_change=True, mapping=mapping
        )  # fmt: skip
        self._emitter = Emitter(ReadingPublisher(), "gnmi", 1, Source.SOURCE_GNMI)
        self._now_ns = _START_NS

    def receive(self, message: bytes) -> None:
        """Process a message as device.py does."""
        self._now_ns += S
        connection = self._connection
        outputs = connection.process_known(message, self._now_ns)
        if outputs is None:
            try:
                response = gnmi_lite_pb2.SubscribeResponse.FromString(message)
            except DecodeError:
                return
            if not response.HasField("update"):
                connection.synced()
                return
            outputs = connection.process(response.update, self._now_ns, message)
        for output in outputs:
            self._emit(output)

    def notify(self, notification: gnmi_lite_pb2.Notification) -> None:
        """Process a notification that was no gNMI message."""
        self._now_ns += S
        for output in self._connection.process(notification, self._now_ns):
            self._emit(output)

    def end(self) -> None:
        """Emit the rest, and the facts."""
        self._connection.synced()
        if (reading := self._connection.flush(self._now_ns + 60 * S)) is not None:
            self._emit(reading)
        self._emitter.facts(facts_of("leaf1", self._now_ns, Source.SOURCE_GNMI, self._identity))

    def _emit(self, output: Reading | DeviceEvent) -> None:
        if isinstance(output, Reading):
            if len(output.row) > _PARAMS.max_ports or np.isinf(output.gauges.values).any():
                raise BrokenPromise("a reading has more ports than the bound, or a value that no device has")
            self._emitter.samples("leaf1", output)
        else:
            self._emitter.event("leaf1", output, self._now_ns)


def _parse(profile: str, data: bytes) -> None:
    device = GnmiDevice(path_mapping(() if profile == COMMON else (profile,)))
    for message in frames(data):
        device.receive(message)
    device.end()


def _seeds(profile: str) -> Iterator[bytes]:
    """Yield a connection's messages: two readings and changes, and one value of each leaf of the profile."""
    readings = [
        notification(_START_NS + n * 10 * S, {f"{_COUNTERS}/in-octets": n, f"{_COUNTERS}/out-octets": 2 * n,
                                              f"{_COUNTERS}/in-errors": n, f"{_COUNTERS}/in-discards": 0,
                                              f"{_STATE}/oper-status": "UP" if n % 2 else "DOWN"})
        for n in range(3)
    ]  # fmt: skip
    facts: dict[str, int | str | bytes] = {
        f"{_CHASSIS}/type": "openconfig-platform-types:CHASSIS", f"{_CHASSIS}/serial-no": "SN1",
        "/system/state/boot-time": 1_699_999_000 * S,
        "/lldp/interfaces/interface[name=Ethernet1]/neighbors/neighbor[id=1]/state/system-name": "spine1",
        "/lldp/interfaces/interface[name=Ethernet1]/neighbors/neighbor[id=1]/state/port-id": "Ethernet9",
    }  # fmt: skip
    container = notification(_START_NS, {_STATE: b'{"counters": {"in-octets": "7"}, "oper-status": "UP", "name": "x"}'})
    yield framed(*map(_response, [*readings, notification(_START_NS, facts), container]))
    yield framed(_response(notification(_START_NS, {}, delete=(_STATE,))), b"\x18\x01")
    for section in profiles()[profile].section:
        for below in section.below:
            for number, leaf in enumerate(section.leaves):
                path = f"{below}/{leaf}".format_map(_Placeholders())
                values: dict[str, int | str | bytes] = {path: (7, "7", b'"UP"')[number % 3]}
                try:
                    yield framed(_response(notification(_START_NS, values)))
                except ValueError:
                    continue  # a path that is written in another form


class _Placeholders(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "1"


def _response(sent: gnmi_lite_pb2.Notification) -> bytes:
    return gnmi_lite_pb2.SubscribeResponse(update=sent).SerializeToString()


def _target(profile: str) -> Target:
    parse: Callable[[bytes], object] = partial(_parse, profile)
    return Target(f"gnmi-{profile}", parse, (), partial(_seeds, profile))


TARGETS = tuple(_target(profile) for profile in profiles())
