"""Tests which links are proven to carry traffic, from the states of the ports at both ends."""

from dataclasses import replace

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.decide import link_states, port_states_snapshot
from streams.decide.link_states import CONTRADICTORY, ONE_SIDED, Block, LinkMessage, LinkStates
from streams.fabric.inventory import Inventory, PortName
from streams.fabric.topology import Topology
from streams.wire.errors import Reject
from streams.wire.models import PortQuality, PortReadings, PortStates, ReadingsHeartbeat, Source
from tests.worlds.observations import GNMI, SNMP, at
from tests.worlds.small_fabric import inventory, topology

TOP = topology()
LINK = TOP.uplinks_of["p1-l0"][0]
HOST_LINK = TOP.uplinks_of["p1-h1"][0]
UP, DOWN, OFF, UNREAD = 1, 2, 3, 0


def ports_of(device: str) -> tuple[str, ...]:
    return tuple(end.port for link in TOP.links_of[device] for end in (link.lower, link.upper) if end.device == device)


def states(
    device: str, t: float = 0, source: Source = GNMI, shard: int = 0, silent: float = 0, **changed: int
) -> PortStates:
    """All ports of a device up, but for those that are given; `_` in a name of a port stands for `-`."""
    ports = ports_of(device)
    given = {name.replace("_", "-"): state for name, state in changed.items()}
    codes = bytes(given.get(port, UP) for port in ports)
    moved = tuple(i for i, port in enumerate(ports) if port in given)
    return PortStates(
        device, source, shard, at(t), at(silent) if silent else 0, at(0), ports, codes, moved, (at(t),) * len(moved)
    )


def made(*messages: LinkMessage, t: float = 10, top: Topology = TOP, accept_unread_hosts: bool = False) -> LinkStates:
    own = LinkStates(accept_unread_hosts=accept_unread_hosts)
    own.set_topology(top)
    for message in messages:
        own.update(message)
    own.advance(at(t))
    return own


def test_a_link_carries_only_if_both_ends_are_observed_up() -> None:
    """One end, none, or a link that the inventory does not know is no proof."""
    assert made(states("p1-l0"), states("s1")).carries(LINK.id)
    one = made(states("p1-l0"))
    assert (one.carries(LINK.id), one.evidence_gap(LINK.id)) == (False, (ONE_SIDED, ""))
    assert one.why_not(LINK.id) == "s1/p1-l0 is not observed"
    assert not made().carries(LINK.id)
    assert not made(states("p1-l0"), states("s1")).carries("link:unknown")
    assert made().why_not("link:unknown") == "the inventory does not know the link"


@pytest.mark.parametrize(
    ("state", "block", "why"),
    [(DOWN, Block.DOWN, "is down"), (OFF, Block.ADMIN_DOWN, "is administratively down"),
     (UNREAD, Block.NOT_OBSERVED, "is not observed")],
)  # fmt: skip
def test_one_end_that_is_not_up_blocks_the_link(state: int, block: Block, why: str) -> None:
    """It is no capacity, and the reason names the end."""
    own = made(states("p1-l0"), states("s1", t=5, p1_l0=state))
    assert own.blocked[LINK.id] is block
    assert own.why_not(LINK.id) == f"s1/p1-l0 {why}"
    own.update(states("s1", t=7))
    assert own.carries(LINK.id)


def test_a_silent_source_proves_nothing_and_another_live_one_does() -> None:
    """A device that is not read any more is stale, unless another source reads it."""
    own = made(states("p1-l0"), states("s1", t=9, silent=5))
    assert own.blocked[LINK.id] is Block.STALE
    assert (own.observed_ns("s1"), own.observed_ns("p1-l0"), own.observed_ns("s2")) == (at(5), at(0), None)
    own.update(states("s1", source=SNMP))
    assert own.carries(LINK.id)
    own.update(states("s1", t=9, source=SNMP, p1_l0=DOWN))
    assert own.blocked[LINK.id] is Block.DOWN


def test_live_sources_that_disagree_do_not_prove_that_a_port_is_up() -> None:
    """One that reads the port down blocks it, and the evidence is contradictory; one that does not read it abstains."""
    both = made(states("p1-l0"), states("s1"), states("s1", source=SNMP, p1_l0=UNREAD))
    assert (both.carries(LINK.id), both.evidence_gap(LINK.id)) == (True, ("", ""))
    both.update(states("s1", t=1, source=SNMP, p1_l0=DOWN))
    assert (both.carries(LINK.id), both.evidence_gap(LINK.id)) == (False, (CONTRADICTORY, "port s1/p1-l0"))
    both.update(states("s1", t=2, p1_l0=DOWN))
    assert both.evidence_gap(LINK.id) == (CONTRADICTORY, "port s1/p1-l0")
    both.update(ReadingsHeartbeat(0, at(60)))
    both.advance(at(60))
    assert both.evidence_gap(LINK.id) == ("", "")


