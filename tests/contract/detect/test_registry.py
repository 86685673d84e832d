"""Every detector that there is has its module, its page, its runbook, and a labelled case in which it fires."""

import importlib
import pkgutil
from pathlib import Path

import pytest

import streams.detect
from collectors.sim import clos
from collectors.sim.clos import Shape
from streams.fabric.topology import Topology
from streams.replay.score import Truth, score
from streams.wire.models import Condition, Finding
from tests.unit.detect.chain import World, play, recorded
from tests.unit.detect.parts import RECOVERED, HostWorld
from tests.unit.detect.seen import at
from tests.unit.detect.told import ToldWorld

ROOT = Path(__file__).parents[3]
MODULES = {
    module.SLUG: module
    for name in (info.name for info in pkgutil.iter_modules(streams.detect.__path__) if not info.ispkg)
    if hasattr(module := importlib.import_module(f"streams.detect.{name}"), "SLUG")
}
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
    "link/miscabled": (SWAPPED, Truth(at(100), at(700), Condition.LINK_MISCABLED, "p1-h1", "e0")),
    "fleet/version-drift": (OLD, Truth(at(100), at(900), Condition.FLEET_VERSION_DRIFT, "pod1-host3", "")),
    "device/down": (REBOOT, Truth(at(100), at(220), Condition.DEVICE_DOWN, "s1", "")),
    "telemetry/stale": (UNREAD, Truth(at(100), at(400), Condition.TELEMETRY_STALE, "p1-l0", "")),
}


def test_every_detector_has_a_labelled_case() -> None:
    """A module that concludes something without a case here could be one that never fires."""
    assert set(MODULES) == set(LABELLED)


@pytest.mark.parametrize("slug", LABELLED)
def test_it_fires_in_its_case_and_invents_nothing(slug: str) -> None:
    """The labelled fault is found, by this detector, and nothing else is said that would count."""
    world, truth = LABELLED[slug]
    said = [f for f in play(recorded(world, 1200), world.top) if isinstance(f, Finding)]
    own = score(said, [truth])
    assert (own.precision, own.recall) == (1.0, 1.0)
    assert slug in {f.detector for f in said}


@pytest.mark.parametrize("slug", LABELLED)
def test_its_name_is_that_of_its_condition_and_of_its_module(slug: str) -> None:
    """Slug, enum and file differ only by case and punctuation."""
    module = MODULES[slug]
    assert module.__name__ == f"streams.detect.{slug.replace('/', '_').replace('-', '_')}"
    assert slug in {condition.slug for condition in Condition if condition}
    assert module.__doc__ is not None and module.__doc__.startswith(f"{slug}: ")


@pytest.mark.parametrize("slug", LABELLED)
def test_it_has_a_page_and_a_runbook_that_name_it(slug: str) -> None:
    """The runbook is what every finding of it links to; the page says how it concludes."""
    name = f"{slug.replace('/', '-')}.md"
    for page in (ROOT / "docs/runbooks" / name, ROOT / "docs/detectors" / name):
        assert page.is_file(), page
        assert slug in page.read_text(encoding="utf-8"), page
