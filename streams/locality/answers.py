"""The answers of the locality, alike on the command line and over HTTP: distances, neighbors, sets of hosts."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, PlainSerializer, WithJsonSchema

from streams.locality.fabric_state import Usability

UsabilityName = Annotated[
    Usability,
    PlainSerializer(lambda value: value.name.lower(), return_type=str),
    WithJsonSchema({"type": "string", "enum": [each.name.lower() for each in Usability]}),
]


class Answer(BaseModel):
    """One answer; its fields are those of the JSON."""

    model_config = ConfigDict(frozen=True)


class RailPathAnswer(Answer):
    """The path between the ports of one rail and plane of two hosts."""

    rail: int | None
    plane: int | None
    leaves: tuple[str, str]
    tier: str
    """The tier where both leaves meet; empty without a path."""
    switches: int | None
    """Switches on the path: 1 on one leaf."""
    ratio: float
    """Of the built capacity of the slower host link that is left now."""
    capacity_bps: float | None
    """None where the inventory lacks speeds."""
    bottleneck: str
    """The part that limits it, empty if nothing does."""


class DistanceAnswer(Answer):
    """The distance between two hosts."""

    a: str
    z: str
    same_unit: bool
    same_pod: bool
    tier: str
    """The tier that connects all common rails, that of the farthest path; empty if a rail has no path."""
    switches: int | None
    ratio: float
    """The capacity of all paths now, of that built."""
    capacity_bps: float | None
    paths: tuple[RailPathAnswer, ...]


class GpuDistanceAnswer(Answer):
    """The distance between two GPUs, each a host and a number."""

    a: tuple[str, int]
    z: tuple[str, int]
    rails: tuple[int, int]
    same_host: bool
    switches: int | None
    """On the shortest path through the switches between their own rails; 0 within a host."""
    switches_by_rail: int | None
    """On one rail, after the links between the GPUs of a host."""


class NeighborAnswer(Answer):
    """A host near another one."""

    host: str
    unit: str
    pod: str
    tier: str
    switches: int
    ratio: float
    """Of its built capacity with which it reaches the tier where both meet."""
    usability: UsabilityName
    reasons: tuple[str, ...]


class HostSetAnswer(Answer):
    """A set of hosts for a job."""

    hosts: tuple[str, ...]
    gpus: int
    units: tuple[str, ...]
    group: str
    """The group that has them all: a unit, or a group of a tier."""
    tier: str
    switches: int
    """On the longest path between two of the hosts."""
    ratio: float
    """The smallest part of its built capacity with which one of them reaches the tier."""
    doubtful: tuple[str, ...]
    why: tuple[str, ...]
    """Its advantages and its price, one sentence each."""


class LeftOutAnswer(Answer):
    """A host that no set has."""

    host: str
    unit: str
    reasons: tuple[str, ...]


class PlacementAnswer(Answer):
    """The sets, the best first, and the hosts that were left out."""

    gpus: int
    usable_gpus: int
    sets: tuple[HostSetAnswer, ...]
    left_out: tuple[LeftOutAnswer, ...]


class VersionAnswer(Answer):
    """The state that the service answers from; `version` changes with it, and is the ETag of all answers."""

    version: str
    inventory: str
    """The digest of the inventory."""
    at_ns: int
    hosts: int
    good_hosts: int
