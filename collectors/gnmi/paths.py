"""Converts gNMI paths between text and messages, without the prefixes that devices add. Pure."""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from google.protobuf.message import DecodeError

from collectors.gnmi.v1 import gnmi_pb2
from streams.wire.errors import Reject


class Elem(NamedTuple):
    """One step of a path: its name without a module prefix, and its keys sorted by name."""

    name: str
    keys: tuple[tuple[str, str], ...] = ()

    def key(self, name: str) -> str | None:
        """Return the value of a key; None if there is no such key."""
        return next((value for known, value in self.keys if known == name), None)


Elems = tuple[Elem, ...]

LONGEST_PATH = 4096
"""Limit of an encoded path in bytes: the longest known one, a queue below a named port, has some 300."""
_STEP = re.compile(r"/?([^/\[\]]+)((?:\[[^=\]]+=(?:[^\]\\]|\\.)*\])*)")
_KEY = re.compile(r"\[([^=\]]+)=((?:[^\]\\]|\\.)*)\]")


_MODULE = re.compile(r"[A-Za-z_][\w.-]*:(?=[A-Za-z_])")


def bare(name: str) -> str:
    """Return a name without the module that some devices prefix: `oc-if:interfaces` becomes `interfaces`.

    No YANG identifier begins with a digit, so `Ethernet68:1`, a queue of SONiC, is not split.
    """
    return _MODULE.sub("", name, count=1) if ":" in name and _MODULE.match(name) else name


def elem(name: str, keys: Mapping[str, str] | None = None) -> Elem:
    """Return a step without module prefixes and with its keys sorted."""
    if not keys:
        return Elem(bare(name))
    return Elem(bare(name), tuple(sorted((bare(key), value) for key, value in keys.items())))


def from_text(text: str, *, modules: bool = False) -> Elems:
    """Parse `/interfaces/interface[name=Ethernet1/1]/state`; raises Reject if it is not a path.

    `modules` preserves the modules that some devices require in requests.
    """
    found, at = [], 0
    stripped = text.strip().rstrip("/")
    while at < len(stripped):
        step = _STEP.match(stripped, at)
        if step is None:
            raise Reject(f"not a gNMI path: {text}")
        keys = {name: re.sub(r"\\(.)", r"\1", value) for name, value in _KEY.findall(step[2])}
        found.append(Elem(step[1], tuple(sorted(keys.items()))) if modules else elem(step[1], keys))
        at = step.end()
    return tuple(found)


def to_text(elems: Iterable[Elem]) -> str:
    """Return the path in its text form."""
    return "/" + "/".join(
        step.name + "".join("[{}={}]".format(key, value.replace("]", "\\]")) for key, value in step.keys)
        for step in elems
    )


def to_message(elems: Iterable[Elem], origin: str = "", target: str = "") -> gnmi_pb2.Path:
    """Return the path as a gNMI message."""
    path = gnmi_pb2.Path(origin=origin, target=target)
    for step in elems:
        path.elem.add(name=step.name, key=dict(step.keys))
    return path


def from_message(path: gnmi_pb2.Path) -> Elems:
    """Return the steps of a message, without module prefixes."""
    return tuple(elem(step.name, step.key) for step in path.elem)


def from_bytes(*parts: bytes) -> tuple[str, Elems]:
    """Return (origin, steps) of an encoded prefix and path; raises Reject if they cannot be decoded.

    The origin may be in either; the path's origin is preferred.
    """
    origin = ""
    elems: Elems = ()
    for part in parts:
        try:
            path = gnmi_pb2.Path.FromString(part)
        except DecodeError as error:
            raise Reject(f"not a gNMI path: {error}") from error
        origin = path.origin or origin
        elems += from_message(path)
    return origin, elems
