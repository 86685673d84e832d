"""Selects the paths and the encoding to subscribe to, for a device and its profiles. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from collectors.gnmi import paths
from collectors.gnmi.path_mapping import PathMapping, names_of, path_mapping
from collectors.gnmi.profile import DeviceHints, Profile, Subscription
from collectors.gnmi.v1 import gnmi_pb2

ENCODINGS = {
    "proto": gnmi_pb2.PROTO, "json_ietf": gnmi_pb2.JSON_IETF, "json": gnmi_pb2.JSON, "ascii": gnmi_pb2.ASCII,
}  # fmt: skip


def name_of(encoding: int) -> str:
    """Return the encoding's name in the configuration."""
    return next(name for name, number in ENCODINGS.items() if number == encoding)


@dataclass(frozen=True, slots=True)
class SubscriptionPlan:
    """One set of subscriptions in one encoding, which a device may accept or refuse."""

    encoding: int
    asks: tuple[Subscription, ...]
    words: PathMapping

    @property
    def on_change(self) -> frozenset[tuple[str, ...]]:
        """The paths that the device sends on change instead of at each sample."""
        return frozenset(names_of(paths.from_text(ask.path)) for ask in self.asks if ask.mode == "on_change")

    def requests(self, cadence_ns: int) -> list[gnmi_pb2.SubscribeRequest]:
        """Return the requests that open the streams: one per schema, as a subscription has one target and origin."""
        by_schema = sorted(self.asks, key=lambda ask: ask.schema_of)
        return [
            stream_request(list(asks), self.encoding, cadence_ns)
            for _, asks in groupby(by_schema, key=lambda ask: ask.schema_of)
        ]

    def __str__(self) -> str:
        told = sum(ask.mode == "on_change" for ask in self.asks)
        return f"{len(self.asks) - told} sampled, {told} on change, {name_of(self.encoding)}"


def subscription_plans(encoding: str, profiles: Sequence[Profile], said: DeviceHints) -> Iterator[SubscriptionPlan]:
    """Yield every plan, best first: of the encodings that the profiles prefer, those that the device supports."""
    asks = subscriptions(profiles, said)
    words = path_mapping(tuple(profile.name for profile in profiles[:-1]))
    for name in encodings(encoding, profiles, said):
        yield SubscriptionPlan(ENCODINGS[name], asks, words)


def encodings(wanted: str, profiles: Sequence[Profile], said: DeviceHints) -> list[str]:
    """Return the encodings to try; all preferred ones if the device lists none that is known here."""
    preferred: list[str] = (
        [wanted] if wanted != "auto" else list(dict.fromkeys(name for p in profiles for name in p.encodings))
    )
    return [name for name in preferred if ENCODINGS[name] in said.encodings] or preferred


def subscriptions(profiles: Iterable[Profile], said: DeviceHints) -> tuple[Subscription, ...]:
    """Return the profiles' subscriptions, without those of models that the device does not list."""
    return tuple(
        ask for profile in profiles for ask in profile.ask if not said.models or not ask.models or said.has(ask.models)
    )


def stream_request(asks: Sequence[Subscription], encoding: int, cadence_ns: int) -> gnmi_pb2.SubscribeRequest:
    """Return the request that opens a stream of paths of one schema."""
    wanted = _list(asks[0], encoding, gnmi_pb2.SubscriptionList.STREAM)
    for ask in asks:
        if ask.mode == "sample":
            wanted.subscription.add(path=_path(ask), mode=gnmi_pb2.SAMPLE, sample_interval=cadence_ns)
        else:
            wanted.subscription.add(path=_path(ask), mode=gnmi_pb2.ON_CHANGE)
    return gnmi_pb2.SubscribeRequest(subscribe=wanted)


def once_request(ask: Subscription, encoding: int) -> gnmi_pb2.SubscribeRequest:
    """Return the request for the values below a path, once."""
    wanted = _list(ask, encoding, gnmi_pb2.SubscriptionList.ONCE)
    wanted.subscription.add(path=_path(ask))
    return gnmi_pb2.SubscribeRequest(subscribe=wanted)


def _list(
    ask: Subscription, encoding: int, mode: gnmi_pb2.SubscriptionList.Mode.ValueType
) -> gnmi_pb2.SubscriptionList:
    wanted = gnmi_pb2.SubscriptionList(mode=mode, encoding=gnmi_pb2.Encoding.ValueType(encoding))
    if ask.target:
        wanted.prefix.target = ask.target
    return wanted


def _path(ask: Subscription) -> gnmi_pb2.Path:
    return paths.to_message(paths.from_text(ask.path, modules=True), origin=ask.origin)
