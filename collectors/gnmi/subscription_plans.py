"""Selects the paths and the encoding to subscribe to, for a device and its profiles. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
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
    """One set of subscriptions in one encoding; a device may accept or refuse it."""

    encoding: int
    subscriptions: tuple[Subscription, ...]
    mapping: PathMapping
    left_out: tuple[Subscription, ...] = ()
    """The subscriptions for which the device allows no further stream."""

    @property
    def on_change(self) -> frozenset[tuple[str, ...]]:
        """The paths that the device sends on change instead of at each sample."""
        return frozenset(
            names_of(paths.from_text(subscription.path))
            for subscription in self.subscriptions
            if subscription.mode == "on_change"
        )

    def requests(self, cadence_ns: int) -> list[gnmi_pb2.SubscribeRequest]:
        """Return the requests that open the streams: one per schema, because a subscription has one origin."""
        by_schema = sorted(self.subscriptions, key=lambda subscription: subscription.schema_key)
        return [
            stream_request(list(subscriptions), self.encoding, cadence_ns)
            for _, subscriptions in groupby(by_schema, key=lambda subscription: subscription.schema_key)
        ]

    def parts(self) -> Iterator["SubscriptionPlan"]:
        """Yield the plan with fewer and fewer schemas, without those of the fewest paths first."""
        paths = Counter(subscription.schema_key for subscription in self.subscriptions)
        schemas = [key for key, _ in paths.most_common()]
        for count in range(len(schemas) - 1, 0, -1):
            chosen = set(schemas[:count])
            read = tuple(one for one in self.subscriptions if one.schema_key in chosen)
            yield replace(self, subscriptions=read, left_out=tuple(set(self.subscriptions).difference(read)))

    def __str__(self) -> str:
        on_change = sum(subscription.mode == "on_change" for subscription in self.subscriptions)
        return f"{len(self.subscriptions) - on_change} sampled, {on_change} on change, {name_of(self.encoding)}"


def subscription_plans(encoding: str, profiles: Sequence[Profile], hints: DeviceHints) -> Iterator[SubscriptionPlan]:
    """Yield every plan, best first, in the encodings that the profiles prefer and the device supports."""
    subscriptions = selected(profiles, hints)
    mapping = path_mapping(tuple(profile.name for profile in profiles[:-1]))
    for name in encodings(encoding, profiles, hints):
        yield SubscriptionPlan(ENCODINGS[name], subscriptions, mapping)


def encodings(wanted: str, profiles: Sequence[Profile], hints: DeviceHints) -> list[str]:
    """Return the encodings to try; all preferred ones if the device lists no known encoding."""
    preferred: list[str] = (
        [wanted] if wanted != "auto" else list(dict.fromkeys(name for p in profiles for name in p.encodings))
    )
    return [name for name in preferred if ENCODINGS[name] in hints.encodings] or preferred


def selected(profiles: Iterable[Profile], hints: DeviceHints) -> tuple[Subscription, ...]:
    """Return the profiles' subscriptions, without those for models that the device does not list."""
    return tuple(
        subscription
        for profile in profiles
        for subscription in profile.subscribe
        if not hints.models or not subscription.models or hints.matches(subscription.models)
    )


def stream_request(subscriptions: Sequence[Subscription], encoding: int, cadence_ns: int) -> gnmi_pb2.SubscribeRequest:
    """Return the request that opens a stream of paths of one schema."""
    wanted = _list(subscriptions[0], encoding, gnmi_pb2.SubscriptionList.STREAM)
    for subscription in subscriptions:
        if subscription.mode == "sample":
            wanted.subscription.add(path=_path(subscription), mode=gnmi_pb2.SAMPLE, sample_interval=cadence_ns)
        else:
            wanted.subscription.add(path=_path(subscription), mode=gnmi_pb2.ON_CHANGE)
    return gnmi_pb2.SubscribeRequest(subscribe=wanted)


def once_request(subscription: Subscription, encoding: int) -> gnmi_pb2.SubscribeRequest:
    """Return the request that reads the values below a path once."""
    wanted = _list(subscription, encoding, gnmi_pb2.SubscriptionList.ONCE)
    wanted.subscription.add(path=_path(subscription))
    return gnmi_pb2.SubscribeRequest(subscribe=wanted)


def _list(
    subscription: Subscription, encoding: int, mode: gnmi_pb2.SubscriptionList.Mode.ValueType
) -> gnmi_pb2.SubscriptionList:
    wanted = gnmi_pb2.SubscriptionList(mode=mode, encoding=gnmi_pb2.Encoding.ValueType(encoding))
    if subscription.target:
        wanted.prefix.target = subscription.target
    return wanted


def _path(subscription: Subscription) -> gnmi_pb2.Path:
    return paths.to_message(paths.from_text(subscription.path, modules=True), origin=subscription.origin)
