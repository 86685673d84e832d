"""Tests which alerts are active when: holds, parents, controls, ends, repetition, and takeover."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.notify.alert import Alert
from streams.notify.notifier import Notifier
from streams.wire.models import (
    BlastRadius,
    Condition,
    Control,
    ControlKind,
    Endpoint,
    Finding,
    Severity,
    Status,
    Subject,
)
from tests.fixtures.notify_examples import T0, S, control, finding, params, resolved

NOW = T0 + 31 * S


def make_notifier(*findings: Finding, at_ns: int = NOW) -> Notifier:
    notifier = Notifier(params())
    for one in findings:
        notifier.process(one, at_ns)
    return notifier


def post_due(notifier: Notifier, now_ns: int) -> list[Alert]:
    due = notifier.due(now_ns)
    notifier.posted(due, now_ns)
    return due


def pages(alerts: list[Alert], now_ns: int) -> list[str]:
    return [a.labels["finding_id"] for a in alerts if a.labels["kind"] == "page" and a.ends_at_ns > now_ns]


def active_kinds(notifier: Notifier) -> list[str]:
    return sorted(a.labels["kind"] for a in notifier.desired_alerts.values())


def test_a_critical_finding_pages_after_its_hold_and_not_before() -> None:
    """For 15 s it is an ordinary alert; then its page is a second one, and the first is unchanged."""
    notifier = make_notifier(finding())
    assert not pages(post_due(notifier, NOW), NOW)
    assert post_due(notifier, NOW + 15 * S - 1) == []
    (paged,) = post_due(notifier, NOW + 15 * S)
    assert paged.labels["kind"] == "page" and paged.ends_at_ns == NOW + 7215 * S
    assert active_kinds(notifier) == ["finding", "page"]


def at(identity: str, after_s: float = 0, device: str = "host-1", **changes: object) -> Finding:
    """Return a finding of another link of a device."""
    subject = Subject(
        f"link:{device}/{identity}--leaf-2/{identity}", Endpoint(device, identity), Endpoint("leaf-2", identity)
    )
    return finding(
        id=identity, subject=subject, summary=f"{identity} is down", started_at_ns=T0 + round(after_s * S), **changes
    )


CHILD, PARENT = finding(id="c", parent_id="p"), finding(id="p")
PARENT_ENDS = finding(id="p", revision=9, status=Status.RESOLVED, resolved_at_ns=NOW)
LATE = ((1, finding(revision=2)), (1, finding(revision=3)))
Steps = Sequence[tuple[int, Finding | Control | str]]
SEQUENCES: dict[str, tuple[Steps, dict[int, str]]] = {
    "a warning never pages": ([(0, finding(severity=Severity.WARNING))], {0: "finding", 3600: "finding"}),
    "an INFO never pages": ([(0, finding(severity=Severity.INFO))], {0: "finding", 3600: "finding"}),
    "a child never pages": ([(0, finding(parent_id="p1"))], {0: "finding", 3600: "finding"}),
    "a shadow finding has no alert": ([(0, finding(shadow=True))], {3600: ""}),
    "an end within the hold": ([(0, finding()), (10, resolved(at_ns=NOW + 10 * S))], {0: "finding", 20: ""}),
    "the hold begins again after a lower severity": (
        [(0, finding()), (10, finding(revision=2, severity=Severity.WARNING)), (10, finding(revision=3))],
        {16: "finding", 25: "finding page"},
    ),
    "the page returns after maintenance": (
        [(0, finding()), (30, control(ControlKind.MAINTENANCE, "f1", until_ns=NOW + 100 * S))],
        {20: "finding page", 30: "finding", 100: "finding page"},
    ),
    "the page returns after an acknowledgement": (
        [(0, finding()), (30, control(ControlKind.ACKNOWLEDGE, "f1", until_ns=NOW + 100 * S))],
        {20: "finding page", 30: "finding", 100: "finding page"},
    ),
    "maintenance of the root of a group that has another critical member": (
        [
            (0, finding()),
            (0, at("c", device="host-9", parent_id="f1")),
            (0, control(ControlKind.MAINTENANCE, "host-1")),
            (40, at("c", device="host-9", parent_id="f1", revision=2, severity=Severity.WARNING)),
        ],
        {0: "explained finding finding", 20: "explained finding finding page", 40: "explained finding finding"},
    ),
    "maintenance of a whole group": (
        [
            (0, finding()),
            (0, at("c", device="host-9", parent_id="f1")),
            *((0, replace(control(ControlKind.MAINTENANCE, host), id=host)) for host in ("host-1", "host-9")),
        ],
        {20: "explained finding finding"},
    ),
    "maintenance of what explains another condition": (
        [
            (0, finding(condition=Condition.DEVICE_DOWN)),
            (0, at("c", device="host-9", parent_id="f1")),
            (0, control(ControlKind.MAINTENANCE, "host-1")),
        ],
        {20: "explained finding finding"},
    ),
    "a removed control is inactive": (
        [(0, finding()), (0, control(ControlKind.MAINTENANCE, "host-1")), (21, "MAINTENANCE")],
        {20: "finding", 21: "finding page"},
    ),
    "a child is marked while its parent is open": (
        [(0, CHILD), (1, PARENT), (2, PARENT_ENDS)],
        {0: "finding", 1: "explained finding finding", 2: "finding"},
    ),
    "a child after its parent": (
        [(0, PARENT), (1, CHILD), (2, PARENT_ENDS)],
        {1: "explained finding finding", 2: "finding"},
    ),
    "a shadow parent mutes nothing": ([(0, CHILD), (0, finding(id="p", shadow=True))], {0: "finding"}),
    "a late revision after the end": ([(0, finding(revision=3)), (0, resolved()), *LATE], {60: ""}),
    "a late revision after the tombstone": ([(0, finding(revision=3)), (0, "f1"), *LATE], {60: ""}),
}


@pytest.mark.parametrize(("steps", "expected"), SEQUENCES.values(), ids=SEQUENCES)
def test_the_active_alerts_after_a_sequence(steps: Steps, expected: dict[int, str]) -> None:
    """By second, the kinds of active alerts; a name in a sequence removes a finding or a control."""
    notifier, left = make_notifier(), list(steps)
    for second, kinds in expected.items():
        while left and left[0][0] <= second:
            at_s, one = left.pop(0)
            change = notifier.remove if isinstance(one, str) else notifier.process
            change(one, NOW + at_s * S)  # type: ignore[arg-type]
        post_due(notifier, NOW + second * S)
        assert " ".join(active_kinds(notifier)) == kinds, second


def test_a_mark_is_posted_before_the_alert_of_its_child() -> None:
    """The mark mutes the child's alert in Alertmanager."""
    assert make_notifier(CHILD, PARENT).due(NOW)[0].labels["kind"] == "explained"


