"""Selects links for faults that can hit host links and fabric links alike."""

from lab.world.fault_placement import FaultPlacer


def links_of_random_role(placer: FaultPlacer) -> list[int]:
    """Return all host links or all fabric links, with equal probability."""
    return placer.host_links if placer.rng.random() < 0.5 or not placer.fabric_links else placer.fabric_links


def dark_port(placer: FaultPlacer, link: int) -> int | None:
    """Return the end that receives no light, or None in half of all cases: those in which the light does not fail."""
    return placer.ports(link)[int(placer.rng.integers(2))] if placer.rng.random() < 0.5 else None
