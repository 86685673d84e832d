"""A log that floods is bounded, and the last state of a link is never left out."""

from hypothesis import given
from hypothesis import strategies as st

from collectors.core.context import DeviceEvent
from collectors.core.metrics import CollectorMetrics
from collectors.host.rate_limit import RateLimitedEmitter
from streams.wire.models import EventKind


def link(n: int, port: str = "mlx5_0") -> DeviceEvent:
    """An up or a down, by turns."""
    return DeviceEvent(EventKind.LINK_DOWN if n % 2 else EventKind.LINK_UP, port, n, "text")


class Limited:
    """An emitter with what it emitted."""

    def __init__(self, per_s: float, burst: int) -> None:
        self.metrics = CollectorMetrics()
        self.emitted: list[DeviceEvent] = []
        self.emitter = RateLimitedEmitter(
            per_s, burst, self.metrics, "log", lambda happening, _: self.emitted.append(happening)
        )

    def emit(self, happening: DeviceEvent, now_s: float = 0.0) -> None:
        self.emitter.emit(happening, 0, now_s)

    @property
    def left_out(self) -> int:
        return self.metrics.value("throttled", "log")


def test_of_a_flood_the_last_event_comes_as_soon_as_there_is_room() -> None:
    """It has the number of replaced events; its time is its own."""
    log = Limited(1.0, 2)
    for n in range(10):
        log.emit(link(n))
    log.emitter.flush(0, 0.5)
    assert log.emitted == [link(0), link(1)] and log.emitter.waits
    log.emitter.flush(0, 1.0)
    last = log.emitted[-1]
    assert (last.kind, last.at_ns, last.detail) == (EventKind.LINK_DOWN, 9, "text (7 before it left out)")
    assert log.left_out == 7 and not log.emitter.waits


def test_one_port_harms_no_other() -> None:
    """Nor one kind another, nor one Xid another."""
    log = Limited(1.0, 1)
    xids = [DeviceEvent(EventKind.GPU_XID, "mlx5_0", 1, "", code) for code in (79, 94)]
    for happening in (link(0), link(1), link(1, "mlx5_1"), *xids):
        log.emit(happening)
    assert log.emitted == [link(0), link(1, "mlx5_1"), *xids]


def test_alternating_administrative_states_are_one_key_and_not_the_links() -> None:
    """The last event of a port that is shut and enabled is its state, whatever its link does."""
    log = Limited(1.0, 1)
    shut, enabled = (DeviceEvent(kind, "mlx5_0", 1) for kind in (EventKind.ADMIN_DOWN, EventKind.ADMIN_UP))
    for happening in (shut, link(0), enabled, shut, enabled):
        log.emit(happening)
    assert log.emitted == [shut, link(0)]
    log.emitter.end(0)
    assert [happening.kind for happening in log.emitted[2:]] == [EventKind.ADMIN_UP]


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(0, 0.2)), max_size=300))
def test_every_one_is_reported_or_counted_and_the_last_of_each_port_is_reported(steps: list[tuple[int, float]]) -> None:
    """And never more than the burst and the rate allow; what waits at the end is reported once."""
    log, now_s = Limited(2.0, 3), 0.0
    last: dict[str, int] = {}
    for n, (port, later_s) in enumerate(steps):
        now_s += later_s
        last[f"p{port}"] = n
        log.emit(link(n, f"p{port}"), now_s)
        log.emitter.flush(0, now_s)
    assert all(sum(h.port == port for h in log.emitted) <= 3 + 2 * now_s + 1 for port in last)
    log.emitter.end(0)
    assert {h.port: h.at_ns for h in log.emitted} == last
    log.emitter.end(0)
    assert len(log.emitted) + log.left_out == len(steps)


def test_ports_without_number_do_not_fill_the_memory() -> None:
    """An event that is evicted while it waits is counted."""
    log = Limited(0.001, 1)
    for n in range(4_500):
        log.emit(link(n, f"p{n}"))
        log.emit(link(n, f"p{n}"))
    log.emitter.end(0)
    assert len(log.emitted) + log.left_out == 9_000 and log.left_out == 4_500 - 4_096
