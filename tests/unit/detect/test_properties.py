"""Properties of every stream (STYLE rule 4): arbitrary telemetry of the small fabric through all four stages."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from streams.detect.correlate.stage import Correlate
from streams.detect.params import DetectParams
from streams.fabric.catalogue import Metric
from streams.wire.models import Event, EventKind, Finding, Message, Samples, Symptom
from tests.worlds.observations import (
    HOST,
    LEAF,
    after,
    at,
    counted,
    down,
    episodes,
    event,
    off,
    on,
    restarted,
    samples,
    up,
)
from tests.worlds.small_fabric import begun, topology
from tests.worlds.small_world import SmallWorld, findings, play

TOP = topology()
ENDS = (("p1-h1", "e0"), ("p1-l0", "d1"), ("p1-l0", "u0"), ("s1", "p1-l0"))
KINDS = (EventKind.LINK_DOWN, EventKind.LINK_UP, EventKind.ADMIN_DOWN, EventKind.ADMIN_UP)
DEVICES = ("p1-h1", "p1-l0", "s1")


@st.composite
def telemetry(draw: st.DrawFn) -> list[Message]:
    """A few minutes of three devices: states, counters that may reset, boots, holes, and events in between."""
    messages: list[Message] = []
    for device in DEVICES:
        ports = [port for own, port in ENDS if own == device]
        counter, boot = 5, 1
        for step in range(draw(st.integers(4, 25))):
            if draw(st.integers(0, 9)) == 0:
                continue  # a hole
            boot += draw(st.integers(0, 15)) == 0
            counter = draw(st.sampled_from([counter, counter, counter, counter + 1, counter + 3, 0]))
            states: dict[str, float | None] = {p: draw(st.sampled_from([1.0, 1.0, 1.0, 0.0, None])) for p in ports}
            counts: dict[str, float | None] = dict.fromkeys(ports, counter)
            cells = {Metric.OPER_UP: states, Metric.LINK_DOWN_EVENTS: counts}
            messages.append(samples(device, step * 20, cells, boot_id=boot, sequence=step))
    for device, port in draw(st.lists(st.sampled_from(ENDS), max_size=8)):
        messages.append(event(f"{device}/{port}", draw(st.integers(0, 500)), draw(st.sampled_from(KINDS))))
    return messages


def _brief(found: Sequence[Finding], shift_ns: int = 0) -> list[tuple[Any, ...]]:
    """Return the fields of findings without ids and revisions, with their times shifted back."""

    def back(value: int | None) -> int | None:
        return None if value is None else value - shift_ns

    return [
        (
            f.condition, f.status, f.severity, f.final, f.subject, back(f.started_at_ns), back(f.observed_at_ns),
            back(f.resolved_at_ns), back(f.detected_at_ns), f.summary, f.cause, f.confidence, f.coverage,
            f.blast_radius, bool(f.parent_id), f.occurrences,
            tuple((e.statement, e.observed, back(e.window_start_ns), back(e.window_end_ns)) for e in f.evidence),
        )
        for f in found
    ]  # fmt: skip


def _shifted(message: Message, by_ns: int) -> Message:
    if isinstance(message, Samples):
        return replace(
            message, sampled_at_ns=message.sampled_at_ns + by_ns, received_at_ns=message.received_at_ns + by_ns
        )
    assert isinstance(message, Event)
    return replace(message, at_ns=message.at_ns + by_ns, received_at_ns=message.received_at_ns + by_ns)


@settings(max_examples=12)
@given(telemetry(), st.integers(1, 10**18))
def test_shifting_all_times_shifts_the_findings_and_nothing_else(messages: list[Message], by_ns: int) -> None:
    """No conclusion depends on when it is drawn."""
    here = findings(play(messages))
    there = findings(play([_shifted(message, by_ns) for message in messages]))
    key = repr
    assert sorted(_brief(there, by_ns), key=key) == sorted(_brief(here), key=key)


@settings(max_examples=12)
@given(telemetry())
def test_repeated_messages_change_nothing(messages: list[Message]) -> None:
    """Every message sent twice gives the same findings, so at-least-once delivery suffices."""
    assert _brief(findings(play([m for m in messages for _ in (0, 1)]))) == _brief(findings(play(messages)))


@settings(max_examples=40)
@given(st.lists(st.integers(1, 2**64 - 2), min_size=2, max_size=12))
def test_a_counter_that_only_resets_never_fires(values: list[int]) -> None:
    """A counter that falls has not grown, by whatever and however often."""
    falling = sorted(values, reverse=True)
    assert play([samples("p1-l0", n * 10, {Metric.LINK_DOWN_EVENTS: {"d1": v}}) for n, v in enumerate(falling)]) == []


_PORTS = st.sampled_from([HOST, LEAF])
_TIMES = st.integers(0, 1200)


@st.composite
def observations(draw: st.DrawFn) -> list[Symptom]:
    """Symptoms of one link and its devices."""
    made: list[Symptom] = []
    for _ in range(draw(st.integers(1, 14))):
        t, port = draw(_TIMES), draw(_PORTS)
        made.append(
            draw(
                st.sampled_from(
                    [
                        down(port, t), down(port, t), up(port, t + 1), up(port, t + 40), off(port, t), on(port, t),
                        counted(port, t, t - 10, 3), restarted(port.split("/")[0], t, t - 20, 7),
                    ]
                )
            )
        )  # fmt: skip
    return made


def _final(symptoms: Sequence[Symptom], cut: int = -1) -> list[tuple[Any, ...]]:
    """Return the last revisions of correlate when all symptoms arrive before the watermark has passed any lateness."""
    stage = Correlate(DetectParams())
    stage.start_epoch(1)
    outputs = stage.set_topology(TOP)
    for number, symptom in enumerate(symptoms):
        if number == cut:
            other = begun(Correlate(DetectParams()), TOP, stage.snapshot(), epoch=2)
            stage = other
        outputs += stage.process([symptom])
    outputs += stage.advance_watermark(at(10_000))
    newest: dict[str, Finding] = {}
    for finding in episodes(outputs):
        assert finding.id not in newest or newest[finding.id].revision < finding.revision
        newest[finding.id] = finding
    standing = [f for f in newest.values() if f.status.name != "RETRACTED"]
    return sorted(_brief(standing), key=repr)


@settings(max_examples=80)
@given(observations(), st.randoms(use_true_random=False))
def test_the_order_of_arrival_within_the_lateness_changes_no_final_revision(
    symptoms: list[Symptom], chance: Any
) -> None:
    """The final revision is a pure function of the set of observations."""
    shuffled = [*symptoms, *symptoms[:3]]
    chance.shuffle(shuffled)
    assert _final(shuffled) == _final(sorted(symptoms, key=lambda s: s.at_ns))


@settings(max_examples=50)
@given(observations(), st.integers(0, 13))
def test_a_restart_between_any_two_observations_changes_nothing(symptoms: list[Symptom], cut: int) -> None:
    """A successor continues from the predecessor's state."""
    assert _final(symptoms, cut) == _final(symptoms)


