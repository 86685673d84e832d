"""The short cut for messages with the newest timestamp changes no conclusion about a device's timestamps."""

from hypothesis import example, given
from hypothesis import strategies as st

from collectors.gnmi.sample_time import SampleTime

S = 10**9
STEPS = st.tuples(
    st.sampled_from([0, 1000, S // 10, S, 10 * S, 31 * S, 200 * S]),
    st.sampled_from(["same", "now", "a second old", "40 s old", "a day old", "a second before the last"]),
    st.booleans(),
    st.integers(0, 9),
)
"""The time since the last message, its timestamp, whether it has samples, and 0 if its reading ends."""


@example(S, [(0, "40 s old", True, 9), (0, "now", False, 9), (0, "same", True, 9)])
@given(st.sampled_from([S, 10 * S, 60 * S]), st.lists(STEPS, max_size=60))
def test_the_short_cut_concludes_as_the_whole_comparison(
    cadence_ns: int, steps: list[tuple[int, str, bool, int]]
) -> None:
    """Also for times of changes, stuck clocks, states on change, and messages that arrive much later."""
    short, whole = SampleTime(cadence_ns), SampleTime(cadence_ns)
    received_ns = device_ns = 10**18
    for after_ns, stamp, is_sampled, end in steps:
        received_ns += after_ns
        device_ns = {
            "same": device_ns, "now": received_ns, "a second old": received_ns - S, "40 s old": received_ns - 40 * S,
            "a day old": received_ns - 86_400 * S, "a second before the last": device_ns - S,
        }[stamp]  # fmt: skip
        is_settled = short.is_settled(device_ns, received_ns - after_ns, received_ns)
        found = not is_settled and short.add(device_ns, received_ns, lambda: is_sampled)  # noqa: B023
        assert found == whole.add(device_ns, received_ns, lambda: is_sampled)  # noqa: B023
        assert short.is_of_change == whole.is_of_change
        if end == 0:
            short.end_reading()
            whole.end_reading()
            assert short.is_of_change == whole.is_of_change
