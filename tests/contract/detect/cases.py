"""One case for each detector, in which it fires: its messages, the ground truth, and the findings of a backtest.

A detector without a case of its own here has its fault of `lab.world.faults`, which must show in the readings of ports.
Each is recorded and played once a session, for all tests.
"""

from dataclasses import replace
from functools import cache

from lab.world import demo_fabric
from lab.world.demo_fabric import DemoShape
from lab.world.faults import FAULT_OF
from streams.fabric.inventory_rows import Part
from streams.fabric.topology import Topology
from streams.replay.score import Truth
from streams.wire.models import Condition, Finding, Message
from tests.worlds.facts_world import FactsWorld
from tests.worlds.host_world import RECOVERED, HostWorld
from tests.worlds.live_stages import in_order
from tests.worlds.observations import T0, at
from tests.worlds.probe_world import ProbeWorld, probed
from tests.worlds.small_world import SmallWorld, placed, play, recorded

UNTIL_S = 1200
"""A case lasts so long, or until it is settled; some time has passed then since the final revision."""

FLAPPING = SmallWorld(down={"p1-l0/d1": [(t, t + 10) for t in (100, 200, 300)]})
DOWN = SmallWorld(down={"p2-l1/u0": [(100, 400)]})
REBOOT = SmallWorld(offline={"s1": [(100, 220)]}, boots={"s1": 220})
UNREAD = SmallWorld(not_polled={"p1-l0": [(100, 400)]})
SKEWED = SmallWorld(an_hour_ahead={"p1-h1": [(100, 700)]})
LOSING = SmallWorld(lossy={"p1-l0/d1": [(100, 500)]})
RAILS = Topology(demo_fabric.inventory(DemoShape(pods=1, hosts=5, planes=1, spines=1, uplinks=1), at(0)))
_LASER = tuple(Part("pod1-leaf4", "laser", "ELS1", f"Ethernet{port}/1") for port in (1, 2, 3))
ONE_LASER = Topology(
    replace(demo_fabric.inventory(DemoShape(pods=1, hosts=5, planes=1, spines=1, uplinks=1), at(0)), parts=_LASER)
)
SLOW = SmallWorld(topology=RAILS, slow={"pod1-host2/mlx5_3": [(100, 500)]})
NARROW = HostWorld(topology=RAILS, narrow={"pod1-host2/mlx5_3": [(100, 400)]})
HOT_GPU = HostWorld(topology=RAILS, hot={"pod1-host2/0000:9b:00.0": [(100, 400)]})
UNLINKED = HostWorld(topology=RAILS, unlinked={"pod1-host2/0000:9b:00.0": [(100, 400)]})
CAPPED = HostWorld(topology=RAILS, capped={"pod1-host2/0000:9b:00.0": [(100, 400)]})
OFF_BUS = HostWorld(topology=RAILS, xids={"pod1-host2/0000:9b:00.0": [(200, 79), (200.5, 154), (500, RECOVERED)]})
LEAVES = Topology(demo_fabric.inventory(DemoShape(pods=1, hosts=3, planes=1, spines=1, uplinks=1), at(0)))
STORM = SmallWorld(
    topology=LEAVES,
    pausing={
        "pod1-host2/mlx5_3": [(100, 400)], "pod1-leaf4/Ethernet1/1": [(100, 400)],
        "pod1-leaf4/Ethernet3/1": [(100, 400)], "pod1-leaf4/Ethernet4/1": [(100, 400)],
    },
)  # fmt: skip
WIDE = Topology(demo_fabric.inventory(DemoShape(pods=1, hosts=2, planes=1, spines=2, uplinks=2), at(0)))
HOT = SmallWorld(topology=WIDE, overloaded={"pod1-leaf4/Ethernet3/1": [(100, 700)]})
SWAPPED = FactsWorld(swapped={("p1-l0/d1", "p1-l0/d2"): [(100, 700)]})
TEN = Topology(demo_fabric.inventory(DemoShape(pods=1, hosts=10, planes=1, spines=2, uplinks=1), at(0)))
OLD = FactsWorld(topology=TEN, firmware={"pod1-host3": [(100, "28.39.1002"), (900, "28.41.1000")]})
INCAST = SmallWorld(topology=RAILS, incast={"pod1-host2/mlx5_3": [(100, 400)]})
THROTTLED = SmallWorld(
    topology=RAILS, throttled={f"pod1-host{h}/mlx5_{r}": [(100, 400)] for h in range(1, 6) for r in range(8)}
)
PROBED_INVENTORY, PROBED = probed(
    demo_fabric.inventory(DemoShape(pods=1, hosts=5, planes=1, spines=2, uplinks=1), at(0))
)
DROPPING = ProbeWorld(
    topology=PROBED,
    inventory=PROBED_INVENTORY,
    dropping={"pod1-leaf4/Ethernet6/1": (0.01, [(100, 500)])},
    sessions_down={"pod1-leaf4/Ethernet6/1": [(150, 450)]},
)
UNREACHED = ProbeWorld(topology=PROBED, inventory=PROBED_INVENTORY, dropping={"pod1-host2/mlx5_3": (1.0, [(100, 400)])})
LABELLED: dict[str, tuple[SmallWorld, Truth]] = {
    "link/flap": (FLAPPING, Truth(at(100), at(310), Condition.LINK_FLAP, "p1-l0", "d1")),
    "link/down": (DOWN, Truth(at(100), at(400), Condition.LINK_DOWN, "p2-l1", "u0")),
    "link/degrading": (LOSING, Truth(at(100), at(500), Condition.LINK_DEGRADING, "p1-l0", "d1")),
    "rail/degraded": (SLOW, Truth(at(100), at(500), Condition.RAIL_DEGRADED, "pod1-host2", "mlx5_3")),
    "host/pcie-degraded": (NARROW, Truth(at(100), at(400), Condition.HOST_PCIE_DEGRADED, "pod1-host2", "mlx5_3")),
    "host/thermal-throttle": (
        HOT_GPU,
        Truth(at(100), at(400), Condition.HOST_THERMAL_THROTTLE, "pod1-host2", "0000:9b:00.0"),
    ),
    "host/gpu-fault": (OFF_BUS, Truth(at(200), at(500), Condition.HOST_GPU_FAULT, "pod1-host2", "0000:9b:00.0")),
    "host/nvlink-degraded": (
        UNLINKED,
        Truth(at(100), at(400), Condition.HOST_NVLINK_DEGRADED, "pod1-host2", "0000:9b:00.0"),
    ),
    "host/power-capped": (CAPPED, Truth(at(100), at(400), Condition.HOST_POWER_CAPPED, "pod1-host2", "0000:9b:00.0")),
    "congestion/pfc-storm": (STORM, Truth(at(100), at(400), Condition.CONGESTION_PFC_STORM, "pod1-host2", "mlx5_3")),
    "congestion/incast": (
        INCAST,
        Truth(at(100), at(400), Condition.CONGESTION_INCAST, "pod1-host2", "mlx5_3"),
    ),
    "congestion/imbalance": (HOT, Truth(at(100), at(700), Condition.CONGESTION_IMBALANCE, "pod1-leaf4", "")),
    "congestion/collapse": (THROTTLED, Truth(at(100), at(400), Condition.CONGESTION_COLLAPSE, "pod1", "")),
    "link/miscabled": (SWAPPED, Truth(at(100), at(700), Condition.LINK_MISCABLED, "p1-h1", "e0")),
    "fleet/version-drift": (OLD, Truth(at(100), at(900), Condition.FLEET_VERSION_DRIFT, "pod1-host3", "")),
    "device/clock-skew": (SKEWED, Truth(at(100), at(700), Condition.DEVICE_CLOCK_SKEW, "p1-h1", "")),
    "device/down": (REBOOT, Truth(at(100), at(220), Condition.DEVICE_DOWN, "s1", "")),
    "path/loss": (DROPPING, Truth(at(100), at(500), Condition.PATH_LOSS, "pod1-leaf4", "Ethernet6/1")),
    "rail/unreachable": (UNREACHED, Truth(at(100), at(400), Condition.RAIL_UNREACHABLE, "pod1-host2", "mlx5_3")),
    "telemetry/stale": (UNREAD, Truth(at(100), at(400), Condition.TELEMETRY_STALE, "p1-l0", "")),
}
LABELLED |= {
    slug: (world := placed(fault), world.injected[0].truths[0])
    for slug, fault in FAULT_OF.items()
    if slug not in LABELLED
}

