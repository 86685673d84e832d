"""Evaluates gNMI Set requests: returns the settings that a request changes, or refuses it with a reason. Pure.

Follows gnmi-specification 3.4: a request is one transaction, in the order deletes, replaces, updates. A deleted leaf
gets its default; an update of a leaf-list adds to it.
"""

from collections.abc import Iterable

import orjson

from collectors.gnmi.paths import Elems, elem, to_text
from collectors.gnmi.v1 import gnmi_pb2
from lab.servers.gnmi_model import GnmiModel, Leaf
from lab.servers.gnmi_subscriptions import Refusal, RefusedRequest, requested_path
from lab.world.port_configuration import POLICIES, Policies, Setting

Changes = dict[tuple[str, Setting], bool | Policies]
"""The new values by port and setting."""
_Json = dict[str, "_Json"] | list["_Json"] | str | int | float | bool | None


def changes_of(model: GnmiModel, request: gnmi_pb2.SetRequest, at_ns: int) -> Changes:
    """Return the changes of a request; raise RefusedRequest if any part of it cannot be applied."""
    if request.union_replace:
        raise RefusedRequest(Refusal.UNIMPLEMENTED, "union_replace is not supported")
    changes: Changes = {}
    for path in request.delete:
        for leaf in _settings(model, requested_path(request.prefix, path)):
            changes[_key(leaf)] = _default(leaf)
    for update in request.replace:
        elems = _resolved(requested_path(request.prefix, update.path))
        for leaf in _settings(model, elems):
            changes[_key(leaf)] = _default(leaf)
        for leaf, value in _values(model, elems, update.val):
            changes[_key(leaf)] = value
    for update in request.update:
        elems = _resolved(requested_path(request.prefix, update.path))
        for leaf, value in _values(model, elems, update.val):
            present = changes.get(_key(leaf), leaf.read(at_ns))
            if isinstance(value, tuple) and isinstance(present, tuple):
                changes[_key(leaf)] = tuple(dict.fromkeys((*present, *value)))
            else:
                changes[_key(leaf)] = value
    return changes


def response_to(request: gnmi_pb2.SetRequest, at_ns: int) -> gnmi_pb2.SetResponse:
    """Return the response to an applied request."""
    response = gnmi_pb2.SetResponse(prefix=request.prefix, timestamp=at_ns)
    for path in request.delete:
        response.response.add(path=path, op=gnmi_pb2.UpdateResult.DELETE)
    for update in request.replace:
        response.response.add(path=update.path, op=gnmi_pb2.UpdateResult.REPLACE)
    for update in request.update:
        response.response.add(path=update.path, op=gnmi_pb2.UpdateResult.UPDATE)
    return response


def _key(leaf: Leaf) -> tuple[str, Setting]:
    assert leaf.setting is not None
    return leaf.port, leaf.setting


def _default(leaf: Leaf) -> bool | Policies:
    return True if leaf.setting is Setting.ENABLED else ()


def _resolved(elems: Elems) -> Elems:
    if any(step.name in ("*", "...") or any(value == "*" for _, value in step.keys) for step in elems):
        raise RefusedRequest(Refusal.INVALID_ARGUMENT, f"{to_text(elems)}: a wildcard can only be deleted")
    return elems


def _settings(model: GnmiModel, elems: Elems) -> list[Leaf]:
    """Return the leaves at or below a path that can be set; refuse a path that has none."""
    if not model.has(elems):
        raise RefusedRequest(Refusal.INVALID_ARGUMENT, f"{to_text(elems)}: no such path")
    leaves = model.matching_leaves(elems)
    if not leaves:
        raise RefusedRequest(Refusal.NOT_FOUND, f"{to_text(elems)}: no such instance on {model.device}")
    settable = [leaf for leaf in leaves if leaf.setting is not None]
    if not settable:
        raise RefusedRequest(Refusal.INVALID_ARGUMENT, f"{to_text(elems)}: cannot be set")
    return settable


def _values(model: GnmiModel, elems: Elems, value: gnmi_pb2.TypedValue) -> Iterable[tuple[Leaf, bool | Policies]]:
    for where, plain in _leaves_of(elems, _plain(elems, value)):
        settable = _settings(model, where)
        if len(settable) > 1 or settable[0].elems != where:
            raise RefusedRequest(Refusal.INVALID_ARGUMENT, f"{to_text(where)}: not a leaf; its value must be JSON")
        yield settable[0], _checked(settable[0], plain)


def _leaves_of(elems: Elems, value: _Json) -> Iterable[tuple[Elems, _Json]]:
    if not isinstance(value, dict):
        yield elems, value
        return
    for name, below in value.items():
        yield from _leaves_of((*elems, elem(name)), below)


def _plain(elems: Elems, value: gnmi_pb2.TypedValue) -> _Json:
    kind = value.WhichOneof("value")
    match kind:
        case "bool_val":
            return value.bool_val
        case "string_val":
            return value.string_val
        case "leaflist_val":
            return [_plain(elems, element) for element in value.leaflist_val.element]
        case "json_val" | "json_ietf_val":
            try:
                return orjson.loads(value.json_ietf_val or value.json_val)  # type: ignore[no-any-return]
            except orjson.JSONDecodeError as error:
                raise RefusedRequest(Refusal.INVALID_ARGUMENT, f"{to_text(elems)}: invalid JSON: {error}") from error
        case _:
            raise RefusedRequest(Refusal.INVALID_ARGUMENT, f"{to_text(elems)}: {kind or 'no value'} is not supported")


def _checked(leaf: Leaf, value: _Json) -> bool | Policies:
    where = to_text(leaf.elems)
    if leaf.setting is Setting.ENABLED:
        if not isinstance(value, bool):
            raise RefusedRequest(Refusal.INVALID_ARGUMENT, f"{where}: {value!r} is not a boolean")
        return value
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise RefusedRequest(Refusal.INVALID_ARGUMENT, f"{where}: {value!r} is not a list of policy names")
    if unknown := [name for name in value if name not in POLICIES]:
        raise RefusedRequest(
            Refusal.INVALID_ARGUMENT, f"{where}: policy {unknown[0]} is not defined; defined: {', '.join(POLICIES)}"
        )
    return tuple(dict.fromkeys(map(str, value)))
