"""Every message that the codec accepts can be processed, and the state after it written, read and sent on."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streams.fabric.catalogue import Metric
from streams.runtime.event_time import event_time_ns
from streams.wire import codec, topics
from streams.wire.bounds import MAX_TIME_NS
from streams.wire.errors import Reject
from streams.wire.models import (
    IDLE_NS,
    Control,
    PeerWindow,
    RemediationResult,
    RowKind,
    Samples,
    Source,
    Symptom,
    Table,
)
from streams.wire.stage import Output, Stage
from streams.wire.symptoms import LevelState
from tests.fixtures.arbitrary_messages import messages, samples
from tests.fixtures.stage_messages import STAGES
from tests.worlds.small_fabric import topology

TOP = topology()
PORTS = (("p1-h1", "e0"), ("p1-l0", "d1"), ("p1-l0", "u0"), ("s1", "p1-l0"), ("unknown", "x"))


@st.composite
def _message(draw: st.DrawFn, models: tuple[type, ...]) -> Any:
    """A message with any accepted values; most are about a device of the fabric, whose state they reach."""
    model = draw(st.sampled_from(models))
    message = draw(samples() if model is Samples else messages(model))
    device, port = draw(st.sampled_from(PORTS))
    fields = {field.name for field in dataclasses.fields(message)}
    known: dict[str, Any] = {name: value for name, value in (("device", device), ("port", port)) if name in fields}
    if model is PeerWindow:
        del known["port"]
    if model is Samples and message.row:
        known["row"] = (port, *message.row[1:])
    return dataclasses.replace(message, **known)


def _begun(make: Callable[[], Stage], state: bytes | None = None) -> Stage:
    stage = make()
    stage.start_epoch(1)
    if state is not None:
        stage.restore(state)
    else:
        stage.set_topology(TOP)
    return stage


def _sent(outputs: list[Output]) -> None:
    for output in outputs:
        if output.message is not None:
            record = topics.encode(output.topic, output.message, key=output.key)
            topics.decode(output.topic, record.value, record.headers)


@pytest.mark.parametrize("name", STAGES)
def test_every_accepted_message_can_be_snapshotted_and_restored(name: str) -> None:
    """A stage processes it, writes its state, and a successor reads it; what it sends is accepted in turn."""
    make, models = STAGES[name]

    @settings(deadline=None, max_examples=40, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(st.lists(_message(models), min_size=1, max_size=5))
    def holds(batch: list[Any]) -> None:
        stage = _begun(make)
        for message in batch:
            read = codec.from_bytes(type(message), codec.to_bytes(message))
            _sent(stage.process([read]))
            at_ns = event_time_ns(read)
            if at_ns is not None and name != "measure":
                _sent(stage.advance_watermark(min(at_ns, IDLE_NS)))
            state = stage.snapshot()
            assert _begun(make, state).snapshot() == state

    holds()


@pytest.mark.parametrize(("received_ns", "delay_us"), [(1, -1), (MAX_TIME_NS, 1)])
def test_the_time_of_a_row_is_within_the_bounds(received_ns: int, delay_us: int) -> None:
    """A row that was read before 1970 or after the last time that is accepted has the nearest time."""
    gauges = Table((Metric.RX_LOS,), (0,), np.array([[1.0]]))
    samples = Samples(
        "p1-h1", Source.SOURCE_NIC, "c", 1, 1, MAX_TIME_NS, received_ns, 1, RowKind.ROW_KIND_PORT, ("e0",), 0,
        Table((), (), np.empty((0, 1), np.uint64)), gauges, (delay_us,),
    )  # fmt: skip
    outputs = _begun(STAGES["measure"][0]).process([samples])
    assert any(output.topic is topics.SYMPTOMS for output in outputs)
    _sent(outputs)


def test_what_ended_a_stage_is_refused_or_bounded() -> None:
    """A result of the year 9999 is refused; a kill switch until then is one until the end of time."""
    result = b'{"remediationId":"r","outcome":"DONE","at":"9999-12-31T23:59:59Z"}'
    with pytest.raises(Reject, match="at_ns"):
        codec.from_json(RemediationResult, result)
    until = b'{"id":"k","kind":"KILL_SWITCH","until":"9999-12-31T23:59:59Z"}'
    assert codec.from_json(Control, until).until_ns == MAX_TIME_NS
    with pytest.raises(Reject, match="reason"):
        codec.from_json(Control, b'{"id":"k","kind":"KILL_SWITCH","reason":"' + b"x" * 20_000 + b'"}')
    with pytest.raises(Reject, match="limit"):
        codec.from_bytes(Symptom, codec.to_bytes(Symptom("d", "p", LevelState(Metric.GPU_POWER_W, True, math.inf), 1)))
