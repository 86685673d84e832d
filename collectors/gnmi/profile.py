"""Reads vendor profiles: the subscriptions of a device and the mapping of its leaves, as data in `profiles/*.toml`.

A profile is one file. `openconfig` applies to all devices. Any other profile applies to a device if the device's
Capabilities list one of its models, or if the device's settings name it. docs/collectors/gnmi.md explains the keys.
"""

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Literal

from pydantic import BaseModel, ConfigDict, field_validator

from streams.fabric.catalogue import BY_NAME

COMMON = "openconfig"
Mode = Literal["sample", "on_change"]
Encoding = Literal["proto", "json_ietf", "json", "ascii"]
Reader = Literal["number", "oper_up", "admin_up", "port_speed", "session_up", "unix_ns", "text", "flag", "stormed"]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Subscription(_Strict):
    """One path to subscribe to. It is used only if the device lists one of `models` (globs), or lists no models."""

    path: str
    mode: Mode = "sample"
    origin: str = ""
    target: str = ""
    models: tuple[str, ...] = ()
    fallback: tuple[str, ...] = ()
    """Paths to try in turn if the device refuses this one."""

    @property
    def schema_key(self) -> tuple[str, str]:
        """The target and origin, which all paths of one subscription must share."""
        return self.target, self.origin

    def fallbacks(self) -> Iterator["Subscription"]:
        """Yield this subscription, then itself in the other mode, then its fallbacks."""
        other: Mode = "on_change" if self.mode == "sample" else "sample"
        yield self
        yield self.model_copy(update={"mode": other})
        for path in self.fallback:
            yield self.model_copy(update={"path": path})


class LeafMapping(_Strict):
    """The mapping of one leaf: a `metric`, a `fact`, or a special role (`is`), and its reader."""

    metric: str = ""
    fact: str = ""
    is_: Literal["", "boot-time", "port-name", "module"] = ""
    read: Reader | None = None
    scale: float = 1.0
    rank: int = 9
    """If a device has several leaves of one metric, the highest rank is used."""
    state: bool = False
    """True if the device reports the leaf when it changes; a sample does not always contain it."""
    lanes_from: int = 0
    """The device's number of the first lane; railsight's is 0."""
    secondary: bool = False
    """Used only in a row with other values: a temperature is a module's only if the module's light is present."""

    @field_validator("metric")
    @classmethod
    def _known(cls, metric: str) -> str:
        if metric and metric not in BY_NAME:
            raise ValueError(f"unknown metric: {metric}; see the catalogue in streams/fabric/catalogue.py")
        return metric


class Section(_Strict):
    """Maps leaves by their path below one of several places. `{row}`, `{lane}` and `{other}` are placeholders."""

    below: tuple[str, ...]
    leaves: dict[str, str | LeafMapping]


class Profile(_Strict):
    """The subscriptions and leaves of one vendor, or of one of its data models."""

    name: str
    source: str
    """The origin of this profile's data."""
    models: tuple[str, ...] = ()
    encodings: tuple[Encoding, ...] = ()
    subscribe: tuple[Subscription, ...] = ()
    facts: tuple[Subscription, ...] = ()
    """Paths that are requested at the start and at long intervals; a device may refuse each of them."""
    section: tuple[Section, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceHints:
    """The Capabilities of a device; empty if it has none."""

    encodings: frozenset[int] = frozenset()
    models: tuple[str, ...] = ()

    def matches(self, wanted: Iterable[str]) -> bool:
        """Return True if one of its models matches one of these globs, with or without its namespace."""
        return any(
            fnmatchcase(model, glob) or fnmatchcase(model.rpartition(":")[2], glob)
            for model in self.models
            for glob in wanted
        )


@cache
def profiles() -> dict[str, Profile]:
    """Return all profiles, sorted by name."""
    folder = files("collectors.gnmi") / "profiles"
    found = [
        Profile.model_validate(tomllib.loads(file.read_text("utf-8")))
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".toml")
    ]
    return {profile.name: profile for profile in found}


def chosen(named: Iterable[str], hints: DeviceHints) -> tuple[Profile, ...]:
    """Return the profiles of a device, the vendor's first: the named ones, else those that match its models."""
    known = profiles()
    own = [known[name] for name in named if name != COMMON]
    if not own:
        own = [profile for profile in known.values() if hints.matches(profile.models)]
    return (*own, known[COMMON])