FURTHER: dict[str, tuple[SmallWorld, Truth]] = {
    "link/degrading by replays": (
        SmallWorld(topology=RAILS, replaying={"pod1-host2/mlx5_3": [(100, 500)]}),
        Truth(at(100), at(500), Condition.LINK_DEGRADING, "pod1-host2", "mlx5_3"),
    ),
    "link/degrading by symbols": (
        SmallWorld(topology=RAILS, corrupting={"pod1-host2/mlx5_3": [(100, 500)]}),
        Truth(at(100), at(500), Condition.LINK_DEGRADING, "pod1-host2", "mlx5_3"),
    ),
    "congestion/pfc-storm by waiting for credits": (
        SmallWorld(topology=LEAVES, waiting=STORM.pausing),
        Truth(at(100), at(400), Condition.CONGESTION_PFC_STORM, "pod1-host2", "mlx5_3"),
    ),
    "congestion/pfc-storm by stalled credits": (
        SmallWorld(topology=LEAVES, stalled={"pod1-host2/mlx5_3": [(100, 400)]}),
        Truth(at(100), at(400), Condition.CONGESTION_PFC_STORM, "pod1-host2", "mlx5_3"),
    ),
    "congestion/pfc-storm by a watchdog that is stuck": (
        SmallWorld(topology=LEAVES, stormed={"pod1-leaf4/Ethernet2/1": [(100, 1300)]}),
        Truth(at(100), at(1300), Condition.CONGESTION_PFC_STORM, "pod1-leaf4", "Ethernet2/1"),
    ),
    "congestion/incast by trimmed packets": (
        SmallWorld(topology=RAILS, trimming={"pod1-host2/mlx5_3": [(100, 400)]}),
        Truth(at(100), at(400), Condition.CONGESTION_INCAST, "pod1-host2", "mlx5_3"),
    ),
    "link/down with NVLinks of its host": (
        HostWorld(topology=RAILS, unlinked=UNLINKED.unlinked, down={"pod1-host2/mlx5_3": [(110, 400)]}),
        Truth(at(110), at(400), Condition.LINK_DOWN, "pod1-host2", "mlx5_3"),
    ),
    "link/down of a shared laser": (
        SmallWorld(topology=ONE_LASER, down={f"pod1-leaf4/Ethernet{port}/1": [(100, 500)] for port in (1, 2, 3)}),
        Truth(at(100), at(500), Condition.LINK_DOWN, "pod1-leaf4", "Ethernet1/1"),
    ),
    "link/degrading of a shared laser": (
        SmallWorld(topology=ONE_LASER, lossy={f"pod1-leaf4/Ethernet{port}/1": [(100, 500)] for port in (1, 2, 3)}),
        Truth(at(100), at(500), Condition.LINK_DEGRADING, "pod1-leaf4", "Ethernet1/1"),
    ),
}
"""Further faults of a detector, which it reports by other counters."""


@cache
def case_messages(slug: str) -> list[Message]:
    """Return all messages of a case, in order."""
    return in_order(recorded(LABELLED[slug][0], max(UNTIL_S, settled_s(slug))))


@cache
def case_findings(slug: str) -> list[Finding]:
    """Return all revisions that a backtest publishes."""
    return [one for one in play(case_messages(slug), LABELLED[slug][0].topology) if isinstance(one, Finding)]


def settled_s(slug: str) -> float:
    """Return when every finding of the fault is published: five minutes after it, or 15 where the laboratory has it."""
    world, truth = LABELLED[slug]
    return truth.end_ns / 1e9 - T0 + (900 if world.injected else 300)
