"""Chooses the topics and the pods of the messages that `measure` emits."""

from collections.abc import Iterable, Iterator

from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from streams.wire.models import (
    CablingReport,
    HostRates,
    PeerWindow,
    PortReaders,
    ProbeWindow,
    RailDelays,
    RailProbes,
    Symptom,
    SymptomsReplaced,
    VersionCensus,
    Window,
)
from streams.wire.stage import Output
from streams.wire.symptoms import Restart, lasting_state
from streams.wire.topics import PORT_STATES, SUMMARIES, SYMPTOMS

Emitted = (
    Symptom
    | SymptomsReplaced
    | Window
    | PeerWindow
    | CablingReport
    | VersionCensus
    | HostRates
    | ProbeWindow
    | RailProbes
    | RailDelays
    | PortReaders
)

_OF_PORTS = Symptom | SymptomsReplaced | Window | CablingReport | RailProbes | RailDelays

_FLEET = "fleet"
"""The key of messages that concern all pods."""


def route(topology: Topology, messages: Iterable[Emitted]) -> list[Output]:
    """Return the outputs, in the order of the messages."""
    return [
        Output(
            SYMPTOMS if isinstance(message, Symptom | SymptomsReplaced | CablingReport) else SUMMARIES, message, key=pod
        )
        for message in messages
        for pod in pods_of(topology, message)
    ]


def newest_of_states(messages: Iterable[Emitted]) -> Iterator[Output]:
    """Yield the messages that begin or end a state again, for PORT_STATES, which retains the newest of each state.

    `correlate` reads them after its input was deleted unread. After a late reading the newest message may be of an
    earlier time than one before it.
    """
    for message in messages:
        if isinstance(message, SymptomsReplaced):
            yield Output(PORT_STATES, message, key=_state_key(message, f"congestion/{message.state.name}"))
            yield from newest_of_states(message.replacements)
        elif isinstance(message, Symptom) and (state := lasting_state(message.payload)) is not None:
            yield Output(PORT_STATES, message, key=_state_key(message, state))
        elif isinstance(message, CablingReport):
            yield Output(PORT_STATES, message, key=_state_key(message, "cabling"))
        elif isinstance(message, VersionCensus):
            yield Output(PORT_STATES, message, key=f"shard/{message.shard}/census")


def _state_key(message: Symptom | SymptomsReplaced | CablingReport, state: str) -> str:
    return f"{message.device}/{message.source.name}/{message.port}/{state.lower()}"


def pods_of(topology: Topology, message: Emitted) -> Iterable[str]:
    """Return the home pod of a port's link; for a restart all pods with a link of the device; else the device's pod."""
    if isinstance(message, VersionCensus | HostRates | ProbeWindow | PortReaders):
        return (_FLEET,)
    if isinstance(message, _OF_PORTS) and message.port:
        return (topology.home_pod(Port(message.device, message.port)),)
    if isinstance(message, Symptom) and isinstance(message.payload, Restart):
        return sorted(topology.pods_of_links(message.device))
    return (topology.pod_of(message.device),)
