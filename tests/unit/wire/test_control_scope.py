"""Tests which findings a control silences."""

import pytest

from streams.wire.control_scope import silencing_control
from streams.wire.models import BlastRadius, ControlKind, Endpoint, Subject
from tests.fixtures.notify_examples import LINK, T0, S, control, finding


@pytest.mark.parametrize("name", ["host-2", "device:leaf-9", "pod-2", "pod:pod-2", "plane:1", "f2", "link:x/y--z/w"])
def test_maintenance_elsewhere_silences_nothing(name: str) -> None:
    """Maintenance of another subject suppresses no page."""
    assert silencing_control(finding(), [control(ControlKind.MAINTENANCE, name)], T0) is None


@pytest.mark.parametrize(
    "name", [LINK, "host-1", "leaf-2", "device:leaf-2", "pod-1", "pod:pod-1", "plane:0", "f1", "", "old-name"]
)
def test_maintenance_of_an_endpoint_or_location_silences_the_link(name: str) -> None:
    """A link is in maintenance with its subject (now or formerly), either device, its pod, its plane, or everything."""
    subject = finding().subject
    moved = Subject(subject.id, subject.a, subject.z, pod="pod-1", plane=0, former_ids=("old-name",))
    assert silencing_control(finding(subject=moved), [control(ControlKind.MAINTENANCE, name)], T0)


@pytest.mark.parametrize("name", ["", LINK, "host-1", "f2"])
def test_an_acknowledgement_applies_to_one_finding_only(name: str) -> None:
    """An acknowledgement without a finding id, or of a location, does not stop paging there."""
    assert silencing_control(finding(), [control(ControlKind.ACKNOWLEDGE, name)], T0) is None
    assert silencing_control(finding(), [control(ControlKind.ACKNOWLEDGE, "f1")], T0)


@pytest.mark.parametrize("kind", [ControlKind.EXCLUDE, ControlKind.KILL_SWITCH, ControlKind.APPROVE])
def test_controls_of_actions_silence_nothing(kind: ControlKind) -> None:
    """The kill switch stops automation, not pages."""
    assert silencing_control(finding(), [control(kind, "f1"), control(kind, "")], T0) is None


@pytest.mark.parametrize(
    ("at_s", "until_s", "expected"),
    [(None, None, True), (0, 10, True), (-10, 0, False), (1, 10, False), (-20, -10, False), (None, 1, True)],
)
def test_a_control_is_active_from_its_time_until_its_end(at_s: int | None, until_s: int | None, expected: bool) -> None:
    """The begin is included, the end is not; an end in the past means that the control was ended."""
    at_ns, until_ns = (None if s is None else T0 + s * S for s in (at_s, until_s))
    assert (
        silencing_control(finding(), [control(ControlKind.MAINTENANCE, "host-1", at_ns, until_ns)], T0) is not None
    ) is expected


@pytest.mark.parametrize(
    ("name", "jobs", "expected"),
    [("job:a", ("a",), True), ("job:a", ("a", "b"), False), ("rail:3", (), True), ("rail:h1/3", (), True),
     ("port:h1/e0", (), True), ("rail:4", (), False)],
)  # fmt: skip
def test_a_maintenance_of_a_rail_a_port_or_a_job_silences(name: str, jobs: tuple[str, ...], expected: bool) -> None:
    """A finding that affects another job as well still pages."""
    subject = Subject("link:h1/e0--l1/e1", Endpoint("h1", "e0"), Endpoint("l1", "e1"), rail=3)
    found = finding(subject=subject, blast_radius=BlastRadius(jobs=jobs))
    assert (silencing_control(found, [control(ControlKind.MAINTENANCE, name)], T0) is not None) is expected