def test_a_child_with_a_parent_within_the_hold_does_not_page() -> None:
    """A leaf reboots: its 64 ports are critical at first, then children, and one page is sent."""
    children = [finding(id=f"c{i}") for i in range(64)]
    notifier = make_notifier(*children)
    post_due(notifier, NOW)
    for child in children:
        notifier.process(finding(id=child.id, revision=2, parent_id="reboot"), NOW + 5 * S)
    notifier.process(finding(id="reboot"), NOW + 5 * S)
    paged = [page for s in range(5, 60) for page in pages(post_due(notifier, NOW + s * S), NOW + s * S)]
    assert paged == ["reboot"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from([Severity.WARNING, Severity.CRITICAL]), st.sampled_from(["", "p"]), st.booleans(),
            st.booleans(), st.integers(0, 40),
        ),
        max_size=12,
    )
)  # fmt: skip
def test_the_alert_of_an_open_finding_never_ends(
    script: list[tuple[Severity, str, bool, bool, int]],
) -> None:
    """Severity, parent, acknowledgement and the parent's state change other alerts of it, and annotations."""
    notifier, now = make_notifier(finding(), at_ns=NOW), NOW
    (posted,) = post_due(notifier, now)
    for revision, (severity, parent, acknowledged, parent_is_open, pause) in enumerate(script, 2):
        now += pause * S
        notifier.process(finding(revision=revision, severity=severity, parent_id=parent), now)
        status = Status.UPDATED if parent_is_open else Status.RESOLVED
        notifier.process(finding(id="p", revision=revision, status=status), now)
        if acknowledged:
            notifier.process(control(ControlKind.ACKNOWLEDGE, "f1"), now)
        else:
            notifier.remove("ACKNOWLEDGE", now)
        due = post_due(notifier, now)
        assert [a for a in due if a.identity == posted.identity and a.ends_at_ns <= now] == []
        expected = "explained" if parent and parent_is_open else "page"
        kinds = {a.labels["kind"] for a in notifier.desired_alerts.values() if a.labels["finding_id"] == "f1"}
        assert {"finding"} <= kinds <= {"finding", expected}
        assert ("explained" in kinds) is bool(parent and parent_is_open)