def test_state_stays_bounded_under_an_endless_flapper() -> None:
    """A port flaps each second for 15 minutes: its findings keep their beginning, and state stays bounded."""
    stage = begun(Correlate(DetectParams()), TOP)
    sizes: list[int] = []
    published: list[Finding] = []
    for minute in range(15):
        batch = [
            s for second in range(60) for s in (down(HOST, minute * 60 + second), up(HOST, minute * 60 + second + 0.5))
        ]
        published += episodes(stage.process(batch))
        published += episodes(stage.advance_watermark(at(minute * 60 + 59)))
        sizes.append(len(stage.snapshot()))
    assert max(sizes[10:]) <= max(sizes[:10]) * 1.1
    assert {f.detector for f in published} == {"link/flap", "link/down"}
    assert len({f.id for f in published}) == 2
    assert {after(f.started_at_ns) for f in published} == {0}
    assert len(published) <= 20  # the downs of a minute reach `attribute` together


@settings(max_examples=12)
@given(st.integers(0, 10**15))
def test_simultaneous_findings_have_the_same_root_at_any_time(by_ns: int) -> None:
    """The root does not depend on ids, which follow from times and differ between days."""
    world = SmallWorld(not_polled={device: [(100, 300)] for device in ("p1-h1", "p2-h2", "p2-l0", "s1")})
    found = findings(play([_shifted(message, by_ns) for message in world.rounds(300)]))
    assert [f.subject.id for f in found if not f.parent_id] == ["device:p1-h1"]
