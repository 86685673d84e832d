"""Renders distances, neighbors and placements for people, in at most 100 columns if names are short."""

from collections.abc import Iterator

from streams.locality.answers import DistanceAnswer, GpuDistanceAnswer, LeftOutAnswer, NeighborAnswer, PlacementAnswer
from streams.locality.fabric_state import Usability

_LEFT_OUT = 20
_HOSTS = 16


NEAR_COLUMNS = ("HOST", "UNIT", "POD", "TIER", "SWITCHES", "CAPACITY", "STATE")


def near_cells(near: NeighborAnswer) -> list[str]:
    """Return the row of a host near another one, with its impairments."""
    state = "; ".join((near.usability.name.lower() if near.usability else "good", *near.reasons))
    return [near.host, near.unit, near.pod, near.tier, str(near.switches), f"{near.ratio:.0%}", state]


def distance_lines(distance: DistanceAnswer) -> Iterator[str]:
    """Yield the distance between two hosts, then its paths by rail and plane."""
    if distance.switches is None:
        yield f"{distance.a} to {distance.z}: not all of their rails reach each other"
    elif distance.switches == 0:
        yield f"{distance.a} is one host"
    else:
        unit = "the same unit" if distance.same_unit else "unlike units"
        pod = "the same pod" if distance.same_pod else "unlike pods"
        yield f"{distance.a} to {distance.z}: {distance.switches} switches, by {distance.tier}; {unit}, {pod}"
    if distance.paths:
        yield f"capacity now: {_gbps(distance.capacity_bps)}, {distance.ratio:.0%} of that built"
    for path in distance.paths:
        plane = "" if path.plane is None else f" plane {path.plane}"
        yield (
            f"  rail {'?' if path.rail is None else path.rail}{plane}: {path.tier or 'none':4}"
            f" {_gbps(path.capacity_bps):>9} by {' and '.join(dict.fromkeys(path.leaves))}"
        )
        if path.bottleneck:
            yield f"    {path.bottleneck}"


def gpu_lines(distance: GpuDistanceAnswer) -> Iterator[str]:
    """Yield the distance between two GPUs."""
    (a, a_gpu), (z, z_gpu) = distance.a, distance.z
    ends = f"{a} GPU {a_gpu} (rail {distance.rails[0]}) to {z} GPU {z_gpu} (rail {distance.rails[1]})"
    if distance.same_host:
        yield f"{ends}: the same host, no switch"
        return
    yield f"{ends}: {_switches(distance.switches)} between their rails"
    if distance.rails[0] != distance.rails[1]:
        yield f"  {_switches(distance.switches_by_rail)} on one rail, after the links between the GPUs of a host"


def placement_lines(placement: PlacementAnswer) -> Iterator[str]:
    """Yield the sets, the best first, then the excluded hosts."""
    for number, each in enumerate(placement.sets, 1):
        yield f"{number}. {len(each.hosts)} hosts, {each.gpus} GPUs, {each.tier}: {', '.join(each.units)}"
        yield from (f"   {reason}" for reason in each.why)
        shown = each.hosts[:_HOSTS]
        more = f" and {len(each.hosts) - len(shown)} more" if len(each.hosts) > len(shown) else ""
        yield f"   {' '.join(shown)}{more}"
    if not placement.sets:
        yield f"no set of {placement.gpus} GPUs: {placement.usable_gpus} are usable and connected"
    if placement.left_out:
        yield f"left out: {len(placement.left_out)} hosts"
        for left in placement.left_out[:_LEFT_OUT]:
            yield f"  {_left_out(left)}"


def _left_out(left: LeftOutAnswer) -> str:
    return f"{left.host} ({left.unit or 'no unit'}): {'; '.join(left.reasons) or Usability.OUT.name.lower()}"


def _switches(count: int | None) -> str:
    return "no path" if count is None else f"{count} switch{'' if count == 1 else 'es'}"


def _gbps(speed: float | None) -> str:
    return "unknown" if speed is None else f"{speed / 1e9:.0f} Gb/s"
