"""What a device is asked for, and in which order less is asked where it refuses. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from collectors.gnmi import paths
from collectors.gnmi.v1 import gnmi_pb2

_COUNTERS = "/interfaces/interface/state/counters"
_ETHERNET = "/interfaces/interface/ethernet/state/counters"
_STATES = ("/interfaces/interface/state/oper-status", "/interfaces/interface/state/admin-status")
_SPEED = "/interfaces/interface/ethernet/state/port-speed"
_BOOT = "/system/state/boot-time"
FACTS = ("/system/state", "/components/component/state", "/lldp/interfaces/interface/neighbors")
"""Asked one by one, once: each is refused alone."""

ENCODINGS = {"proto": gnmi_pb2.PROTO, "json_ietf": gnmi_pb2.JSON_IETF, "json": gnmi_pb2.JSON}
"""In the order of what they cost to read."""


def name_of(encoding: int) -> str:
    """The encoding as it is configured."""
    return next(name for name, number in ENCODINGS.items() if number == encoding)


@dataclass(frozen=True, slots=True)
class Plan:
    """One way of asking: what is sampled, and what is to be told when it changes."""

    name: str
    sampled: tuple[str, ...]
    on_change: tuple[str, ...]

    def request(self, encoding: int, cadence_ns: int) -> gnmi_pb2.SubscribeRequest:
        """The message that opens the stream."""
        wanted = gnmi_pb2.SubscriptionList(
            mode=gnmi_pb2.SubscriptionList.STREAM, encoding=gnmi_pb2.Encoding.ValueType(encoding)
        )
        for text in self.sampled:
            wanted.subscription.add(path=_path(text), mode=gnmi_pb2.SAMPLE, sample_interval=cadence_ns)
        for text in self.on_change:
            wanted.subscription.add(path=_path(text), mode=gnmi_pb2.ON_CHANGE)
        return gnmi_pb2.SubscribeRequest(subscribe=wanted)


PLANS = (
    Plan("all, states on change", (_COUNTERS, _ETHERNET), (*_STATES, _SPEED, _BOOT)),
    Plan("interfaces, states on change", (_COUNTERS,), (*_STATES, _BOOT)),
    Plan("all sampled", (_COUNTERS, _ETHERNET, *_STATES, _SPEED, _BOOT), ()),
    Plan("interfaces sampled", (_COUNTERS, *_STATES, _BOOT), ()),
    Plan("interface state only", ("/interfaces/interface/state",), ()),
)


def attempts(encoding: str, supported: frozenset[int] | None) -> Iterator[tuple[Plan, int]]:
    """Every way of asking, best first. `supported`: what the device says it can encode, None where it does not say."""
    wanted = [encoding] if encoding != "auto" else list(ENCODINGS)
    known = [name for name in wanted if supported is None or ENCODINGS[name] in supported]
    for name in known or wanted:
        for plan in PLANS:
            yield plan, ENCODINGS[name]


def once_request(text: str, encoding: int) -> gnmi_pb2.SubscribeRequest:
    """The message that asks for what is below a path, once."""
    wanted = gnmi_pb2.SubscriptionList(
        mode=gnmi_pb2.SubscriptionList.ONCE, encoding=gnmi_pb2.Encoding.ValueType(encoding)
    )
    wanted.subscription.add(path=_path(text))
    return gnmi_pb2.SubscribeRequest(subscribe=wanted)


def _path(text: str) -> gnmi_pb2.Path:
    return paths.to_message(paths.from_text(text))
