"""telemetry/stale does not depend on the order in which the readings of a source arrive within the lateness."""

import random

import pytest

from streams.wire.models import Finding, Message, Status
from tests.worlds.live_stages import final_findings, in_order, run
from tests.worlds.measure_stage import UP
from tests.worlds.observations import after, at, samples
from tests.worlds.small_fabric import topology
from tests.worlds.small_world import status

TOP = topology()
LATE_S = 29


def readings(chance: random.Random) -> list[Message]:
    """A leaf each 10 s with gaps of up to two minutes, a spine without; their collectors report the cadence."""
    own: list[Message] = [status("p1-l0", 0), status("s1", 0)]
    t = 0.0
    while t < 900:
        own.append(samples("p1-l0", t, {UP: {"d1": 1}}, sequence=round(t)))
        t += 10 * chance.choice([1, 1, 1, 1, 1, 1, 2, 3, 4, 7, 12])
    return own + [samples("s1", 10 * n, {UP: {"p1-l0": 1}}, sequence=n) for n in range(110)]


def arrived(messages: list[Message], chance: random.Random) -> list[Message]:
    """Return the messages in another order of arrival, each delayed randomly by less than the lateness."""
    when = [(at_s + chance.uniform(0, LATE_S), n) for n, at_s in enumerate(map(_time, messages))]
    return [messages[n] for _, n in sorted(when)]


def _time(message: Message) -> float:
    at_ns = getattr(message, "sampled_at_ns", None) or getattr(message, "at_ns", 0)
    return after(at_ns) or 0.0


@pytest.mark.parametrize("seed", range(40))
def test_the_gaps_are_those_between_readings_in_the_order_of_their_times(seed: int) -> None:
    """The last revisions are those of the ordered run: gaps reported too early are retracted, or made smaller."""
    chance = random.Random(seed)
    messages = readings(chance)
    late = final_findings(run(arrived(messages, chance), TOP))
    ordered = final_findings(run(in_order(messages), TOP))
    assert [(f.condition, f.started_at_ns, f.resolved_at_ns, f.final) for f in late] == [
        (f.condition, f.started_at_ns, f.resolved_at_ns, f.final) for f in ordered
    ]
    assert late == ordered


def test_a_silence_that_a_late_reading_fills_is_taken_back() -> None:
    """Reported after 30 s without a sample; then the samples of that time arrive: RETRACTED, and that is final."""
    messages: list[Message] = [status("p1-l0", 0), *(samples("p1-l0", t, {UP: {"d1": 1}}) for t in (0, 10, 20, 30))]
    messages += [samples("s1", t, {UP: {"p1-l0": 1}}) for t in range(0, 80, 10)]
    messages += [samples("p1-l0", t, {UP: {"d1": 1}}) for t in (40, 50, 60, 70)]
    findings = [f for f in run(messages, TOP) if isinstance(f, Finding)]
    assert [(f.status, f.final) for f in findings] == [
        (Status.OPEN, False), (Status.RETRACTED, False), (Status.RETRACTED, True),
    ]  # fmt: skip
    assert findings[0].started_at_ns == at(30)
