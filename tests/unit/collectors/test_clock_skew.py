"""The offset of a device's clock, estimated from the timestamps in its messages."""

from hypothesis import given
from hypothesis import strategies as st

from collectors.core.clock import ClockSkew

S = 1_000_000_000


@given(
    st.integers(-3600 * S, 3600 * S),
    st.lists(st.tuples(st.integers(0, 10 * S), st.integers(0, 86_400 * S)), min_size=1, max_size=50),
    st.integers(0, 50),
)
def test_the_least_delayed_message_gives_the_offset(offset_ns: int, steps: list[tuple[int, int]], prompt: int) -> None:
    """However old the timestamps of other messages are; one prompt message per minute is enough."""
    skew, now_ns = ClockSkew(), 1_700_000_000 * S
    for number, (passes_ns, age_ns) in enumerate(steps):
        now_ns += passes_ns
        skew.add(now_ns + offset_ns - (0 if number == prompt % len(steps) else age_ns), now_ns)
    skew.add(now_ns + offset_ns - 5_000_000, now_ns)
    assert offset_ns - 5_000_000 <= skew.offset_ns <= offset_ns


def test_a_corrected_clock_is_detected_within_two_minutes() -> None:
    """Also if it was ahead before, and by how much it is behind."""
    skew, now_ns = ClockSkew(), 1_700_000_000 * S
    assert skew.offset_ns == 0
    skew.add(now_ns + 300 * S, now_ns)
    assert skew.offset_ns == 300 * S
    for _ in range(13):
        now_ns += 10 * S
        skew.add(now_ns - 20 * S, now_ns)
    assert skew.offset_ns == -20 * S
