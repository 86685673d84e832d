"""measure's snapshot: small, and read back as it was or refused, whatever stands in it."""

from dataclasses import replace
from typing import TYPE_CHECKING

import cramjam
import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.detect.measure.storage.array_codec import ArrayDecoder, ArrayEncoder
from streams.detect.measure.storage.reading_history import ReadingHistory, unpack_history
from streams.fabric.catalogue import Metric
from streams.wire.errors import Reject
from streams.wire.symptoms import SymptomKind
from tests.worlds.measure_stage import DOWNS, UP, stage, symptoms_of
from tests.worlds.observations import after, samples
from tests.worlds.small_world import status

if TYPE_CHECKING:
    from streams.wire.models import Message


def _full() -> bytes:
    """Devices of several layouts, columns with times by cell, a silent source and a gap not evaluated yet."""
    own = stage()
    own.process([samples("p1-l0", t, {UP: {"d1": 1, "d2": n}, DOWNS: {"d1": 5}}) for t, n in ((0, 1), (10, None))])
    own.process([samples("p1-l1", 0, {UP: {"d1": 1, "u0": 1}}), samples("p1-l1", 10, {UP: {"u0": 0}})])
    own.process([samples("p1-h1", 0, {UP: {"e0": 1}}), status("p1-h2", 5, reachable=False, error="refused")])
    own.process([samples("p1-l0", t, {UP: {"d1": 1}}) for t in (50, 400)])
    return own.snapshot()


def test_what_is_read_back_is_written_the_same_again() -> None:
    """Ragged times, sources and gaps included: a successor's snapshot is its predecessor's."""
    state = _full()
    other = stage()
    other.restore(state)
    assert other.snapshot() == state


@pytest.mark.parametrize("restored", [False, True])
def test_samples_of_another_run_do_not_hide_a_silence_after_a_restore(*, restored: bool) -> None:
    """The last status is older than the limit, because the device was read; its newest sample arrived just before."""
    own = stage()
    own.process([status("p1-l0", 0), *(samples("p1-l0", t, {UP: {"d1": 1}}) for t in range(0, 201, 10))])
    if restored:
        data, own = own.snapshot(), stage()
        own.restore(data)
    messages: list[Message] = []
    for t in range(205, 300, 10):
        messages.append(replace(samples("p1-l0", t, {UP: {"d1": 1}}), collector_run=2))
        messages.append(status("p1-l0", t + 5, reachable=False, error="timeout"))
    (found,) = symptoms_of(own, messages)
    assert (found.kind, after(found.since_ns), after(found.at_ns)) == (SymptomKind.SOURCE_SILENT, 200, 230)


def test_the_ports_of_a_new_device_take_one_number_while_all_move() -> None:
    """The snapshot of 512 ports that moved in each of a few readings has no state of each port."""

    def size(count: int) -> int:
        own, ports = stage(), [f"d{n}" for n in range(512)]
        for t in range(count):
            grown: dict[str, float | None] = dict.fromkeys(ports, 10**9 * t)
            own.process([samples("p1-l0", 10 * t, {Metric.RX_BYTES: grown, Metric.TX_BYTES: grown})])
        return len(own.snapshot())

    assert size(4) < size(12) + 100  # after twelve readings nothing is known of a port but that it moves


def test_a_snapshot_of_another_schema_is_refused() -> None:
    """An older or a newer one: the runner then reads the input again."""
    state = _full()
    size = int.from_bytes(state[:8], "little")
    head = orjson.loads(bytes(cramjam.lz4.decompress(state[8 : 8 + size])))
    for schema in (1, head["schema"] + 1):
        other = bytes(cramjam.lz4.compress(orjson.dumps({**head, "schema": schema})))
        with pytest.raises(Reject, match=f"schema {schema}"):
            stage().restore(len(other).to_bytes(8, "little") + other + state[8 + size :])
    with pytest.raises(Reject):  # the first form: one frame, without a schema
        stage().restore(bytes(cramjam.lz4.compress(state)))


@given(st.data())
def test_a_cut_or_altered_snapshot_is_refused_or_read(data: st.DataObject) -> None:
    """Nothing but Reject leaves it, and a stage that refused is as it was."""
    state = bytearray(_full())
    if data.draw(st.booleans()):
        state = state[: data.draw(st.integers(0, len(state) - 1))]
    else:
        state[data.draw(st.integers(0, len(state) - 1))] ^= data.draw(st.integers(1, 255))
    own = stage()
    before = own.snapshot()
    try:
        own.restore(bytes(state))
    except Reject:
        assert own.snapshot() == before


@pytest.mark.parametrize("counts", [[2], [0], [3, -2]])
def test_a_wrong_number_of_readings_is_refused(counts: list[int]) -> None:
    packer = ArrayEncoder()
    for numbers in (counts, [0] * len(counts), [1], [0]):
        packer.put(np.array(numbers))
    head = {"count": len(counts), "reads": 1, "shapes": [[[], [], []]], "steps": []}
    unpacker = ArrayDecoder(memoryview(blob) for blob in packer.blobs)
    with pytest.raises(ValueError, match=r"readings|islice"):
        unpack_history(head, [ReadingHistory() for _ in counts], unpacker)


def test_a_constant_column_costs_nothing_and_a_slow_one_little() -> None:
    """A million equal numbers are nine bytes; counters whose low bytes alone differ are a fraction of themselves."""
    packer = ArrayEncoder()
    packer.put(np.full((1000, 1000), 4e11))
    assert len(packer.blobs[0]) == 9
    slow = np.uint64(1 << 50) + np.random.default_rng(1).integers(0, 1 << 16, 100_000, np.uint64)
    packer.put(slow)
    assert len(packer.blobs[1]) < slow.nbytes * 0.26
    unpacker = ArrayDecoder(memoryview(blob) for blob in packer.blobs)
    assert (unpacker.take("f8", 1000, 1000) == 4e11).all()
    assert (unpacker.take("u8", 100_000) == slow).all()
    with pytest.raises(Reject, match="missing"):
        unpacker.take("i8", 1)