def test_a_moved_subject_does_not_page_again() -> None:
    """An alert keeps its labels for the whole episode, also if the inventory moves the device to another pod."""
    notifier = make_notifier(finding())
    assert pages(post_due(notifier, NOW + 15 * S), NOW + 15 * S) == ["f1"]
    notifier.process(finding(revision=2, subject=Subject(finding().subject.id, pod="pod-7", rail=1)), NOW + 20 * S)
    post_due(notifier, NOW + 20 * S)
    assert {a.labels["pod"] for a in notifier.desired_alerts.values()} == {"pod-1"}


def end_repeats(notifier: Notifier, end: Alert, since_s: int) -> list[int]:
    """Return the seconds after `since_s` in which an end is posted again, in the following three hours."""
    return [s for s in range(1, 10_800) if end in post_due(notifier, NOW + (since_s + s) * S)]


def test_an_end_is_posted_with_the_event_time_and_repeated_for_two_hours() -> None:
    """Alertmanager may stop between the post and the notification; each repetition is the same, and they thin out."""
    notifier = make_notifier(finding())
    post_due(notifier, NOW)
    notifier.process(resolved(at_ns=NOW + 5 * S), NOW + 60 * S)
    (end,) = post_due(notifier, NOW + 60 * S)
    assert end.ends_at_ns == NOW + 5 * S
    ages = end_repeats(notifier, end, 60)
    assert ages[:6] == [60, 120, 180, 240, 300, 375]
    assert len(ages) <= 20 and 7200 * 4 / 5 <= ages[-1] < 7200
    assert all(after - before <= max(60, before / 4 + 1) for before, after in pairwise(ages))
    assert notifier.due(NOW + 20_000 * S) == []


def test_after_an_outage_everything_is_posted_at_once_and_ends_for_two_hours_again() -> None:
    """Alertmanager may be killed a second time, before it notified what it accepted after the first."""
    notifier = make_notifier(finding(severity=Severity.WARNING), finding(id="ended", severity=Severity.WARNING))
    post_due(notifier, NOW)
    notifier.process(resolved(id="ended", at_ns=NOW + 5 * S), NOW + 5 * S)
    (end,) = post_due(notifier, NOW + 5 * S)
    post_due(notifier, NOW + 5000 * S)
    notifier.unavailable()
    alert, again = notifier.due(NOW + 5001 * S)
    assert (alert.labels["finding_id"], again) == ("f1", end)
    notifier.unavailable()
    assert len(post_due(notifier, NOW + 9000 * S)) == 2
    ages = end_repeats(notifier, end, 9000)
    assert ages[0] == 60 and 7200 * 4 / 5 <= ages[-1] < 7200


