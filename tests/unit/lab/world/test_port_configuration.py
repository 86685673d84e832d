"""Tests the effects of configuration on the demo's world: ports that are shut, and traffic that moves."""

from itertools import pairwise

import pytest

from lab.world import demo_fabric
from lab.world.demo_fabric import DemoShape
from lab.world.demo_links import PortState
from lab.world.demo_world import DemoWorld
from lab.world.effects import Interval
from lab.world.faults.links import Degrading, LinkDown
from lab.world.ground_truth import AnyFault
from lab.world.port_configuration import DRAIN_POLICY, INITIAL, Setting
from streams.fabric.catalogue import Metric
from streams.fabric.ids import Port
from streams.fabric.inventory import Link

T = 1_700_000_000_000_000_000
S = 1_000_000_000
INVENTORY = demo_fabric.inventory(DemoShape(pods=1, hosts=1), T)
LINK, *OTHERS = [link for link in INVENTORY.links if link.a_device == "pod1-leaf1"]
POLICY_SETTINGS = (Setting.IMPORT_POLICY, Setting.EXPORT_POLICY)


def world(*faults: AnyFault) -> DemoWorld:
    return DemoWorld(INVENTORY, faults, 1, T)


def drain(simulated: DemoWorld, link: Link, at_ns: int) -> None:
    for end in (link.a, link.z):
        for setting in POLICY_SETTINGS:
            simulated.configure(end, setting, (DRAIN_POLICY,), at_ns)


def restore(simulated: DemoWorld, link: Link, at_ns: int) -> None:
    for end in (link.a, link.z):
        for setting in POLICY_SETTINGS:
            simulated.configure(end, setting, INITIAL[setting], at_ns)


def port(simulated: DemoWorld, end: Port, at_s: float) -> PortState:
    return simulated.port(end.device, end.port, T + int(at_s * S))


def rate(simulated: DemoWorld, end: Port, from_s: float, until_s: float) -> float:
    """Return the bytes a second that a port sends in an interval."""
    return (port(simulated, end, until_s).tx_bytes - port(simulated, end, from_s).tx_bytes) / (until_s - from_s)


def total(simulated: DemoWorld, from_s: float, until_s: float) -> float:
    return sum(rate(simulated, link.a, from_s, until_s) for link in (LINK, *OTHERS))


def test_a_drained_link_is_idle_and_up_and_its_traffic_is_on_the_others() -> None:
    """All traffic of the switch is still sent, in both directions, and returns with the policy."""
    simulated = world()
    before = total(simulated, 0, 10)
    share = rate(simulated, LINK.a, 0, 10) / len(OTHERS)
    usual = rate(simulated, OTHERS[0].a, 0, 10)
    drain(simulated, LINK, T + 20 * S)
    assert rate(simulated, LINK.a, 20, 30) == rate(simulated, LINK.z, 20, 30) == 0
    assert rate(simulated, OTHERS[0].a, 20, 30) == pytest.approx(usual + share, rel=1e-6)
    assert rate(simulated, OTHERS[0].z, 20, 30) > rate(simulated, OTHERS[0].z, 0, 10)
    assert total(simulated, 20, 30) == pytest.approx(before, rel=1e-6)
    state = port(simulated, LINK.a, 30)
    assert (state.admin_up, state.oper_up, state.transitions) == (True, True, 0)
    restore(simulated, LINK, T + 40 * S)
    assert rate(simulated, LINK.a, 40, 50) == pytest.approx(share * len(OTHERS), rel=1e-6)
    assert rate(simulated, OTHERS[0].a, 40, 50) == pytest.approx(usual, rel=1e-6)


@pytest.mark.parametrize(
    ("end", "setting", "idle"),
    [
        (LINK.a, Setting.IMPORT_POLICY, LINK.a), (LINK.z, Setting.EXPORT_POLICY, LINK.a),
        (LINK.z, Setting.IMPORT_POLICY, LINK.z), (LINK.a, Setting.EXPORT_POLICY, LINK.z),
    ],
)  # fmt: skip
def test_a_policy_moves_one_direction(end: Port, setting: Setting, idle: Port) -> None:
    """Routes are learned against the direction of the traffic: an import policy idles the own port, export the far."""
    simulated = world()
    simulated.configure(end, setting, (DRAIN_POLICY,), T)
    other = LINK.z if idle == LINK.a else LINK.a
    assert rate(simulated, idle, 1, 9) == 0 < rate(simulated, other, 1, 9)


def test_the_past_does_not_change_and_counters_never_decrease() -> None:
    """A reading of before a change is equal after it, in the world and at each counter."""
    simulated = world(Degrading(LINK, LINK.a, Interval(T, T + 60 * S), 1e-4, 1e-6))
    earlier = [port(simulated, link.a, 10) for link in (LINK, *OTHERS)]
    drain(simulated, LINK, T + 20 * S)
    simulated.configure(LINK.a, Setting.ENABLED, False, T + 30 * S)
    simulated.configure(LINK.a, Setting.ENABLED, True, T + 40 * S)
    restore(simulated, LINK, T + 50 * S)
    assert [port(simulated, link.a, 10) for link in (LINK, *OTHERS)] == earlier
    for link in (LINK, *OTHERS):
        readings = [port(simulated, link.a, at_s).counters for at_s in range(60)]
        for before, after in pairwise(readings):
            assert all(after[column] >= value for column, value in before.items())


def test_a_disabled_port_takes_both_ends_down_and_only_itself_administratively() -> None:
    """The far end has no signal; both count the transitions; no bad frame is counted."""
    simulated = world()
    changed = simulated.configure(LINK.a, Setting.ENABLED, False, T + 5 * S)
    assert changed == (LINK.a_device, LINK.z_device)
    near, far = port(simulated, LINK.a, 6), port(simulated, LINK.z, 6)
    assert (near.admin_up, near.oper_up, far.admin_up, far.oper_up) == (False, False, True, False)
    assert near.last_change_ns == far.last_change_ns == T + 5 * S
    assert total(simulated, 6, 9) == pytest.approx(total(simulated, 1, 4), rel=1e-6)
    simulated.configure(LINK.a, Setting.ENABLED, True, T + 10 * S)
    assert port(simulated, LINK.a, 11).oper_up and port(simulated, LINK.a, 11).transitions == 2
    assert port(simulated, LINK.a, 11).fcs_errors == 0


def test_traffic_remains_on_the_last_link_and_avoids_one_that_is_down() -> None:
    """The policy makes a link the last choice; a link without a signal is no choice."""
    simulated = world(LinkDown(OTHERS[0], Interval(T, T + 60 * S)))
    drain(simulated, LINK, T)
    assert rate(simulated, OTHERS[0].a, 1, 9) == 0 < rate(simulated, OTHERS[1].a, 1, 9)
    for link in OTHERS[1:]:
        drain(simulated, link, T + 10 * S)
    assert rate(simulated, LINK.a, 11, 19) == pytest.approx(rate(world(), LINK.a, 11, 19), rel=1e-6)


def test_bit_errors_are_counted_on_an_idle_link() -> None:
    """Codewords are sent without traffic, so a drained link can be measured; frames with errors need traffic."""
    simulated = world(Degrading(LINK, LINK.a, Interval(T, T + 60 * S), 1e-4, 1e-6))
    drain(simulated, LINK, T + 20 * S)
    first, last = port(simulated, LINK.a, 21), port(simulated, LINK.a, 31)
    assert last.corrected_bits > first.corrected_bits
    assert last.counter(Metric.RX_FCS_ERRORS) == first.counter(Metric.RX_FCS_ERRORS)
