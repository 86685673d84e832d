"""The answers as JSON, alike on the command line and over HTTP; filled from the fields of the model's own objects."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, PlainSerializer, WithJsonSchema

from streams.locality.fabric_state import Usability

UsabilityName = Annotated[
    Usability,
    PlainSerializer(lambda value: value.name.lower(), return_type=str),
    WithJsonSchema({"type": "string", "enum": [each.name.lower() for each in Usability]}),
]


class Answer(BaseModel):
    """An answer that is made from the attributes of an object."""

    model_config = ConfigDict(frozen=True, from_attributes=True)


class RailPathAnswer(Answer):
    """The path between the ports of one rail and plane of two hosts."""

    rail: int | None
    plane: int | None
    leaves: tuple[str, str]
    tier: str
    """The tier where both leaves meet; empty without a path."""
    switches: int | None
    ratio: float
    capacity_bps: float | None
    bottleneck: str


class DistanceAnswer(Answer):
    """The distance between two hosts."""

    a: str
    z: str
    same_unit: bool
    same_pod: bool
    tier: str
    switches: int | None
    ratio: float
    capacity_bps: float | None
    paths: tuple[RailPathAnswer, ...]


class GpuDistanceAnswer(Answer):
    """The distance between two GPUs, each a host and a number."""

    a: tuple[str, int]
    z: tuple[str, int]
    rails: tuple[int, int]
    same_host: bool
    switches: int | None
    switches_by_rail: int | None


class NeighborAnswer(Answer):
    """A host near another one."""

    host: str
    unit: str
    pod: str
    tier: str
    switches: int
    ratio: float
    usability: UsabilityName
    reasons: tuple[str, ...]


class HostSetAnswer(Answer):
    """A set of hosts for a job."""

    hosts: tuple[str, ...]
    gpus: int
    units: tuple[str, ...]
    group: str
    tier: str
    switches: int
    ratio: float
    doubtful: tuple[str, ...]
    why: tuple[str, ...]


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
