"""The pages of congestion/pfc-storm where switches alone are polled every 30 s: only the root pages."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from lab.world import demo_fabric
from lab.world.demo_fabric import DemoShape
from streams.fabric.catalogue import Metric
from streams.fabric.topology import Topology
from streams.wire.models import Message
from tests.worlds.observations import SNMP, Cells, after, at, samples
from tests.worlds.paging import PagedPipeline, PublishedFindings

SPEED = 400e9
TOP = Topology(demo_fabric.inventory(DemoShape(pods=2, hosts=3, planes=1, spines=1, uplinks=1), at(0)))
LEAF, SPINE = "pod1-leaf4", "spine1"
BEGIN_S, UNTIL_S = 95, 400
ROOT, HOST_PORT = "link:pod1-host2/mlx5_3--pod1-leaf4/Ethernet2/1", "Ethernet2/1"
(UPLINK,) = (link for link in TOP.uplinks_of[LEAF])


@dataclass(frozen=True)
class Port:
    """A port of a switch in the storm: the pause that it counts, and the share of its speed that it carried before."""

    name: str
    is_paused: bool
    load: float = 0.5


def polls(switch: str, phase_s: float, *ports: Port) -> Iterator[tuple[float, Message]]:
    """Yield (arrival, reading) of a switch every 30 s; the storm begins at BEGIN_S and goes on."""
    for step in range(int((UNTIL_S - phase_s) // 30) + 1):
        t = phase_s + 30 * step
        storm_s = max(0.0, t - BEGIN_S)
        cells: dict[tuple[Metric, int], dict[str, float | None]] = {}
        for port in ports:
            pause, octets = (
                (Metric.PFC_RX_FRAMES, Metric.TX_BYTES) if port.is_paused else (Metric.PFC_TX_FRAMES, Metric.RX_BYTES)
            )
            cells.setdefault((pause, 3), {})[port.name] = 12_000 * storm_s
            cells.setdefault((octets, -1), {})[port.name] = port.load * SPEED / 8 * (1e6 + t - storm_s)
            cells.setdefault((Metric.SPEED_BPS, -1), {})[port.name] = SPEED
        indexed: Cells = dict(cells)
        yield t + 0.5, samples(switch, t, {}, source=SNMP, indexed=indexed, sequence=step)


def published(readings: Mapping[str, tuple[float, tuple[Port, ...]]]) -> PublishedFindings:
    """Return what the stages and the notifier publish."""
    messages = [one for switch, (phase_s, ports) in readings.items() for one in polls(switch, phase_s, *ports)]
    return PagedPipeline(TOP).run(messages, UNTIL_S)


PAUSED_BY_HOST = Port(HOST_PORT, is_paused=True)
ROOT_SHOWS_LATER: dict[str, dict[str, tuple[float, tuple[Port, ...]]]] = {
    "the switch that the root pauses is polled after the one beyond it": {
        SPINE: (10.0, (Port(UPLINK.upper.port, is_paused=True),)),
        LEAF: (29.0, (PAUSED_BY_HOST, Port(UPLINK.lower.port, is_paused=False))),
    },
    "the root's port carried traffic in the rest of the interval, an idle port did not": {
        LEAF: (0.0, (PAUSED_BY_HOST, Port("Ethernet1/1", is_paused=False, load=0.0))),
    },
}


@pytest.mark.parametrize("case", ROOT_SHOWS_LATER)
def test_a_port_that_shows_the_storm_before_its_root_does_not_page(case: str) -> None:
    """The finding opens before the root's, and becomes its child before it is CRITICAL."""
    found = published(ROOT_SHOWS_LATER[case])
    (child,) = (finding for finding in found.last if finding.subject.id != ROOT)
    (root,) = found.paged
    assert (root.subject.id, child.parent_id) == (ROOT, root.id)
    assert (after(child.detected_at_ns) or 0) < (after(root.detected_at_ns) or 0)


def test_a_switch_that_pauses_and_is_not_paused_pages_one_interval_later() -> None:
    """No other port of it is paused, so it is the root: it pages after the next interval and the hold time."""
    found = published({LEAF: (0.0, (Port("Ethernet1/1", is_paused=False),))})
    (root,) = found.paged
    assert (root.parent_id, root.detected_at_ns) == ("", at(150))
    assert 180 + 15 <= found.pages[root.id] <= 180 + 30 + 15


def test_the_storm_of_a_host_pages_after_the_hold_time() -> None:
    """A host's own link is paused by no other device: its storm needs no further reading."""
    found = published({LEAF: (0.0, (PAUSED_BY_HOST,))})
    (root,) = found.paged
    assert 150 + 15 <= found.pages[root.id] <= 150 + 17
