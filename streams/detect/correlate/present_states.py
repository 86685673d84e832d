"""Restores changes that `correlate` missed, from the present states of ports and devices, after unread deletions.

`measure` reports changes once. For every state except those of links PORT_STATES has the newest message, which is
processed again; detectors skip known messages. If the state of a port differs from the last state in the history of its
link, a change was among the deleted symptoms. The change is added as of the start of the present state, like a first
reading (since 0). A later symptom of the same change, with the reading before it, supersedes it.
"""

from collections.abc import Callable, Iterator

from streams.detect.evidence.link_history import FOREVER, LinkHistory
from streams.detect.evidence.shared import SharedEvidence
from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from streams.wire.models import Endpoint, Message, PortState, PortStates, Symptom
from streams.wire.symptoms import PortChange, PortTransition, Restart, SourceSilence


def missed_changes(
    states: PortStates, topology: Topology, history_of: Callable[[Port], LinkHistory | None]
) -> Iterator[Symptom]:
    """Yield the changes missing from the histories of a source's ports; `history_of` returns None for other partitions.

    A silent source and an unobserved port prove nothing.
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
    """Yield the changes that lead to an end's state since `at_ns`; none if the history ends with a later change."""
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
    """Return the start of the last interval if it is open."""
    return intervals[-1][0] if intervals and intervals[-1][1] == FOREVER else None


def is_known(newest: Message, evidence: SharedEvidence) -> bool:
    """Return whether the newest symptom of a whole device is known, even if `attribute` has dropped it since.

    Detectors skip known symptoms, but `attribute` would process an old silence or restart again.
    """
    if not isinstance(newest, Symptom):
        return False
    match newest.payload:
        case SourceSilence(has_resumed=has_resumed):
            return has_resumed is not (newest.source in evidence.silent.get(newest.device, ()))
        case Restart():
            return (newest.since_ns or newest.at_ns, newest.at_ns) in evidence.restarts.get(newest.device, ())
        case _:
            return False
