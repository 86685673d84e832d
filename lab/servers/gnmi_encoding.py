"""Encodes the leaves of a switch as gNMI notifications, in each encoding. Pure."""

from collections.abc import Iterable
from itertools import groupby

import orjson

from collectors.gnmi.paths import Elem, Elems, to_message
from collectors.gnmi.v1 import gnmi_pb2
from lab.servers.gnmi_model import Identity, Leaf, Value

ENCODINGS = (gnmi_pb2.JSON, gnmi_pb2.JSON_IETF, gnmi_pb2.PROTO)
_SPLIT = 2
"""Notifications are grouped by the first two path elements: an interface, the chassis, the system."""

LeafValue = tuple[Leaf, Value | Identity]
Tree = dict[str, "Tree | list[Tree] | Value"]


def notifications(
    values: Iterable[LeafValue], at_ns: int, encoding: int, prefix: gnmi_pb2.Path, *, blob_depth: int | None = None
) -> list[gnmi_pb2.Notification]:
    """Return one notification for each interface or other subtree, with the target and origin of the request's prefix.

    With `blob_depth`, for JSON, everything below that many path elements is one JSON value, as in a Get response.
    """
    out = []
    for whole, group in groupby(values, key=lambda pair: pair[0].elems[:_SPLIT]):
        base = whole[:blob_depth]
        notification = gnmi_pb2.Notification(
            timestamp=at_ns, prefix=to_message(base, origin=prefix.origin, target=prefix.target)
        )
        if blob_depth is None:
            for leaf, value in group:
                update = notification.update.add(path=to_message(leaf.elems[len(base) :]))
                _set(update.val, _plain(value, encoding), encoding)
        else:
            _add_blobs(notification, group, len(base), blob_depth, encoding)
        out.append(notification)
    return out


def _add_blobs(
    notification: gnmi_pb2.Notification, values: Iterable[LeafValue], base: int, depth: int, encoding: int
) -> None:
    for at, group in groupby(values, key=lambda pair: pair[0].elems[:depth]):
        update = notification.update.add(path=to_message(at[base:]))
        pairs = [(leaf.elems[depth:], _plain(value, encoding)) for leaf, value in group]
        whole = pairs[0][1] if len(pairs) == 1 and not pairs[0][0] else _tree(pairs)
        _set(update.val, whole, encoding)


def _tree(pairs: Iterable[tuple[Elems, Value]]) -> Tree:
    root: Tree = {}
    for elems, value in pairs:
        place = root
        for step in elems[:-1]:
            place = _enter(place, step)
        place[elems[-1].name] = value
    return root


def _enter(place: Tree, step: Elem) -> Tree:
    if not step.keys:
        inner = place.setdefault(step.name, {})
        assert isinstance(inner, dict)
        return inner
    entries = place.setdefault(step.name, [])
    assert isinstance(entries, list)
    for entry in entries:
        if all(entry.get(key) == value for key, value in step.keys):
            return entry
    entries.append(dict(step.keys))
    return entries[-1]


def _plain(value: Value | Identity, encoding: int) -> Value:
    """Return a value for an encoding; by RFC 7951 64-bit integers are strings and identities have their module."""
    if isinstance(value, Identity):
        return f"{value.module}:{value.name}" if encoding == gnmi_pb2.JSON_IETF else value.name
    if encoding == gnmi_pb2.JSON_IETF and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value


def _set(typed: gnmi_pb2.TypedValue, value: Tree | Value, encoding: int) -> None:
    if encoding == gnmi_pb2.JSON:
        typed.json_val = orjson.dumps(value)
    elif encoding == gnmi_pb2.JSON_IETF:
        typed.json_ietf_val = orjson.dumps(value)
    elif isinstance(value, tuple):
        typed.leaflist_val.SetInParent()
        for element in value:
            typed.leaflist_val.element.add(string_val=element)
    elif isinstance(value, bool):
        typed.bool_val = value
    elif isinstance(value, int):
        typed.uint_val = value
    else:
        assert isinstance(value, str)
        typed.string_val = value