@pytest.mark.parametrize("agent", [Source.SOURCE_NIC, Source.SOURCE_HOST, Source.SOURCE_PROBE])
def test_an_agent_of_a_host_is_no_evidence_about_a_switch(agent: Source) -> None:
    """A link between switches needs a source of each switch itself; the end of a host may be read by its agent."""
    assert made(states("p1-l0"), states("s1", source=agent)).evidence_gap(LINK.id) == (ONE_SIDED, "")
    assert made(states("p1-h1", source=agent), states("p1-l0")).evidence_gap(HOST_LINK.id) == ("", "")


def test_a_shard_without_heartbeats_is_stale() -> None:
    """Its devices count no more after `fresh_s`, and again with the next heartbeat; others are not affected."""
    own = made(states("p1-l0"), states("s1", shard=1), states("s2", shard=0))
    own.update(ReadingsHeartbeat(0, at(40)))
    own.advance(at(31))
    assert own.blocked[LINK.id] is Block.STALE
    assert own.carries(TOP.uplinks_of["p1-l0"][1].id)
    own.update(ReadingsHeartbeat(1, at(30)))
    assert own.carries(LINK.id)
    assert own.observed_ns("s1") == at(30)


def test_older_states_change_nothing() -> None:
    """Messages that a restart of `measure` repeats do not replace later ones."""
    own = made(states("p1-l0"), states("s1", t=5, p1_l0=DOWN), states("s1", t=0))
    assert own.blocked[LINK.id] is Block.DOWN


def test_a_host_without_a_collector_needs_the_setting() -> None:
    """With it the switch's end alone proves, one-sided; a host that was read once needs to be read."""
    assert not made(states("p1-l0")).carries(HOST_LINK.id)
    own = made(states("p1-l0"), accept_unread_hosts=True)
    assert (own.carries(HOST_LINK.id), own.evidence_gap(HOST_LINK.id)) == (True, (ONE_SIDED, ""))
    assert not own.carries(LINK.id), "the setting is for hosts"
    assert (own.observed_ns("p1-h1"), own.observed_ns("s1")) == (None, None)
    own.update(states("p1-l1", t=2))
    assert own.observed_ns("p1-h1") == at(0), "as of the switches at its links"
    own.update(states("p1-h1", t=1, silent=1))
    assert (own.carries(HOST_LINK.id), own.blocked[HOST_LINK.id]) == (False, Block.STALE)


def test_a_port_that_a_source_names_otherwise_is_found() -> None:
    """The inventory's aliases join the names."""
    top = topology(inventory(ports=[PortName("s1", "p1-l0", "Ethernet1")]))
    own = made(states("p1-l0"), top=top)
    own.update(replace(states("s1"), ports=("Ethernet1", "other", "a", "b")))
    assert own.carries(LINK.id)


def test_another_inventory_is_joined_again_and_other_jobs_are_not() -> None:
    """States that came before the inventory named the device are kept."""
    own = LinkStates()
    own.update(states("p1-l0"))
    own.update(states("s1"))
    assert not own.carries(LINK.id)
    own.set_topology(TOP)
    assert own.carries(LINK.id)
    blocked = own.blocked
    own.set_topology(TOP.with_jobs(()))
    assert own.blocked is blocked
    own.set_topology(Topology(Inventory()))
    assert (own.carries(LINK.id), own.blocked) == (False, {})


