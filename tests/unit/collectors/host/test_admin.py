"""Administrative shutdowns: messages and comparisons against the last reported state."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.core.context import DeviceEvent
from collectors.host.links import HOLD_S, AdminStates, Link, Netdev, link_of, ports_of
from streams.wire.errors import Reject
from streams.wire.models import EventKind
from tests.fixtures.netlink_messages import INDEX, message

UP, DOWN = EventKind.ADMIN_UP, EventKind.ADMIN_DOWN
ENABLED, DISABLED = Link(INDEX, is_enabled=True), Link(INDEX, is_enabled=False)
GONE = Link(INDEX, is_enabled=False, is_gone=True)


def netdev(*, is_enabled: bool = True, port: str = "mlx5_0") -> Netdev:
    return Netdev(port, f"net_{port}", is_enabled)


def states(disabled: tuple[str, ...] = (), *, is_enabled: bool = True) -> tuple[AdminStates, list[DeviceEvent]]:
    """Return the states of one port after a comparison, and its events."""
    made = AdminStates(disabled)
    return made, made.refresh({INDEX: netdev(is_enabled=is_enabled)}, 1, 0.0)


def brief(happenings: list[DeviceEvent]) -> list[tuple[EventKind, int]]:
    """Kind and time."""
    return [(happening.kind, happening.at_ns) for happening in happenings]


def test_of_a_message_the_flag_of_the_netdev_itself_is_read() -> None:
    """A bridge's word on its port, an address, or an answer is none."""
    assert link_of(message(flags=0x11043)) == ENABLED
    assert link_of(message(flags=0x11042)) == DISABLED
    assert link_of(message(kind=17)) == GONE
    assert link_of(message(kind=17, family=7)) is None
    assert link_of(message(kind=20)) is None


@pytest.mark.parametrize("data", [b"", message()[:-1], message(length=20), message(index=0), message(index=-1)])
def test_a_message_that_makes_no_sense_is_refused(data: bytes) -> None:
    with pytest.raises(Reject):
        link_of(data)


def test_who_shuts_a_port_is_reported_once_and_dated_when_it_was_received() -> None:
    """Other messages of the same netdev, of its carrier or its queues, change nothing."""
    made, first = states()
    assert first == []
    for at_ns in (5, 6):
        assert made.on_message(DISABLED, at_ns, 1.0) == []
    assert made.due(1.0 + HOLD_S / 2) == []
    (result,) = made.due(1.0 + HOLD_S)
    assert (result.kind, result.port, result.at_ns, result.detail) == (DOWN, "mlx5_0", 5, "net_mlx5_0 is disabled")
    assert made.on_message(DISABLED, 7, 9.0) == made.due(99.0) == []
    assert brief(made.on_message(ENABLED, 8, 100.0)) == [(UP, 8)]
    assert made.on_message(ENABLED, 9, 101.0) == [] and made.disabled == frozenset()


def test_a_port_that_is_enabled_at_once_was_shut_all_the_same() -> None:
    """The link's down and up are reported elsewhere and need their cause."""
    made, _ = states()
    made.on_message(DISABLED, 5, 1.0)
    assert brief(made.on_message(ENABLED, 6, 1.1)) == [(DOWN, 5), (UP, 6)]
    assert made.due(99.0) == []


def test_a_netdev_that_is_taken_away_was_shut_by_no_one() -> None:
    """The kernel closes a netdev before it removes it; for one that returns, the difference is reported."""
    made, _ = states()
    made.on_message(DISABLED, 5, 1.0)
    assert made.on_message(GONE, 6, 1.1) == made.due(99.0) == made.on_message(DISABLED, 7, 99.0) == []
    assert made.refresh({INDEX + 1: netdev()}, 8, 100.0) == []
    made.on_message(Link(INDEX + 1, is_enabled=False), 9, 101.0)
    assert made.refresh({}, 10, 101.1) == made.due(999.0) == []


def test_a_port_that_was_shut_before_its_netdev_went_is_reported_to_be_enabled_when_it_is_back() -> None:
    """Else it would be held shut for ever."""
    made, _ = states()
    made.on_message(DISABLED, 5, 1.0)
    assert len(made.due(9.0)) == 1
    assert made.on_message(GONE, 6, 10.0) == [] and made.disabled == {"mlx5_0"}
    assert made.refresh({9: netdev(is_enabled=False)}, 7, 11.0) == []
    assert brief(made.refresh({9: netdev()}, 8, 12.0)) == [(UP, 8)]


def test_at_the_first_look_only_what_is_disabled_is_reported_and_dated_as_it_was_seen() -> None:
    """The time of the change is unknown."""
    made, _ = states(is_enabled=False)
    (result,) = made.due(HOLD_S)
    assert (result.kind, result.at_ns, result.detail) == (DOWN, 1, "net_mlx5_0 was found disabled")


@pytest.mark.parametrize(
    ("disabled", "is_enabled", "emitted"), [((), True, []), ((), False, [(DOWN, 1)]), (("mlx5_0",), True, [(UP, 1)]),
                                         (("mlx5_0",), False, [])],
)  # fmt: skip
def test_a_restart_reports_what_turned_meanwhile(
    disabled: tuple[str, ...], is_enabled: bool, emitted: list[tuple[EventKind, int]]
) -> None:
    made, first = states(disabled, is_enabled=is_enabled)
    assert brief(first + made.due(9.0)) == emitted


def test_a_netdev_of_another_name_is_the_same_and_an_unknown_one_is_nobodys() -> None:
    """By its index; until it is looked at, a netdev that comes later is no port's."""
    made, _ = states()
    assert made.on_message(Link(99, is_enabled=False), 2, 1.0) == []
    made.refresh({INDEX: Netdev("mlx5_0", "renamed", is_enabled=True), 99: netdev(port="mlx5_1")}, 3, 2.0)
    made.on_message(DISABLED, 4, 3.0)
    made.on_message(Link(99, is_enabled=False), 5, 3.0)
    assert [(result.port, result.at_ns) for result in made.due(9.0)] == [("mlx5_0", 4), ("mlx5_1", 5)]


def test_what_waits_at_the_end_is_reported() -> None:
    made, _ = states()
    made.on_message(DISABLED, 5, 1.0)
    assert brief(made.rest()) == [(DOWN, 5)] and made.rest() == [] and made.disabled == {"mlx5_0"}


@given(st.lists(st.tuples(st.sampled_from([ENABLED, DISABLED]), st.floats(0, 3)), max_size=50))
def test_downs_and_ups_take_turns_in_the_order_of_their_dates_and_the_last_is_how_it_stands(
    steps: list[tuple[Link, float]],
) -> None:
    made, _ = states()
    result: list[DeviceEvent] = []
    now_s = 0.0
    for at_ns, (link, later_s) in enumerate(steps, 2):
        now_s += later_s
        result += made.due(now_s) + made.on_message(link, at_ns, now_s)
    result += made.rest()
    assert [happening.kind for happening in result] == [DOWN if n % 2 == 0 else UP for n in range(len(result))]
    assert [happening.at_ns for happening in result] == sorted(happening.at_ns for happening in result)
    turns = [link.is_enabled for link, _ in steps]
    assert len(result) == sum(now != before for now, before in zip(turns, [True, *turns], strict=False))


@pytest.mark.parametrize(
    ("result", "ports"), [(["a", "b"], ("a", "b")), ([], ()), ({}, None), (None, None), ([1], None)]
)
def test_what_was_written_is_a_list_of_ports_or_nothing(result: object, ports: tuple[str, ...] | None) -> None:
    """As if there were no file."""
    assert ports_of(result) == ports
