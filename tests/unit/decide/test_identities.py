"""Tests that what is out of service stays so under another name, and that a name which changed its meaning does not."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from streams.decide.stage import Decide
from streams.fabric.ids import Port
from streams.fabric.inventory import Inventory
from streams.fabric.topology import Topology
from streams.wire.models import (
    Action,
    Cause,
    Condition,
    Control,
    ControlAnswer,
    ControlEffect,
    ControlKind,
    Finding,
    Outcome,
    PortStates,
    Severity,
)
from streams.wire.models import RemediationState as State
from streams.wire.stage import Output
from tests.fixtures.decide_stage import (
    NO_CAPS,
    accept,
    answer,
    carry_out,
    deciding,
    decisions,
    finding,
    open_states,
    out_of_service,
    port_states,
    remediations,
    state_of,
)
from tests.worlds.observations import at
from tests.worlds.small_fabric import inventory

OLD = "link:p1-l0/u0--s1/p1-l0"
CORDON = {"severity": Severity.CRITICAL, "cause": Cause.GPU_OFF_BUS}


def fabric(
    devices: Mapping[str, str] | None = None, ports: Mapping[tuple[str, str], str] | None = None, *,
    has_ids: bool = True, has_link_ids: bool = False, without: str = "",
) -> Topology:  # fmt: skip
    """Return the small fabric with other names of devices and ports; `links.id` and `devices.id` are the first ones."""
    base, devices, ports = inventory(), devices or {}, ports or {}
    return Topology(Inventory(
        devices=tuple(
            one._replace(name=devices.get(one.name, one.name), id=f"id-{one.name}" if has_ids else "")
            for one in base.devices if one.name != without
        ),
        links=tuple(
            one._replace(
                a_device=devices.get(one.a_device, one.a_device), z_device=devices.get(one.z_device, one.z_device),
                a_port=ports.get((one.a_device, one.a_port), one.a_port),
                z_port=ports.get((one.z_device, one.z_port), one.z_port),
                id=f"{one.a}--{one.z}" if has_link_ids else "",
            )
            for one in base.links if without not in (one.a_device, one.z_device)
        ),
    ))  # fmt: skip


def staged(top: Topology, **changes: Any) -> Decide:
    stage = deciding(**{**NO_CAPS, **changes})
    stage.set_topology(top)
    return stage


U0 = {("p1-l0", "u0"): "eth9"}
RENAMES = {
    "a port, by its other end": (fabric(has_ids=False), fabric(ports=U0, has_ids=False), "link:p1-l0/eth9--s1/p1-l0"),
    "both ports, by links.id": (
        fabric(has_link_ids=True), fabric(ports={**U0, ("s1", "p1-l0"): "down9"}, has_link_ids=True),
        "link:p1-l0/eth9--s1/down9",
    ),
    "a device, by devices.id": (fabric(), fabric({"p1-l0": "leaf9"}), "link:leaf9/u0--s1/p1-l0"),
    "both devices, by devices.id": (fabric(), fabric({"p1-l0": "leaf9", "s1": "top9"}), "link:leaf9/u0--top9/p1-l0"),
    "a device without an id, by the other end": (
        fabric(has_ids=False), fabric({"p1-l0": "leaf9"}, has_ids=False), "link:leaf9/u0--s1/p1-l0",
    ),
    "two devices that exchange their names": (
        fabric(), fabric({"p1-l0": "p1-l1", "p1-l1": "p1-l0"}), "link:p1-l1/u0--s1/p1-l0",
    ),
}  # fmt: skip
"""The inventory before and after, and the present name of the link between p1-l0/u0 and s1."""


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("name", RENAMES)
def test_a_drained_link_is_out_of_service_under_its_new_name(name: str, restarts: bool) -> None:
    """It counted as carrying traffic, so that the next uplinks of its leaf were drained too."""
    before, after, now = RENAMES[name]
    stage = staged(before)
    (drain,) = decisions(stage, finding("p1-l0/u0"))
    carry_out(stage, drain)
    if restarts:
        following = deciding(states=False, loaded=False, **NO_CAPS)
        following.restore(stage.snapshot())
        found, stage = remediations(following.set_topology(after)), following
    else:
        found = remediations(stage.set_topology(after))
    assert out_of_service(stage) == [now]
    (moved,) = found
    assert (moved.id, moved.state, moved.target.id, moved.target.former_ids) == (drain.id, State.DRAINED, now, (OLD,))
    stage.process([Control("back", ControlKind.RETURNED, now, actor="anna")])
    assert (out_of_service(stage), open_states(stage)) == ([], {drain.id: State.PROBATION})
    assert list(state_of(stage)["isolations"]["started_ns"]) == [now], "the budget too"


def port_states_of(top: Topology, device: str) -> PortStates:
    ports = tuple(end.port for link in top.links_of[device] for end in (link.lower, link.upper) if end.device == device)
    return replace(
        port_states("p1-l0"), device=device, ports=ports, states=b"\1" * len(ports), changed=(), since_ns=()
    )  # fmt: skip


def subject_of(top: Topology, link_id: str, opened: Finding) -> Finding:
    link = top.links[link_id]
    ends = (replace(end, device=port.device, port=port.port) for end, port in zip(
        (opened.subject.a, opened.subject.z), (link.lower, link.upper), strict=True) if end is not None)  # fmt: skip
    a, z = ends
    return replace(opened, subject=replace(opened.subject, id=link.id, a=a, z=z))


@pytest.mark.parametrize("confidence", [0.95, 0.6])
def test_what_no_automation_accepted_is_revoked(confidence: float) -> None:
    """It names a target that has another name, or a name that has another target."""
    stage = staged(fabric())
    (known,) = decisions(stage, finding("p1-l0/u0", confidence=confidence))
    found = remediations(stage.set_topology(fabric({"p1-l0": "p1-l1", "p1-l1": "p1-l0"})))
    assert [one.id for one in found] == [known.id] * len(found) and found[-1].state is State.CLOSED
    assert out_of_service(stage) == []
    late = accept(stage, known)
    assert [one.state for one in late] == ([State.NO_ANSWER] if confidence == 0.95 else [])


def test_the_open_repair_of_a_renamed_link_is_ordered_again_with_its_name() -> None:
    """Automation that accepts the former order would act on another link."""
    stage = staged(fabric())
    (drain,) = decisions(stage, finding("p1-l0/u0"))
    carry_out(stage, drain)
    (order,) = remediations(stage.advance_watermark(at(11)))
    found = remediations(stage.set_topology(fabric({"p1-l0": "leaf9"})))
    assert [(one.id, one.state) for one in found] == [(order.id, State.DENIED), (drain.id, State.DRAINED)]
    (again,) = remediations(stage.advance_watermark(at(12)))
    assert (again.action, again.target.id) == (Action.REPAIR_LINK, "link:leaf9/u0--s1/p1-l0")


def test_a_host_that_takes_the_name_of_a_cordoned_one_is_another_host() -> None:
    """The cordoned host left, and another one has its name; when it returns it is still cordoned."""
    stage = staged(fabric())
    (waiting,) = decisions(stage, finding("p1-h1", Condition.HOST_GPU_FAULT, **CORDON))
    (cordon,) = remediations(
        stage.process([Control("ok", ControlKind.APPROVE, waiting.id, actor="anna", endless=True)])
    )
    carry_out(stage, cordon)
    stage.set_topology(fabric({"p1-h2": "p1-h1"}, without="p1-h1"))
    assert out_of_service(stage) == ["device:p1-h1#id-p1-h1"]
    stage.advance_watermark(at(20))
    assert open_states(stage)[cordon.id] is State.ESCALATED
    stage.set_topology(fabric({"p1-h1": "h7"}))
    assert out_of_service(stage) == ["device:h7"]


def restored(stage: Decide, after: Topology, *, has_snapshot: bool, published: Sequence[Output] = ()) -> Decide:
    """Return a successor with the next inventory; without the snapshot it reads what was published."""
    following = deciding(states=False, loaded=False, **NO_CAPS)
    if has_snapshot:
        following.restore(stage.snapshot())
        following.set_topology(after)
    following.recover([] if has_snapshot else [one.message for one in published if one.message is not None])
    following.set_topology(after)
    return following


RENAMED = fabric({"p1-l0": "leaf9", "p1-h1": "h9"})
EXCHANGED = fabric({"p1-l0": "p1-l1", "p1-l1": "p1-l0", "p1-h1": "p1-h2", "p1-h2": "p1-h1"})


@pytest.mark.parametrize("kind", [ControlKind.EXCLUDE, ControlKind.MAINTENANCE])
@pytest.mark.parametrize("subject", ["device:p1-l0", "port:p1-l0/u0", OLD, "rail:p1-h1/0"])
@pytest.mark.parametrize("after", [RENAMED, EXCHANGED], ids=["renamed", "exchanged"])
@pytest.mark.parametrize("successor", ["none", "snapshot", "lost snapshot"])
def test_a_control_holds_for_its_subject_alone(
    kind: ControlKind, subject: str, after: Topology, successor: str
) -> None:
    """The inventory gave its subject another name meanwhile, and perhaps its name to another device."""
    stage = staged(fabric())
    published = stage.process([Control("x", kind, subject, at(0), actor="anna", endless=True)])
    if successor == "none":
        stage.set_topology(after)
    else:
        stage = restored(stage, after, has_snapshot=successor == "snapshot", published=published)
    stage.process([port_states_of(after, device) for device in after.links_of])
    own, other = ("p1-h1/e0", "p1-h2/e0") if subject.startswith("rail") else ("p1-l0/u0", "p1-l1/u0")
    found = [subject_of(after, renamed(after, port), finding(port)) for port in (own, other)]
    states = {one.finding_ids[0]: one.constraint for one in decisions(stage, *found, t=10)}
    assert states[found[0].id] == ("exclusion" if kind is ControlKind.EXCLUDE else "maintenance")
    assert states[found[1].id] not in ("exclusion", "maintenance")


def renamed(top: Topology, port: str) -> str:
    """Return the present id of the link at a port by its first name."""
    device, _, name = port.partition("/")
    present = next(one.name for one in top.devices.values() if one.id == f"id-{device}")
    return top.subject_id(Port(present, name))


def test_the_answer_to_a_control_has_the_present_name_of_its_subject() -> None:
    """A status shows it, and a command that ends it names it."""
    stage = staged(fabric())
    one = Control("x", ControlKind.EXCLUDE, "device:p1-l0", at(0), actor="anna", endless=True)
    stage.process([one])
    found = [o.message for o in stage.set_topology(EXCHANGED) if isinstance(o.message, ControlAnswer)]
    (moved,) = [answer.control for answer in found if answer.control is not None]
    assert moved == replace(one, subject_id="device:p1-l1")
    (refused,) = [o.message for o in stage.process([replace(one, at_ns=at(1))]) if isinstance(o.message, ControlAnswer)]
    assert (refused.effect, refused.reason) == (
        ControlEffect.REFUSED, "x is in effect for device:p1-l1, which had that name; end it first"
    )  # fmt: skip


@pytest.mark.parametrize("after", [RENAMED, EXCHANGED], ids=["renamed", "exchanged"])
def test_a_drained_link_that_was_renamed_while_the_snapshot_was_lost_is_out_of_service(after: Topology) -> None:
    """Its published revisions have the identity of their target."""
    stage = staged(fabric())
    opened = finding("p1-l0/u0")
    published = [*stage.process([opened]), *stage.advance_watermark(at(10))]
    for outcome in (Outcome.ACCEPTED, Outcome.DONE):
        published += stage.process([answer(remediations(published)[0], outcome)])
    assert out_of_service(restored(stage, after, has_snapshot=False, published=published)) == [
        renamed(after, "p1-l0/u0")
    ]
