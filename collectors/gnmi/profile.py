"""Vendor profiles: what a device is asked for, and what each of its leaves is; data, read from `profiles/*.toml`.

A profile is one file. `openconfig` is everybody's; another is a device's where its Capabilities name one of the
profile's models, or where the device's settings name it. What the words in a file mean is in docs/collectors/gnmi.md.
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
Reader = Literal["number", "oper_up", "admin_up", "port_speed", "unix_ns", "text", "flag"]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Subscription(_Strict):
    """One path to subscribe to. `models` (globs): it is asked for only where the device says one of them, or none."""

    path: str
    mode: Mode = "sample"
    origin: str = ""
    target: str = ""
    models: tuple[str, ...] = ()
    instead: tuple[str, ...] = ()
    """What is asked for, one after the other, where the device refuses the path."""

    @property
    def schema_of(self) -> tuple[str, str]:
        """What all paths of one subscription must have in common: target and origin."""
        return self.target, self.origin

    def less(self) -> Iterator["Subscription"]:
        """Itself, then with the other mode, then what stands in for it."""
        other: Mode = "on_change" if self.mode == "sample" else "sample"
        yield self
        yield self.model_copy(update={"mode": other})
        for path in self.instead:
            yield self.model_copy(update={"path": path})


class LeafMapping(_Strict):
    """What one leaf is: one of `metric`, `fact`, `is_` something; and how its value reads."""

    metric: str = ""
    fact: str = ""
    is_: Literal["", "boot-time", "port-name", "module"] = ""
    read: Reader | None = None
    scale: float = 1.0
    rank: int = 9
    """Of leaves that mean one metric the higher wins where a device has several."""
    state: bool = False
    """It is told when it changes; a sample does not always hold it."""
    lanes_from: int = 0
    """The number of the first lane; ours is 0."""
    default: float | None = None
    """The device leaves it out where it is this, and sends others of its section."""
    beside: bool = False
    """It counts only for a row that has other values: a temperature is a module's only beside the module's light."""

    @field_validator("metric")
    @classmethod
    def _known(cls, metric: str) -> str:
        if metric and metric not in BY_NAME:
            raise ValueError(f"no metric of the catalogue: {metric}")
        return metric


class Section(_Strict):
    """Leaves by their path below one of several places. `{row}`, `{lane}` and `{other}` stand for what varies."""

    below: tuple[str, ...]
    leaves: dict[str, str | LeafMapping]


class Profile(_Strict):
    """One vendor, or one of its ways to speak."""

    name: str
    source: str
    """Where what stands here comes from."""
    models: tuple[str, ...] = ()
    encodings: tuple[Encoding, ...] = ()
    ask: tuple[Subscription, ...] = ()
    facts: tuple[Subscription, ...] = ()
    """Asked for once, and again after hours; each is refused alone."""
    section: tuple[Section, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceHints:
    """What a device says of itself in its Capabilities; empty where it has none."""

    encodings: frozenset[int] = frozenset()
    models: tuple[str, ...] = ()

    def has(self, wanted: Iterable[str]) -> bool:
        """Whether one of its models is one of these globs; a model may come with its namespace before it."""
        return any(
            fnmatchcase(model, glob) or fnmatchcase(model.rpartition(":")[2], glob)
            for model in self.models
            for glob in wanted
        )


@cache
def profiles() -> dict[str, Profile]:
    """All profiles by name, in the order of their names."""
    folder = files("collectors.gnmi") / "profiles"
    found = [
        Profile.model_validate(tomllib.loads(file.read_text("utf-8")))
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".toml")
    ]
    return {profile.name: profile for profile in found}


def chosen(named: Iterable[str], said: DeviceHints) -> tuple[Profile, ...]:
    """The profiles of a device, the vendor's before everybody's: those named, else those that its models tell."""
    known = profiles()
    own = [known[name] for name in named if name != COMMON]
    if not own:
        own = [profile for profile in known.values() if said.has(profile.models)]
    return (*own, known[COMMON])
