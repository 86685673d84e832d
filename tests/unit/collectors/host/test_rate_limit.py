"""A log that floods is bounded, and the last word on a link is never left out."""

from hypothesis import given
from hypothesis import strategies as st

from collectors.core.context import DeviceEvent
from collectors.host.rate_limit import RateLimiter
from streams.wire.models import EventKind


def link(n: int, port: str = "mlx5_0") -> DeviceEvent:
    """An up or a down, by turns."""
    return DeviceEvent(EventKind.LINK_DOWN if n % 2 else EventKind.LINK_UP, port, n, "text")


def test_a_quiet_log_is_passed_on_as_it_is() -> None:
    """At once, in order, unchanged."""
    bound = RateLimiter(1.0, 20)
    for n in range(20):
        assert bound.admit(link(n), 0.0) == (link(n),)
    assert not bound.waits and bound.due(100.0) == ()


def test_of_a_flood_the_last_word_comes_as_soon_as_there_is_room() -> None:
    """It has the number of replaced events; its time is its own."""
    bound = RateLimiter(1.0, 2)
    result = [h for n in range(10) for h in bound.admit(link(n), 0.0)]
    assert result == [link(0), link(1)] and bound.waits
    assert bound.due(0.5) == ()
    (last,) = bound.due(1.0)
    assert (last.kind, last.at_ns, last.detail) == (EventKind.LINK_DOWN, 9, "text (7 before it left out)")
    assert bound.left_out == 7 and not bound.waits


def test_one_port_harms_no_other() -> None:
    """Nor one kind another, nor one Xid another."""
    bound = RateLimiter(1.0, 1)
    bound.admit(link(0), 0.0)
    assert bound.admit(link(1), 0.0) == ()
    assert bound.admit(link(1, "mlx5_1"), 0.0)
    for code in (79, 94):
        assert bound.admit(DeviceEvent(EventKind.GPU_XID, "mlx5_0", 1, "", code), 0.0)


def test_what_a_person_does_by_turns_is_one_and_not_the_links() -> None:
    """The last word on a port that is shut and enabled is how it stands, whatever its link does."""
    bound = RateLimiter(1.0, 1)
    shut, enabled = (DeviceEvent(kind, "mlx5_0", 1) for kind in (EventKind.ADMIN_DOWN, EventKind.ADMIN_UP))
    assert bound.admit(shut, 0.0) == (shut,) and bound.admit(link(0), 0.0) == (link(0),)
    assert bound.admit(enabled, 0.0) == bound.admit(shut, 0.0) == bound.admit(enabled, 0.0) == ()
    assert [happening.kind for happening in bound.rest()] == [EventKind.ADMIN_UP]


def test_what_waits_at_the_end_is_reported() -> None:
    """With or without capacity."""
    bound = RateLimiter(1.0, 1)
    for n in range(3):
        bound.admit(link(n), 0.0)
    assert [h.at_ns for h in bound.rest()] == [2] and bound.rest() == ()


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(0, 0.2)), max_size=300))
def test_every_one_is_reported_or_counted_and_the_last_of_each_port_is_reported(steps: list[tuple[int, float]]) -> None:
    """And never more than the burst and the rate allow."""
    bound, now_s = RateLimiter(2.0, 3), 0.0
    result: list[DeviceEvent] = []
    last: dict[str, int] = {}
    for n, (port, later_s) in enumerate(steps):
        now_s += later_s
        last[f"p{port}"] = n
        result += bound.admit(link(n, f"p{port}"), now_s)
        result += bound.due(now_s)
    assert all(sum(h.port == port for h in result) <= 3 + 2 * now_s + 1 for port in last)
    result += bound.rest()
    assert {h.port: h.at_ns for h in result} == last
    assert len(result) + bound.left_out == len(steps)


def test_ports_without_number_do_not_fill_the_memory() -> None:
    """An event that is evicted while it waits is counted."""
    bound = RateLimiter(0.001, 1)
    for n in range(10_000):
        bound.admit(link(n, f"p{n}"), 0.0)
        bound.admit(link(n, f"p{n}"), 0.0)
    assert len(bound.rest()) + bound.left_out == 10_000