def test_ends_are_posted_behind_active_alerts() -> None:
    """A restarted Alertmanager would notify a group without its active alerts as resolved."""
    notifier = make_notifier(finding(id="a"), finding(id="b"))
    post_due(notifier, NOW)
    notifier.process(resolved(id="a", at_ns=NOW + 5 * S), NOW + 60 * S)
    assert [(one.labels["finding_id"], one.ends_at_ns > NOW + 60 * S) for one in notifier.due(NOW + 60 * S)] == [
        ("b", True), ("b", True), ("a", False),
    ]  # fmt: skip


def test_a_page_that_returns_while_its_end_is_repeated_is_active() -> None:
    """The same labels are posted as active again, and the end is forgotten."""
    notifier = make_notifier(finding())
    post_due(notifier, NOW + 15 * S)
    notifier.process(control(ControlKind.ACKNOWLEDGE, "f1", until_ns=NOW + 30 * S), NOW + 20 * S)
    (ended,) = post_due(notifier, NOW + 20 * S)
    (page,) = post_due(notifier, NOW + 30 * S)
    assert page.identity == ended.identity and page.ends_at_ns > NOW + 30 * S
    assert not [a for s in range(31, 900) for a in post_due(notifier, NOW + s * S) if a.ends_at_ns <= NOW + s * S]


def test_a_successor_ends_what_ended_while_alertmanager_was_away() -> None:
    """The predecessor could not post the ends and is gone; Alertmanager has no alerts, but receivers have incidents."""
    successor = make_notifier(
        resolved(at_ns=NOW), finding(id="old", status=Status.RESOLVED, resolved_at_ns=T0 - 7200 * S)
    )
    successor.restore([], NOW + 60 * S)
    ends = post_due(successor, NOW + 60 * S)
    assert [(a.labels["finding_id"], a.labels["kind"], a.ends_at_ns) for a in ends] == [
        ("f1", "finding", NOW),
        ("f1", "page", NOW),
    ]


@pytest.mark.parametrize(
    ("ending", "ends_s", "summary"),
    [
        (resolved(at_ns=NOW + 5 * S), 5, "host-1"),
        (resolved(at_ns=NOW + 900 * S), 60, "host-1"),
        (resolved(status=Status.RETRACTED), 59, "Retracted"),
        (None, 50, "host-1"),
    ],
    ids=["event time", "clock ahead", "retracted", "tombstone"],
)
def test_an_alert_ends_with_its_finding_and_never_in_the_future(
    ending: Finding | None, ends_s: int, summary: str
) -> None:
    """It ends also with the tombstone of findings-open; a retraction is named in the summary."""
    notifier = make_notifier(finding())
    post_due(notifier, NOW)
    if ending is None:
        notifier.remove("f1", NOW + 50 * S)
    else:
        notifier.process(ending, NOW + 60 * S)
    (end,) = post_due(notifier, NOW + 60 * S)
    assert end.ends_at_ns == NOW + ends_s * S
    assert end.annotations["summary"].startswith(summary)


def test_an_open_alert_is_repeated_each_minute_with_a_later_end() -> None:
    """Alertmanager loses alerts at a restart, and ends alerts that are not repeated."""
    notifier = make_notifier(finding(severity=Severity.WARNING))
    times = [
        s for s in range(300) for alert in post_due(notifier, NOW + s * S) if alert.ends_at_ns == NOW + (s + 7200) * S
    ]
    assert times == [0, 60, 120, 180, 240]


def test_changed_annotations_are_posted_at_once_and_equal_ones_are_not() -> None:
    """An update is posted when its annotations change."""
    notifier = make_notifier(finding(severity=Severity.WARNING))
    post_due(notifier, NOW)
    notifier.process(finding(severity=Severity.WARNING, revision=2, observed_at_ns=NOW), NOW + S)
    assert post_due(notifier, NOW + S) == []
    notifier.process(finding(severity=Severity.WARNING, revision=3, summary="worse"), NOW + 2 * S)
    assert [a.annotations["summary"] for a in post_due(notifier, NOW + 2 * S)] == ["worse"]


