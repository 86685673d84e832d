"""Defines the answers of the command line and the HTTP service: distances, neighbors, sets of hosts."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, PlainSerializer, WithJsonSchema

from streams.locality.fabric_state import Usability

UsabilityName = Annotated[
    Usability,
    PlainSerializer(lambda value: value.name.lower(), return_type=str),
    WithJsonSchema({"type": "string", "enum": [each.name.lower() for each in Usability]}),
]


class Answer(BaseModel):
    """The base of all answers; the fields are the JSON's."""

    model_config = ConfigDict(frozen=True)


class RailPathAnswer(Answer):
    """The path between the ports of one rail and plane of two hosts."""

    rail: int | None
    plane: int | None
    leaves: tuple[str, str]
    tier: str
    """The tier that connects both leaves; empty without a path."""
    switches: int | None
    """Switches on the path; 1 if both ports are on one leaf."""
    ratio: float
    """The remaining share of the built capacity of the slower host link."""
    capacity_bps: float | None
    """The remaining capacity; None if the inventory lacks speeds."""
    bottleneck: str
    """The part that limits the capacity; empty without a limit."""


class DistanceAnswer(Answer):
    """The distance between two hosts."""

    a: str
    z: str
    same_unit: bool
    same_pod: bool
    tier: str
    """The tier of the longest path, which connects all common rails; empty if a rail has no path."""
    switches: int | None
    same_domain: bool
    """True if both hosts are of one NVLink domain."""
    ratio: float
    """The present capacity of all paths, divided by the built one."""
    capacity_bps: float | None
    paths: tuple[RailPathAnswer, ...]


class GpuDistanceAnswer(Answer):
    """The distance between two GPUs, each a host and a number."""

    a: tuple[str, int]
    z: tuple[str, int]
    rails: tuple[int, int]
    same_host: bool
    switches: int | None
    """Switches on the shortest path between the GPUs' own rails; 0 within a host."""
    switches_by_rail: int | None
    """Switches on one rail, after the links between the GPUs of a host."""


class NeighborAnswer(Answer):
    """A host near another one."""

    host: str
    unit: str
    pod: str
    tier: str
    switches: int
    same_domain: bool
    """True if both hosts are of one NVLink domain: such hosts come first."""
    ratio: float
    """The share of its built capacity that reaches the tier that connects both hosts."""
    usability: UsabilityName
    reasons: tuple[str, ...]


class HostSetAnswer(Answer):
    """A set of hosts for a job."""

    hosts: tuple[str, ...]
    gpus: int
    units: tuple[str, ...]
    domains: tuple[str, ...]
    """The NVLink domains of the hosts."""
    group: str
    """The group that contains all hosts of the set: a unit, or a group of a tier."""
    tier: str
    switches: int
    """Switches on the longest path between two of the hosts."""
    ratio: float
    """The smallest share of its built capacity with which a host of the set reaches the tier."""
    doubtful: tuple[str, ...]
    why: tuple[str, ...]
    """The advantages and drawbacks of the set, one sentence each."""


class LeftOutAnswer(Answer):
    """A host in no set."""

    host: str
    unit: str
    reasons: tuple[str, ...]


class PlacementAnswer(Answer):
    """The sets, the best first, and the excluded hosts."""

    gpus: int
    usable_gpus: int
    sets: tuple[HostSetAnswer, ...]
    left_out: tuple[LeftOutAnswer, ...]


class VersionAnswer(Answer):
    """The state that the answers are based on; `version` changes with it and is the ETag of all answers."""

    version: str
    inventory: str
    """The digest of the inventory."""
    at_ns: int
    hosts: int
    good_hosts: int
