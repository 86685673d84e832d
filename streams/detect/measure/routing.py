"""Chooses the topic and the pods of what `measure` emits."""

from collections.abc import Iterable

from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from streams.wire.models import (
    CablingReport,
    PeerWindow,
    ProbeWindow,
    RailProbes,
    Symptom,
    SymptomsReplaced,
    VersionCensus,
    Window,
)
from streams.wire.stage import Output
from streams.wire.symptoms import Restart
from streams.wire.topics import SUMMARIES, SYMPTOMS

Emitted = Symptom | SymptomsReplaced | Window | PeerWindow | CablingReport | VersionCensus | ProbeWindow | RailProbes

_FLEET = "fleet"
"""Key of what concerns all pods."""


def route(topology: Topology, messages: Iterable[Emitted]) -> list[Output]:
    """Return the outputs, in the order of the messages."""
    return [
        Output(
            SYMPTOMS if isinstance(message, Symptom | SymptomsReplaced | CablingReport) else SUMMARIES, message, key=pod
        )
        for message in messages
        for pod in _pods(topology, message)
    ]


def _pods(topology: Topology, message: Emitted) -> Iterable[str]:
    """Return the home pod of a port's link; for a restart all pods with a link of the device; else the device's pod."""
    if isinstance(message, VersionCensus | ProbeWindow):
        return (_FLEET,)
    if isinstance(message, Symptom | SymptomsReplaced | Window | CablingReport | RailProbes) and message.port:
        return (topology.home_pod(Port(message.device, message.port)),)
    if isinstance(message, Symptom) and isinstance(message.payload, Restart):
        return sorted(topology.pods_of_links(message.device))
    return (topology.pod_of(message.device),)
