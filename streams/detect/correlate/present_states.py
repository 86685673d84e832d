"""Finds what the history of a link lacks, by the present states of its ports, after symptoms were deleted unread.

`measure` reports changes once. Of a port whose state differs from what the history of its link ends with, a change was
among the deleted symptoms: it is added as of the time since which the port has its state, like a first reading (since
0). A symptom of the same change that arrives later, with the reading before it, supersedes it.
"""

from collections.abc import Callable, Iterator

from streams.detect.evidence.link_history import FOREVER, LinkHistory
from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from streams.wire.models import Endpoint, PortState, PortStates, Symptom
from streams.wire.symptoms import PortChange, PortTransition


def missed_changes(
    states: PortStates, topology: Topology, history_of: Callable[[Port], LinkHistory | None]
) -> Iterator[Symptom]:
    """Yield the changes that the histories of a source's ports lack; `history_of` returns None for other partitions.

    A source that is silent proves nothing, nor does a port that is not observed.
    """
    if states.silent_since_ns:
        return
    since_ns = dict(zip(states.changed, states.since_ns, strict=True))
    for index, (name, number) in enumerate(zip(states.ports, states.states, strict=True)):
        port = topology.resolve_port(states.device, name)
        history = history_of(port)
        if history is None or number == PortState.NOT_OBSERVED:
            continue
        at_ns = since_ns.get(index, states.first_ns)
        for change in _changes(history, Endpoint(port.device, port.port), PortState(number), at_ns):
            yield Symptom(port.device, port.port, PortTransition(change), at_ns, source=states.source)


def _changes(history: LinkHistory, end: Endpoint, state: PortState, at_ns: int) -> Iterator[PortChange]:
    """Yield the changes after which an end has a state since `at_ns`; none where the history ends with a later one."""
    disabled_ns, down_ns = _open_since(history.disabled_of(end)), _open_since(history.downs(end))
    is_disabled, is_down = disabled_ns is not None, down_ns is not None
    if max(disabled_ns or 0, down_ns or 0, history.newest_change_ns(end)) >= at_ns:
        return
    if state is PortState.ADMIN_DOWN and not is_disabled:
        yield PortChange.ADMIN_DISABLED
    elif state is not PortState.ADMIN_DOWN and is_disabled:
        yield PortChange.ADMIN_ENABLED
    if state is PortState.UP and is_down:
        yield PortChange.CAME_UP
    elif state is PortState.DOWN and not is_down:
        yield PortChange.WENT_DOWN


def _open_since(intervals: list[tuple[int, int]]) -> int | None:
    """Return the begin of the last interval if it goes on."""
    return intervals[-1][0] if intervals and intervals[-1][1] == FOREVER else None
