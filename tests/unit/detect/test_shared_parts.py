"""Links of one part that fail together are one finding that names the part, with one repair."""

from dataclasses import replace

import pytest

from lab.world import demo_fabric
from lab.world.demo_fabric import DemoShape
from streams.fabric.inventory_rows import Part
from streams.fabric.topology import Topology
from streams.wire.models import Cause, Finding, Remediation, RemediationState
from tests.worlds.live_stages import in_order
from tests.worlds.observations import at
from tests.worlds.small_world import Seconds, SmallWorld, play, recorded

LEAF = "pod1-leaf4"
FABRIC = demo_fabric.inventory(DemoShape(pods=1, hosts=8, planes=1, spines=1, uplinks=1), at(0))
PORTS = [f"Ethernet{number}/1" for number in range(1, 9)]


def fabric(kind: str, ports: list[str]) -> Topology:
    """Return a fabric in which these ports of the leaf share a part."""
    return Topology(replace(FABRIC, parts=tuple(Part(LEAF, kind, "7", port) for port in ports)))  # type: ignore[arg-type]


def played(top: Topology, fault: str, times: dict[str, list[Seconds]]) -> tuple[list[Finding], list[Remediation]]:
    """Return the last revision of each finding and remediation."""
    world = SmallWorld(topology=top, **{fault: {f"{LEAF}/{port}": spells for port, spells in times.items()}})  # type: ignore[arg-type]
    last = {one.id: one for one in play(in_order(recorded(world, 1400)), top) if isinstance(one, Finding | Remediation)}
    return (
        [one for one in last.values() if isinstance(one, Finding)],
        [one for one in last.values() if isinstance(one, Remediation)],
    )


@pytest.mark.parametrize(
    ("kind", "fault", "ports", "spells", "cause"),
    [
        ("laser", "down", 4, [(100, 500)], Cause.OPTIC),
        ("laser", "lossy", 4, [(100, 500)], Cause.OPTIC),
        ("cage", "down", 2, [(100, 110), (200, 210), (300, 310)], Cause.OPTIC),
        ("cage", "lossy", 2, [(100, 500)], Cause.OPTIC),
        ("trunk", "down", 4, [(100, 500)], Cause.CABLE),
        ("line-card", "down", 5, [(100, 500)], Cause.DEVICE),
    ],
)
def test_links_of_a_part_that_fail_together_are_one_finding(
    kind: str, fault: str, ports: int, spells: list[Seconds], cause: Cause
) -> None:
    """The other findings are its children, and only its link has a remediation."""
    own = PORTS[:ports]
    findings, remediations = played(fabric(kind, own), fault, dict.fromkeys(own, spells))
    (root,) = [one for one in findings if not one.parent_id]
    assert len(findings) == ports and {one.parent_id for one in findings} == {"", root.id}
    scope = "" if kind == "trunk" else f" of {LEAF}"
    assert f"{ports} of {ports} links of {kind.replace('-', ' ')} 7{scope} failed together" in root.summary
    assert (root.cause, [one.observed for one in root.evidence if one.metric == "group"]) == (cause, [ports])
    assert {one.target.id for one in remediations if one.state is not RemediationState.DENIED} <= {root.subject.id}


@pytest.mark.parametrize(
    ("kind", "shared", "failed"),
    [
        ("trunk", PORTS, {port: [(100.0, 500.0)] for port in PORTS[:2]}),  # less than half
        ("cage", PORTS[:2], {PORTS[0]: [(100.0, 300.0)], PORTS[1]: [(400.0, 600.0)]}),  # not together
        ("cage", PORTS[:2], {PORTS[0]: [(100.0, 500.0)], PORTS[2]: [(100.0, 500.0)]}),  # another part
    ],
)
def test_links_that_fail_by_themselves_have_their_own_findings(
    kind: str, shared: list[str], failed: dict[str, list[Seconds]]
) -> None:
    findings, _ = played(fabric(kind, shared), "lossy", failed)
    assert [one.parent_id for one in findings] == ["", ""]
    assert not any("together" in one.summary for one in findings)
