"""Maps a source's name of a leaf to a signal. Pure.

gnmic sends complete paths. Telegraf sends the path below the subscription, which its tag `path` names unless the site
removes it: then a leaf is identified by the end of its path alone, if that is unambiguous.
"""

import re
from collections.abc import Mapping
from functools import cache

from collectors.bridge.signals import Kind, Signal
from collectors.bridge.tables import openconfig

_LIST_ITEM = re.compile(r"\.\d+$")
_ORIGIN = re.compile(r"^[^/\[]*:(?=/)")
_PORTS_MEASUREMENT = re.compile(r"if|interface|port|eth", re.IGNORECASE)


def steps(path: str) -> list[str]:
    """Return the steps of a path, without origin, modules, keys and the numbers of list items, with hyphens."""
    bare = re.sub(r"\[[^\]]*\]", "", _ORIGIN.sub("", path))
    return [
        _LIST_ITEM.sub("", step.rpartition(":")[2]).replace("_", "-") for step in bare.split("/") if step
    ]  # fmt: skip


def scope(field: str) -> str:
    """Return the beginning of a field up to its list item, which its neighbors share: `/interfaces/interface.3`."""
    found = re.match(r"(.*?/?interface\.\d+)/", field)
    return found[1] if found else ""


_ENDS: dict[str, Signal | None] = {}
"""Leaves of ports by every end of their path; None for an end that leaves of different metrics share."""
for _path, _signal in openconfig.PORTS.items():
    _parts = _path.split("/")
    for _at in range(len(_parts)):
        _end = "/".join(_parts[_at:])
        _other = _ENDS.get(_end, _signal)
        _ENDS[_end] = _signal if _other is not None and _other.metric is _signal.metric else None


_COMPLETE = {openconfig.PORT + path: signal for path, signal in openconfig.PORTS.items()} | openconfig.OTHERS


def whole(path: str) -> Signal | None:
    """Return the signal of a complete path."""
    if path in openconfig.NAMES:
        return Signal(Kind.NAME)
    if path.startswith(openconfig.PORT):
        return openconfig.PORTS.get(path.removeprefix(openconfig.PORT))
    return openconfig.OTHERS.get(path)


def leaf(field: str, measurement: str, tags: Mapping[str, str], *, has_paths: bool) -> Signal | None:
    """Return the signal of a field; `has_paths` is True if fields are complete paths, as gnmic's are."""
    field_steps = steps(field)
    if has_paths or field.startswith("/"):
        return whole("/".join(field_steps))
    above = steps(tags.get("path", ""))
    if found := whole("/".join([*above, *field_steps])):
        return found
    if above:
        return _below("/".join(above), "/".join(field_steps), is_port=not openconfig.INSIDE_PORT & tags.keys())
    if openconfig.NO_PORT & tags.keys():
        return None
    if field_steps == ["name"]:
        return Signal(Kind.NAME) if _PORTS_MEASUREMENT.search(measurement) else None
    if (
        field_steps[-1] in openconfig.NEEDS_PATH
        and not _PORTS_MEASUREMENT.search(measurement)
        and len(field_steps) == 1
    ):
        return None
    return _ENDS.get("/".join(field_steps)) or _ENDS.get("/".join([*steps(measurement), *field_steps]))


@cache
def _below(above: str, end: str, *, is_port: bool) -> Signal | None:
    """Return the signal of a path between whose beginning and end steps are left out; None if metrics share both.

    Telegraf's `trim_field_names` and `path_guessing_strategy` leave them out. `is_port` is False for a value of an
    object inside a port, such as a subinterface, whose leaves have the same names.
    """
    found: dict[object, Signal] = {}
    for path, signal in _COMPLETE.items():
        if (
            path.startswith(f"{above}/")
            and path.endswith(f"/{end}")
            and (is_port or not path.startswith(openconfig.PORT))
        ):
            found.setdefault(signal.metric or signal.kind, signal)
    return next(iter(found.values())) if len(found) == 1 else None