def test_a_successor_neither_pages_again_nor_loses_an_alert() -> None:
    """Rebuilt from open findings and active alerts: the page is unchanged, and alerts that ended meanwhile end."""
    first = make_notifier(finding(), at("f2", device="host-2"))
    post_due(first, NOW + 20 * S)
    later = NOW + 3000 * S
    successor = make_notifier(finding(revision=4, subject=Subject(finding().subject.id, pod="pod-7")), at_ns=later - S)
    successor.restore(first.desired_alerts.values(), later)
    posted = post_due(successor, later)
    assert [(a.labels["finding_id"], a.ends_at_ns) for a in posted[-2:]] == [("f2", later)] * 2
    originals = {a.identity for a in first.desired_alerts.values() if a.labels["finding_id"] == "f1"}
    assert len(originals) == 2
    assert {a.identity for a in posted[:-2]} == originals
    assert {a.ends_at_ns for a in posted[:-2]} == {later + 7200 * S}


def test_a_successor_ends_a_page_that_is_no_longer_due() -> None:
    """If the finding got a parent during the takeover, the page ends."""
    first = make_notifier(finding())
    post_due(first, NOW + 20 * S)
    successor = make_notifier(finding(revision=2, parent_id="p"), at_ns=NOW + 30 * S)
    successor.restore(first.desired_alerts.values(), NOW + 30 * S)
    post_due(successor, NOW + 30 * S)
    assert active_kinds(successor) == ["finding"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b"]),
            st.sampled_from([Severity.WARNING, Severity.CRITICAL]),
            st.sampled_from([Status.OPEN, Status.RESOLVED, Status.RETRACTED]),
            st.sampled_from(["", "p"]),
            st.integers(0, 40),
        ),
        max_size=12,
    )
)
def test_an_open_finding_has_one_alert_and_an_ended_one_has_none(
    script: list[tuple[str, Severity, Status, str, int]],
) -> None:
    """After any sequence, each open finding has exactly one alert of its kind, and no other finding has any."""
    notifier, now = make_notifier(), NOW
    last: dict[str, Finding] = {}
    for revision, (identity, severity, status, parent, pause) in enumerate(script):
        now += pause * S
        one = finding(id=identity, revision=revision, severity=severity, status=status, parent_id=parent)
        notifier.process(one, now)
        last[identity] = one
        post_due(notifier, now)
        open_ids = sorted(identity for identity, one in last.items() if not one.is_closed)
        active = notifier.desired_alerts.values()
        assert sorted(a.labels["finding_id"] for a in active if a.labels["kind"] == "finding") == open_ids
        assert {a.labels["finding_id"] for a in active} <= set(open_ids)
    assert notifier.due(now) == []


def follow_ups(notifier: Notifier) -> list[str]:
    return sorted(a.labels["follow_up"] for a in notifier.desired_alerts.values() if "follow_up" in a.labels)


def radius(hosts: int, jobs: int = 1, lost: float = 0.125) -> BlastRadius:
    return BlastRadius(tuple(f"h{n}" for n in range(hosts)), tuple(f"j{n}" for n in range(jobs)), 8 * hosts, lost)


@pytest.mark.parametrize(
    ("extents", "expected"),
    [
        ([radius(1), radius(1)], []),
        ([radius(4), radius(7)], []),
        ([radius(4), radius(8)], ["1"]),
        ([radius(4), radius(8), radius(4), radius(8)], ["1"]),
        ([radius(4), radius(8), radius(16)], ["1", "2"]),
        ([radius(4, 0), radius(4, 1)], ["1"]),
        ([radius(4, lost=0.125), radius(4, lost=0.25)], ["1"]),
        ([None, radius(4)], ["1"]),
    ],
)
def test_a_page_is_followed_up_when_its_extent_doubles(extents: list[BlastRadius | None], expected: list[str]) -> None:
    """Hosts, jobs and lost capacity count; a takeover repeats none, and the end of the page ends them."""
    notifier = make_notifier()
    for revision, extent in enumerate(extents, 1):
        notifier.process(finding(revision=revision, blast_radius=extent), NOW)
        post_due(notifier, NOW + (20 + revision) * S)
    assert follow_ups(notifier) == expected
    successor = make_notifier(finding(revision=len(extents), blast_radius=extents[-1]))
    successor.restore(list(notifier.desired_alerts.values()), NOW + 60 * S)
    post_due(successor, NOW + 60 * S)
    assert follow_ups(successor) == expected
    for one in (notifier, successor):
        one.process(finding(revision=99, severity=Severity.WARNING), NOW + 70 * S)
        post_due(one, NOW + 70 * S)
        assert (follow_ups(one), active_kinds(one)) == ([], ["finding"])


