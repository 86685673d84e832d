"""Localities of simulated fabrics under impairments: the demo's two pods, and fabrics of three tiers."""

from functools import cache

from lab.world.demo_fabric import DemoShape, inventory
from streams.detect.detector import Placement
from streams.fabric.clos import GenerateParams, generate
from streams.fabric.topology import Topology
from streams.locality.distance import Distances
from streams.locality.fabric_state import FabricState
from streams.locality.groups import Groups
from streams.locality.impairments import Impairment

NOW_NS = 1_800_000_000 * 10**9


@cache
def demo_groups() -> Groups:
    """Return two pods of four hosts with eight rails, leaves pod1-leaf1 and so on, four spines."""
    return Groups(Topology(inventory(DemoShape(), NOW_NS)))


@cache
def clos_groups(gpus: int = 256, radix: int = 16, planes: int = 1) -> Groups:
    """Return a fabric of small switches: 256 GPUs at radix 16 have three tiers, with four rails a host."""
    return Groups(Topology(generate(GenerateParams(gpus=gpus, radix=radix, rails=4, gpus_per_host=4, planes=planes))))


def state(*impairments: Impairment, groups: Groups | None = None) -> FabricState:
    """Return a state of the demo's fabric, or of others."""
    return FabricState(groups or demo_groups(), impairments)


def distances(*impairments: Impairment, groups: Groups | None = None) -> Distances:
    """Return the distances in such a state."""
    return Distances(state(*impairments, groups=groups))


def out(subject_id: str) -> Impairment:
    """Return a finding that takes a subject out."""
    return Impairment(subject_id, Placement.OUT, "link/down", "is down", "0123456789abcdef")


def doubtful(subject_id: str, kind: str = "rail/degraded") -> Impairment:
    """Return a finding that makes a subject doubtful."""
    return Impairment(subject_id, Placement.DOUBTFUL, kind, "is slower than its peers", "fedcba9876543210")
