"""path/loss by sessions: a BFD or BGP session that is down over a link that is up; negative cases first."""

from collections.abc import Sequence

import pytest

from streams.detect.evidence.link_history import LinkHistory
from streams.detect.evidence.port_faults import session_downs
from streams.detect.evidence.subjects import port_subject
from streams.fabric.catalogue import Metric
from streams.fabric.ids import Port
from streams.wire.models import Condition, Finding, Samples, Source, Status, Symptom
from streams.wire.symptoms import Fault, PortFault, SourceSilence
from tests.worlds.observations import GNMI, after, at, correlated, down, last, off, on, restarted, samples, up
from tests.worlds.small_fabric import inventory, topology
from tests.worlds.small_world import findings, play

LEAF, SPINE = "p1-l0/u0", "s1/p1-l0"
"""Both ends of an uplink."""
OTHER = "p1-l0/u1"


def session(
    port: str, t: float, *, back: bool = False, kind: Fault = Fault.BFD_SESSION_DOWN, since: float | None = None
) -> Symptom:
    """Return a change of a session, which a reading ten seconds before did not show; since 0: the first reading."""
    device, _, name = port.partition("/")
    since_ns = at(t - 10 if since is None else since) if since != 0 else 0
    return Symptom(device, name, PortFault(kind, is_over=back), at(t), since_ns, source=Source.SOURCE_GNMI)


def losses(symptoms: Sequence[Symptom], until: float = 3600) -> list[Finding]:
    """Return all revisions of path/loss."""
    return [one for one in correlated(symptoms, until) if one.condition is Condition.PATH_LOSS]


NONE: dict[str, list[Symptom]] = {
    "back within a minute": [session(LEAF, 200), session(LEAF, 259, back=True)],
    "a first reading": [session(LEAF, 200, since=0)],
    "the link is down": [down(LEAF, 205), session(LEAF, 200), up(LEAF, 500), session(LEAF, 560, back=True)],
    "the far end of the link is down": [session(LEAF, 200), down(SPINE, 210), up(SPINE, 500),
                                        session(LEAF, 600, back=True)],
    "the port is shut": [off(SPINE, 195), session(LEAF, 200), on(SPINE, 400), session(LEAF, 500, back=True)],
    "the device restarts, and does not answer meanwhile": [
        session(LEAF, 200), Symptom("s1", "", SourceSilence(False), at(230), source=GNMI),
        restarted("s1", 300, 195), session(LEAF, 400, back=True)],
    "all sessions of the device end: its routing restarts": [
        session(LEAF, 200), session(OTHER, 203), session(LEAF, 400, back=True), session(OTHER, 400, back=True)],
    "a device that is not read": [
        Symptom("s1", "", SourceSilence(False), at(190), source=GNMI), session(LEAF, 200)],
}  # fmt: skip


@pytest.mark.parametrize("symptoms", NONE.values(), ids=NONE)
def test_what_is_no_silent_link(symptoms: Sequence[Symptom]) -> None:
    """The link, a restart, an administrator or the routing explain the session."""
    assert losses(symptoms) == []


def test_a_session_that_is_down_over_a_link_that_is_up_is_found() -> None:
    """It opens after a minute, names both ends, and resolves when the session is up."""
    revisions = losses([session(LEAF, 200), session(SPINE, 201), session(LEAF, 500, back=True),
                        session(SPINE, 501, back=True)])  # fmt: skip
    (final,) = last(revisions)
    assert (final.status, final.final, final.cause.label) == (Status.RESOLVED, True, "unknown")
    assert (after(final.started_at_ns), after(final.resolved_at_ns)) == (200, 501)
    assert after(revisions[0].detected_at_ns) == 260
    assert "is up, but its BFD session is down" in final.summary
    assert [one.metric for one in final.evidence] == ["bfd_session_up"] * 2


def test_a_session_that_stays_down_for_days_is_one_finding() -> None:
    """Its begin outlives the history of the link."""
    found = losses([session(LEAF, 200, kind=Fault.BGP_SESSION_DOWN)], until=3 * 86_400)
    assert len({one.id for one in found}) == 1
    assert {one.status for one in found} <= {Status.OPEN, Status.UPDATED}


def test_a_session_that_was_down_at_first_went_not_down() -> None:
    """Only a change is one."""
    history = LinkHistory(port_subject(topology(), Port(*LEAF.split("/"))))
    history.add(session(LEAF, 200, since=0))
    assert list(session_downs(history)) == []
    history.add(session(LEAF, 300, back=True))
    history.add(session(LEAF, 400))
    assert [begin for begin, _ in session_downs(history)] == [at(400)]


def readings(until: int = 900) -> list[Samples]:
    """Return readings of the leaf, whose session over the uplink is down from 200 to 500 s."""
    ports = [link.lower.port if link.lower.device == "p1-l0" else link.upper.port
             for link in topology().links_of["p1-l0"]]  # fmt: skip
    return [
        samples("p1-l0", t, {
            Metric.OPER_UP: dict.fromkeys(ports, 1.0), Metric.ADMIN_UP: dict.fromkeys(ports, 1.0),
            Metric.BFD_SESSION_UP: {port: float(not (port == "u0" and 200 <= t < 500)) for port in ports},
        })
        for t in range(0, until, 10)
    ]  # fmt: skip


def test_all_stages_find_it_from_the_gauge() -> None:
    """From the readings of one end to a finding of the link."""
    (found,) = findings(play(readings(), topology()))
    assert (found.condition, found.status) == (Condition.PATH_LOSS, Status.RESOLVED)


def test_a_session_that_stays_down_after_a_maintenance_is_paged() -> None:
    """It is shadow until the maintenance of one end is over."""
    known = topology(inventory(maintenance=["p1-l0"], until="1970-01-12T13:53:20Z"))
    revisions = [one for one in play(readings(), known) if isinstance(one, Finding)]
    assert {one.condition for one in revisions} == {Condition.PATH_LOSS}
    assert [revisions[0].shadow, revisions[-1].shadow] == [True, None]


def test_the_address_of_a_neighbor_is_resolved_to_the_port_that_leads_to_it() -> None:
    """As a BGP session names it; an address that the inventory does not have stays as it is."""
    plain = topology()
    assert plain.resolve_port("p1-l0", "10.9.9.9") == Port("p1-l0", "10.9.9.9")
    plain.addresses["10.0.0.1"] = Port("s1", "p1-l0")
    link = plain.link_at(Port("s1", "p1-l0"))
    assert link is not None
    assert plain.resolve_port(link.lower.device, "10.0.0.1") == link.lower
    assert plain.resolve_port("p2-l1", "10.0.0.1") == Port("p2-l1", "10.0.0.1")
