"""Every parser returns, or raises its own error, within time and memory, for any bytes (tests/fuzz)."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.registry import BY_NAME, TARGETS
from tests.fuzz.target import CORPUS, MAX_INPUT_BYTES, MemoryMeter, Target, check


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_the_corpus_breaks_no_promise(target: Target) -> None:
    """The valid inputs are accepted; what a fuzzer has found once is refused or accepted as it should be."""
    meter = MemoryMeter()
    accepted = [check(target, data, meter) for data in target.seeds()]
    assert any(accepted)
    for data in target.inputs():
        check(target, data, meter)


@st.composite
def _inputs(draw: st.DrawFn, target: Target) -> bytes:
    """Any bytes, or a valid input with a piece changed, removed, repeated or inserted."""
    data = draw(st.sampled_from(list(target.seeds())))
    for _ in range(draw(st.integers(0, 3))):
        begin = draw(st.integers(0, len(data)))
        end = draw(st.integers(begin, min(len(data), begin + 16)))
        piece = draw(st.binary(max_size=8) | st.sampled_from([data[begin:end] * 3, b"", b"\xff" * 8, b"-1", b"[" * 64]))
        data = data[:begin] + piece + data[end:]
    return draw(st.just(data[:MAX_INPUT_BYTES]) | st.binary(max_size=64))


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_any_input_breaks_no_promise(target: Target) -> None:
    """Changed inputs and noise."""
    meter = MemoryMeter()

    @settings(deadline=None, max_examples=30, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(_inputs(target))
    def holds(data: bytes) -> None:
        check(target, data, meter)

    holds()


def test_the_corpus_has_only_targets() -> None:
    """No test would read the folder of a target that was renamed."""
    assert {path.name for path in CORPUS.iterdir()} <= set(BY_NAME)
