"""Checks the subscriptions of a gNMI stream, and selects the values that are due. Pure; time is an argument.

Follows gnmi-specification 3.5: a path outside the model and an unsupported encoding or interval are refused; a path in
the model without an instance sends nothing until it has one.
"""

from dataclasses import dataclass, field
from enum import Enum

from collectors.gnmi.paths import Elems, from_message, to_text
from collectors.gnmi.v1 import gnmi_pb2
from lab.servers.gnmi_model import ENCODINGS, GnmiModel, Identity, Leaf, LeafValue, Value, notifications
from streams.wire.errors import Reject

_SHORTEST_NS = 100_000_000
_DEFAULT_NS = 10_000_000_000
MODELS = (
    ("openconfig-interfaces", "3.7.1"), ("openconfig-if-ethernet", "2.14.0"), ("openconfig-system", "2.3.0"),
    ("openconfig-platform", "0.30.0"), ("openconfig-lldp", "0.2.1"),
    ("openconfig-bfd", "0.5.0"), ("openconfig-network-instance", "4.0.3"), ("openconfig-routing-policy", "3.4.2"),
)  # fmt: skip
_ORIGINS = {"", "openconfig"}


class Refusal(Enum):
    """The gRPC status of a refused request."""

    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    NOT_FOUND = "NOT_FOUND"
    UNIMPLEMENTED = "UNIMPLEMENTED"


class RefusedRequest(Reject):
    """Raised for a request that is not supported; `code` is its status."""

    def __init__(self, code: Refusal, why: str) -> None:
        super().__init__(why)
        self.code = code


def check_encoding(encoding: int, models: object) -> None:
    """Refuse an encoding or a model that the switch does not support."""
    if encoding not in ENCODINGS:
        raise RefusedRequest(Refusal.UNIMPLEMENTED, f"encoding {gnmi_pb2.Encoding.Name(encoding)} is not supported")  # type: ignore[arg-type]
    known = {name for name, _ in MODELS}
    for model in models:  # type: ignore[attr-defined]
        if model.name not in known:
            raise RefusedRequest(Refusal.UNIMPLEMENTED, f"model {model.name} is not supported")


def requested_path(prefix: gnmi_pb2.Path, path: gnmi_pb2.Path) -> Elems:
    """Return the complete requested path; refuse an origin other than OpenConfig's."""
    origin = path.origin or prefix.origin
    if origin not in _ORIGINS and not origin.startswith("openconfig-"):
        raise RefusedRequest(Refusal.INVALID_ARGUMENT, f"origin {origin} is not served")
    return (*from_message(prefix), *from_message(path))


@dataclass
class _Subscription:
    """One subscription: its leaves, its interval, and the last sent value of each leaf."""

    leaves: list[Leaf]
    interval_ns: int
    depth: int
    suppress: bool = False
    heartbeat_ns: int = 0
    due_ns: int = 0
    heartbeat_due_ns: int = 0
    last: dict[Elems, Value | Identity] = field(default_factory=dict)

    def record(self, values: list[LeafValue], *, only_changed: bool = False) -> list[LeafValue]:
        """Return the values to send, and record them as sent."""
        if only_changed:
            values = [(leaf, value) for leaf, value in values if self.last.get(leaf.elems) != value]
        self.last.update((leaf.elems, value) for leaf, value in values)
        return values


