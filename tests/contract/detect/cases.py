"""One case for each detector, in which it fires: what is told in it, the truth, and what a backtest says of it.

Each is told and played once a session, however many tests ask.
"""

from functools import cache

from collectors.sim import clos
from collectors.sim.clos import Shape
from streams.fabric.topology import Topology
from streams.replay.score import Truth
from streams.wire.models import Condition, Finding, Message
from tests.unit.detect.chain import World, play, recorded
from tests.unit.detect.live import in_order
from tests.unit.detect.parts import RECOVERED, HostWorld
from tests.unit.detect.seen import T0, at
from tests.unit.detect.told import ToldWorld

UNTIL_S = 1200
"""By then each detector has said its last word, and some time has passed."""

FLAPPING = World(down={"p1-l0/d1": [(t, t + 10) for t in (100, 200, 300)]})
DOWN = World(down={"p2-l1/u0": [(100, 400)]})
REBOOT = World(gone={"s1": [(100, 220)]}, boots={"s1": 220})
UNREAD = World(unread={"p1-l0": [(100, 400)]})
LOSING = World(losing={"p1-l0/d1": [(100, 500)]})
RAILS = Topology(clos.inventory(Shape(pods=1, hosts=5, planes=1, spines=1, uplinks=1), at(0)))
SLOW = World(top=RAILS, slow={"pod1-host2/mlx5_3": [(100, 500)]})
NARROW = HostWorld(top=RAILS, narrow={"pod1-host2/mlx5_3": [(100, 400)]})
OFF_BUS = HostWorld(top=RAILS, xids={"pod1-host2/0000:9b:00.0": [(200, 79), (200.5, 154), (500, RECOVERED)]})
LEAVES = Topology(clos.inventory(Shape(pods=1, hosts=3, planes=1, spines=1, uplinks=1), at(0)))
STORM = World(
    top=LEAVES,
    paused={
        "pod1-host2/mlx5_3": [(100, 400)], "pod1-leaf4/Ethernet1/1": [(100, 400)],
        "pod1-leaf4/Ethernet3/1": [(100, 400)], "pod1-leaf4/Ethernet4/1": [(100, 400)],
    },
)  # fmt: skip
WIDE = Topology(clos.inventory(Shape(pods=1, hosts=2, planes=1, spines=2, uplinks=2), at(0)))
HOT = World(top=WIDE, hot={"pod1-leaf4/Ethernet3/1": [(100, 700)]})
SWAPPED = ToldWorld(swapped={("p1-l0/d1", "p1-l0/d2"): [(100, 700)]})
TEN = Topology(clos.inventory(Shape(pods=1, hosts=10, planes=1, spines=2, uplinks=1), at(0)))
OLD = ToldWorld(top=TEN, firmware={"pod1-host3": [(100, "28.39.1002"), (900, "28.41.1000")]})
CROWDED = World(top=RAILS, crowded={"pod1-host2/mlx5_3": [(100, 400)]})
STIFLED = World(top=RAILS, stifled={f"pod1-host{h}/mlx5_{r}": [(100, 400)] for h in range(1, 6) for r in range(8)})
LABELLED: dict[str, tuple[World, Truth]] = {
    "link/flap": (FLAPPING, Truth(at(100), at(310), Condition.LINK_FLAP, "p1-l0", "d1")),
    "link/down": (DOWN, Truth(at(100), at(400), Condition.LINK_DOWN, "p2-l1", "u0")),
    "link/degrading": (LOSING, Truth(at(100), at(500), Condition.LINK_DEGRADING, "p1-l0", "d1")),
    "rail/degraded": (SLOW, Truth(at(100), at(500), Condition.RAIL_DEGRADED, "pod1-host2", "mlx5_3")),
    "host/pcie-degraded": (NARROW, Truth(at(100), at(400), Condition.HOST_PCIE_DEGRADED, "pod1-host2", "mlx5_3")),
    "host/gpu-fault": (OFF_BUS, Truth(at(200), at(500), Condition.HOST_GPU_FAULT, "pod1-host2", "0000:9b:00.0")),
    "congestion/pfc-storm": (STORM, Truth(at(100), at(400), Condition.CONGESTION_PFC_STORM, "pod1-host2", "mlx5_3")),
    "congestion/incast": (
        CROWDED,
        Truth(at(100), at(400), Condition.CONGESTION_INCAST, "pod1-host2", "mlx5_3"),
    ),
    "congestion/imbalance": (HOT, Truth(at(100), at(700), Condition.CONGESTION_IMBALANCE, "pod1-leaf4", "")),
    "congestion/collapse": (STIFLED, Truth(at(100), at(400), Condition.CONGESTION_COLLAPSE, "pod1", "")),
    "link/miscabled": (SWAPPED, Truth(at(100), at(700), Condition.LINK_MISCABLED, "p1-h1", "e0")),
    "fleet/version-drift": (OLD, Truth(at(100), at(900), Condition.FLEET_VERSION_DRIFT, "pod1-host3", "")),
    "device/down": (REBOOT, Truth(at(100), at(220), Condition.DEVICE_DOWN, "s1", "")),
    "telemetry/stale": (UNREAD, Truth(at(100), at(400), Condition.TELEMETRY_STALE, "p1-l0", "")),
}


@cache
def told(slug: str) -> list[Message]:
    """All that is told in a case, in its order."""
    return in_order(recorded(LABELLED[slug][0], UNTIL_S))


@cache
def said(slug: str) -> list[Finding]:
    """All revisions that a backtest says of it."""
    return [one for one in play(told(slug), LABELLED[slug][0].top) if isinstance(one, Finding)]


def shortly_after(slug: str) -> float:
    """Five minutes after the fault: what would be said for its sake alone was said by then."""
    return min(UNTIL_S, LABELLED[slug][1].end_ns / 1e9 - T0 + 300)