ACK, MAINTAINED = (
    control(kind, "f1", until_ns=NOW + 200 * S) for kind in (ControlKind.ACKNOWLEDGE, ControlKind.MAINTENANCE)
)
MILDER = finding(revision=9, severity=Severity.WARNING)
SHARED: dict[str, tuple[Sequence[tuple[int, Finding | Control]], dict[int, str]]] = {
    "at once: one page": ([(0, finding()), (0, at("e5", 2))], {20: "f1"}),
    "later: a follow-up": ([(0, finding()), (60, at("e5", 60))], {20: "f1", 80: "f1 f1+1"}),
    "each further one": (
        [(0, finding()), (60, at("e5", 60)), (120, at("e6", 120))], {80: "f1 f1+1", 140: "f1 f1+1 f1+2"}),
    "one ends, another begins": (
        [(0, finding()), (60, at("e5", 60)), (90, at("e5", 60, revision=2, status=Status.RESOLVED)),
         (120, at("e6", 120))],
        {80: "f1 f1+1", 100: "f1 f1+1", 140: "f1 f1+1 f1+2"}),
    "a quarter of an hour later": ([(0, finding()), (1000, at("e5", 901))], {1020: "e5 f1"}),
    "another device": ([(0, finding()), (60, at("e5", 60, "host-2"))], {80: "e5 f1"}),
    "another condition": ([(0, finding()), (60, at("e5", 60, condition=Condition.LINK_FLAP))], {80: "e5 f1"}),
    "a warning": ([(0, finding()), (60, at("e5", 60, severity=Severity.WARNING))], {80: "f1"}),
    "in maintenance": (
        [(0, finding()), (50, control(ControlKind.MAINTENANCE, "e5")), (60, at("e5", 60))], {80: "f1"}),
    "after the acknowledgement": ([(0, finding()), (50, ACK), (60, at("e5", 60))], {50: "", 80: "e5", 200: "e5 e5+1"}),
    "acknowledged with the page": (
        [(0, finding()), (60, at("e5", 60)), (90, ACK)], {80: "f1 f1+1", 90: "", 150: "", 200: "f1"}),
    "the page ends, the other stays": (
        [(0, finding()), (60, at("e5", 60)), (90, resolved(at_ns=NOW + 90 * S))], {80: "f1 f1+1", 90: "", 105: "e5"}),
    "both end within the hold": (
        [(0, finding()), (60, at("e5", 60)), (90, resolved(at_ns=NOW + 90 * S)),
         (100, at("e5", 60, revision=2, status=Status.RESOLVED))], {80: "f1 f1+1", 90: "", 120: ""}),
    "the page is no longer critical": (
        [(0, finding()), (60, at("e5", 60)), (90, MILDER)], {80: "f1 f1+1", 90: "", 105: "e5"}),
    "the page goes into maintenance": (
        [(0, finding()), (60, at("e5", 60)), (90, MAINTAINED)], {80: "f1 f1+1", 90: "", 105: "e5", 200: "e5 e5+1"}),
}  # fmt: skip