class Subscriptions:
    """All subscriptions of one stream."""

    def __init__(self, model: GnmiModel, wanted: gnmi_pb2.SubscriptionList) -> None:
        check_encoding(wanted.encoding, wanted.use_models)
        self._model = model
        self._prefix = wanted.prefix
        self._encoding = wanted.encoding
        self._updates_only = wanted.updates_only
        self._samples: list[_Subscription] = []
        self._changes: list[_Subscription] = []
        if not wanted.subscription:
            raise RefusedRequest(Refusal.INVALID_ARGUMENT, "a subscription without paths")
        for subscription in wanted.subscription:
            self._add(subscription, stream=wanted.mode == gnmi_pb2.SubscriptionList.STREAM)

    def _add(self, wanted: gnmi_pb2.Subscription, *, stream: bool) -> None:
        elems = requested_path(self._prefix, wanted.path)
        if not self._model.has(elems):
            raise RefusedRequest(Refusal.INVALID_ARGUMENT, f"no such path: {to_text(elems)}")
        interval = wanted.sample_interval
        if interval and interval < _SHORTEST_NS:
            raise RefusedRequest(Refusal.INVALID_ARGUMENT, f"sample_interval {interval} ns is below {_SHORTEST_NS}")
        leaves, mode = self._model.matching_leaves(elems), wanted.mode
        if stream and mode == gnmi_pb2.ON_CHANGE and any(not leaf.reports for leaf in leaves):
            raise RefusedRequest(Refusal.INVALID_ARGUMENT, "ON_CHANGE is not supported for counters")
        subscription = _Subscription(
            leaves, interval or _DEFAULT_NS, len(elems), wanted.suppress_redundant, wanted.heartbeat_interval
        )
        match mode:
            case gnmi_pb2.ON_CHANGE:
                self._changes.append(subscription)
            case gnmi_pb2.SAMPLE:
                self._samples.append(subscription)
            case _:  # TARGET_DEFINED: counters are sampled, states are sent on change
                counters = [leaf for leaf in leaves if leaf.is_counter]
                states = [leaf for leaf in leaves if leaf.reports]
                if counters:
                    self._samples.append(_Subscription(counters, subscription.interval_ns, subscription.depth))
                self._changes.append(
                    _Subscription(
                        states, subscription.interval_ns, subscription.depth, heartbeat_ns=subscription.heartbeat_ns
                    )
                )

    def initial(self, at_ns: int) -> list[gnmi_pb2.Notification]:
        """Return all subscribed values, and start the schedules of the samples."""
        values: list[LeafValue] = []
        for subscription in (*self._changes, *self._samples):
            subscription.due_ns = at_ns + subscription.interval_ns
            subscription.heartbeat_due_ns = at_ns + subscription.heartbeat_ns
            values += subscription.record(self._model.values(subscription.leaves, at_ns))
        return [] if self._updates_only else self._leaf_by_leaf(values, at_ns)

    def due_ns(self) -> int | None:
        """Return the time of the next sample or heartbeat; None if only changes are subscribed."""
        moments = [subscription.due_ns for subscription in self._samples]
        moments += [w.heartbeat_due_ns for w in (*self._samples, *self._changes) if w.heartbeat_ns]
        return min(moments, default=None)

    def due(self, at_ns: int) -> list[gnmi_pb2.Notification]:
        """Return the samples and heartbeats that are due.

        JSON is sent as one value per container, as many devices do; other encodings leaf by leaf.
        """
        leaves: list[LeafValue] = []
        blobs: list[gnmi_pb2.Notification] = []
        for subscription in (*self._samples, *self._changes):
            beats = subscription.heartbeat_ns > 0 and at_ns >= subscription.heartbeat_due_ns
            if beats:
                subscription.heartbeat_due_ns = at_ns + subscription.heartbeat_ns
            is_sample = subscription in self._samples and at_ns >= subscription.due_ns
            if not (beats or is_sample):
                continue
            if is_sample:
                # Missed intervals are skipped.
                subscription.due_ns += subscription.interval_ns * (
                    1 + (at_ns - subscription.due_ns) // subscription.interval_ns
                )
            values = subscription.record(
                self._model.values(subscription.leaves, at_ns), only_changed=subscription.suppress and not beats
            )
            if self._encoding == gnmi_pb2.PROTO or not is_sample:
                leaves += values
            else:
                depth = max(subscription.depth, 1)
                blobs += notifications(
                    values, self._model.clock_ns(at_ns), self._encoding, self._prefix, blob_depth=depth
                )
        return [*self._leaf_by_leaf(leaves, at_ns), *blobs]

    def changed(self, at_ns: int) -> list[gnmi_pb2.Notification]:
        """Return the ON_CHANGE values that differ from the last sent values."""
        values: list[LeafValue] = []
        for subscription in self._changes:
            values += subscription.record(self._model.values(subscription.leaves, at_ns), only_changed=True)
        return self._leaf_by_leaf(values, at_ns)

    def _leaf_by_leaf(self, values: list[LeafValue], at_ns: int) -> list[gnmi_pb2.Notification]:
        """Return one notification for each interface, with the leaves of all subscriptions."""
        values.sort(key=lambda pair: pair[0].elems[:2])
        return notifications(values, self._model.clock_ns(at_ns), self._encoding, self._prefix)