def test_devices_that_the_inventory_does_not_name_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those whose states changed last the longest ago are dropped; devices of the inventory never are."""
    monkeypatch.setattr(link_states, "MAX_UNKNOWN", 8)
    own = made(states("p1-l0"), states("s1"))
    for number in range(100):
        own.update(replace(states("s1", t=number), device=f"unknown-{number}"))
    assert own.carries(LINK.id)
    assert sum(own.observed_ns(f"unknown-{number}") is not None for number in range(100)) <= 8
    assert own.observed_ns("unknown-99") is not None


def _readings(port: str, begin: int, end: int, errors: float) -> PortReadings:
    return PortReadings(port, at(begin), at(end), 4e11 * (end - begin), 5e-6, 1e-8, None, errors)


def test_a_link_qualifies_by_both_ends() -> None:
    """Without readings of one end it does not; the speed of the inventory stands in for bits that are not counted."""
    minutes = [(60 * n, 60 * (n + 1)) for n in range(15)]
    own = made(states("p1-l0"), states("s1"), ReadingsHeartbeat(0, at(960)), t=960)
    for begin, end in minutes:
        own.update(PortQuality("p1-l0", GNMI, (_readings("u0", begin, end, 0),)))
    assert own.doubts(LINK.id) == ["s1/p1-l0: no counter of errors and no BER is read"]
    for begin, end in minutes:
        own.update(PortQuality("s1", GNMI, (_readings("p1-l0", begin, end, 0),)))
    assert not own.doubts(LINK.id)
    own.update(states("s1", t=961))
    assert not own.doubts(LINK.id)
    own.update(states("s1", t=962, p1_l0=UP))
    assert own.doubts(LINK.id), "a transition begins the time again"
    assert own.doubts("link:unknown")


messages = st.lists(
    st.one_of(
        st.builds(
            lambda device, t, source, shard, silent, state, n: states(
                device, t, source, shard, silent, **{ports_of(device)[n % 2].replace("-", "_"): state}
            ),
            st.sampled_from(["p1-l0", "s1", "p1-h1", "p2-l1"]), st.integers(0, 300), st.sampled_from([GNMI, SNMP]),
            st.integers(0, 1), st.sampled_from([0, 0, 0, 7]), st.integers(0, 3), st.integers(0, 3),
        ),
        st.builds(ReadingsHeartbeat, st.integers(0, 1), st.integers(0, 300).map(at)),
        st.builds(
            lambda device, n, errors: PortQuality(
                device, GNMI, (_readings(ports_of(device)[0], 60 * n, 60 * n + 60, errors),)
            ),
            st.sampled_from(["p1-l0", "s1"]), st.integers(0, 30), st.sampled_from([0.0, 0.0, 1.0]),
        ),
        st.integers(0, 300),
    ),
    max_size=40,
)  # fmt: skip


def _apply(own: LinkStates, message: LinkMessage | int) -> None:
    if isinstance(message, int):
        own.advance(at(message))
    else:
        own.update(message)


def _shown(own: LinkStates) -> object:
    ids = sorted(TOP.links)
    return dict(own.blocked), [(own.why_not(i), own.evidence_gap(i), own.doubts(i)) for i in ids]


@settings(max_examples=60, deadline=None)
@given(messages, st.integers(0, 40), st.sampled_from([0, 1, 512]))
def test_a_snapshot_at_any_point_changes_nothing(sent: list[LinkMessage | int], cut: int, changes: int) -> None:
    """A successor that restores it shows the same as its predecessor, however many changes stand beside the parts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(port_states_snapshot, "_MAX_CHANGES", changes)
        _compare_with_successor(sent, cut)


@pytest.mark.parametrize("parts", [0, 63, 65])
def test_a_snapshot_without_all_parts_is_refused(parts: int) -> None:
    """It would be restored, and the next snapshot could not be written."""
    dumped = LinkStates().dump()
    with pytest.raises(Reject, match=f"{parts} parts"):
        LinkStates().load(dumped | {"sources": (dumped["sources"] * 2)[:parts]})


def _compare_with_successor(sent: list[LinkMessage | int], cut: int) -> None:
    own = LinkStates()
    own.set_topology(TOP)
    for message in sent[:cut]:
        _apply(own, message)
        assert own.dump() == own.dump()
    successor = LinkStates()
    successor.load(orjson.loads(orjson.dumps(own.dump())))
    successor.set_topology(TOP)
    assert successor.dump() == own.dump()
    for message in sent[cut:]:
        _apply(own, message)
        _apply(successor, message)
    assert _shown(successor) == _shown(own)


@settings(max_examples=60, deadline=None)
@given(messages)
def test_what_is_updated_step_by_step_is_what_all_links_evaluated_at_once_are(sent: list[LinkMessage | int]) -> None:
    """Reading `blocked` in between, which evaluates what changed so far, makes no difference."""
    stepwise, once = made(t=0), made(t=0)
    for message in sent:
        _apply(stepwise, message)
        _ = stepwise.blocked
        _apply(once, message)
    assert _shown(stepwise) == _shown(once)


def test_a_state_that_cannot_be_read_is_rejected() -> None:
    """Nothing at all is the state of a version without links."""
    LinkStates().load({})
    for data in ({"sources": ["x", "y"]}, {"now_ns": 1}, {"sources": 3}):
        with pytest.raises(Reject):
            LinkStates().load(data)