@pytest.mark.parametrize(("steps", "expected"), SHARED.values(), ids=SHARED)
def test_findings_of_one_condition_at_one_device_share_a_page(
    steps: Sequence[tuple[int, Finding | Control]], expected: dict[int, str]
) -> None:
    """A further one is a follow-up and never hidden; a takeover at any time changes nothing."""

    def active(notifier: Notifier) -> str:
        labels = [a.labels for a in notifier.desired_alerts.values() if a.labels["kind"] == "page"]
        return " ".join(sorted(f"{one['finding_id']}+{one.get('follow_up', '')}".rstrip("+") for one in labels))

    notifier, messages = make_notifier(), list[Finding | Control]()
    for second in sorted({s for s, _ in steps} | expected.keys()):
        now = NOW + second * S
        for message in (one for s, one in steps if s == second):
            messages.append(message)
            notifier.process(message, now)
        post_due(notifier, now)
        if second in expected:
            assert active(notifier) == expected[second]
            successor = make_notifier()
            for message in messages:
                successor.process(message, now)
            successor.restore(list(notifier.desired_alerts.values()), now)
            post_due(successor, now)
            assert active(successor) == expected[second]


def test_the_text_of_a_page_names_the_faults_that_joined_it() -> None:
    """The first line has their number and the device; each has a line, with those who are hit if they are others.

    The links of one device add up: what their hosts lose is the sum, not the share of the first link.
    """
    others = [
        at(f"e{n}", n, blast_radius=finding().blast_radius if n < 9 else BlastRadius(("host-9",))) for n in range(5, 12)
    ]
    notifier = make_notifier(finding(), *others)
    (page,) = [a for a in post_due(notifier, NOW + 20 * S) if a.labels["kind"] == "page"]
    lines = page.annotations["page"].splitlines()
    assert lines[0] == "CRITICAL, 8 such faults at host-1: host-1 rail 4 has no link"
    assert [line for line in lines if line.startswith("Also")] == [
        *(f"Also: e{n} is down" for n in range(5, 9)),
        "Also: e9 is down; hosts host-9",
        "Also: 2 more; see `railsight findings`",
    ]
    assert lines[2] == "Hit: jobs llama-7; hosts host-1; 8 GPUs; 62% of their capacity lost", "five links of 12.5 %"


def test_the_end_of_a_page_states_what_follows_for_the_faults_that_joined_it() -> None:
    """The end is that of its own finding; the reader must know whether the others are over."""
    notifier = make_notifier(finding(), at("f2"), at("f3"))
    post_due(notifier, NOW + 20 * S)
    over = finding(revision=2, status=Status.RESOLVED, resolved_at_ns=NOW + 30 * S)
    notifier.process(over, NOW + 30 * S)
    (ended,) = [one for one in post_due(notifier, NOW + 30 * S) if one.labels["kind"] == "page"]
    lines = ended.annotations["page"].splitlines()
    assert lines[0].startswith("OVER after ") and "such faults" not in lines[0]
    assert "Also: its page had 2 more such faults; each that is still open gets a page of its own" in lines


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (finding(revision=2, severity=Severity.WARNING), "its severity is WARNING"),
        (finding(revision=2, parent_id="p1"), "finding p1 explains it"),
        (control(ControlKind.ACKNOWLEDGE, "f1"), "acknowledged by anna"),
        (control(ControlKind.MAINTENANCE, "host-1"), "in maintenance"),
    ],
)
def test_the_end_of_a_page_of_an_open_finding_has_its_reason(message: Finding | Control, reason: str) -> None:
    """A receiver shows the end as resolved, although the fault is not."""
    notifier = make_notifier(finding())
    post_due(notifier, NOW + 15 * S)
    notifier.process(message, NOW + 20 * S)
    (ended,) = [one for one in post_due(notifier, NOW + 20 * S) if one.ends_at_ns <= NOW + 20 * S]
    assert ended.annotations["page"].startswith(f"NO PAGE ANY MORE, {reason}: host-1 rail 4 has no link")
    assert ended.annotations["summary"] == f"No page any more, {reason}: host-1 rail 4 has no link"
