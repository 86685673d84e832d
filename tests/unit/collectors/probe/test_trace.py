"""Tests the traces of paths: silent hops, routes that change, how far packets get, and the rate."""

import pytest

from collectors.probe.trace import FlowTrace, TracedPath, next_turns


def traced(
    hops: dict[int, str], arrived: int = 0, path: TracedPath | None = None, *, after_loss: bool = False
) -> TracedPath:
    path = path or TracedPath()
    path.begin()
    for ttl, address in hops.items():
        path.answered(ttl, address)
    if arrived:
        path.arrived(arrived)
    path.end(after_loss=after_loss)
    return path


@pytest.mark.parametrize(
    ("hops", "arrived", "expected", "complete"),
    [
        ({1: "a", 2: "b", 3: "c"}, 4, ("a", "b", "c"), True),
        ({1: "a", 3: "c"}, 4, ("a", "", "c"), False),
        ({1: "a"}, 2, ("a",), True),
        ({1: "a", 2: "b"}, 0, (), False),
    ],
)
def test_a_path_is_what_a_trace_that_reached_the_target_shows(
    hops: dict[int, str], arrived: int, expected: tuple[str, ...], *, complete: bool
) -> None:
    """A silent hop is unknown; a trace that did not reach the target shows no path."""
    path = traced(hops, arrived)
    assert (path.hops, path.is_complete) == (expected, complete)


def test_a_later_trace_completes_the_path_and_another_route_replaces_it() -> None:
    """Hops of two different paths are never joined."""
    path = traced({1: "a", 3: "c"}, 4)
    traced({1: "a", 2: "b"}, 4, path)
    assert path.hops == ("a", "b", "c")
    traced({1: "a", 2: "x"}, 4, path)
    assert path.hops == ("a", "x", "")


def test_after_a_loss_the_known_path_stays_and_the_reach_is_how_far_packets_get() -> None:
    """The link after the last hop that answers lost the packets."""
    path = traced({1: "a", 2: "b", 3: "c"}, 4)
    traced({1: "a"}, 0, path, after_loss=True)
    assert (path.hops, path.reach) == (("a", "b", "c"), 1)
    traced({1: "a", 2: "b"}, 4, path, after_loss=True)
    assert path.reach == 3


def test_a_trace_with_silent_hops_is_repeated_a_few_times() -> None:
    """Then it waits for its interval as the others do."""
    trace = FlowTrace()
    begun = []
    for second in range(0, 700, 2):
        trace.end_if_over(second, every_s=600)
        if trace.begun_s is None and trace.due_s <= second:
            trace.begin(second)
            trace.forward.answered(1, "a")
            trace.forward.arrived(4)
            begun.append(second)
    assert begun == [0, 2, 4, 606, 608, 610]


def test_each_rail_traces_one_flow_at_a_time_urgent_ones_first() -> None:
    traces = {number: FlowTrace() for number in range(4)}
    rails = {0: "r0", 1: "r0", 2: "r1", 3: "r0"}
    traces[3].request_urgent(0.0)

    def turns(now_s: float) -> list[int]:
        found = next_turns(((n, rails[n], trace) for n, trace in traces.items()), now_s)
        for number in found:
            traces[number].begin(now_s)
        return found

    assert turns(0.0) == [3, 2]
    assert turns(1.0) == [0]
