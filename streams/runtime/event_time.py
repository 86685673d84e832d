"""The event time of a message, as far as the runner needs it: to choose the version of the inventory."""

from streams.wire.models import (
    IDLE_NS,
    CablingReport,
    CollectorStatus,
    Control,
    Episode,
    Event,
    Facts,
    Finding,
    HostRates,
    Message,
    PeerWindow,
    PortModules,
    PortQuality,
    PortStates,
    ProbeReport,
    ProbeWindow,
    Progress,
    RailDelays,
    RailProbes,
    ReadingsHeartbeat,
    RemediationResult,
    Samples,
    StateTransfer,
    Symptom,
    SymptomsReplaced,
    VersionCensus,
    Window,
)


def event_time_ns(message: Message) -> int | None:
    """Return the event time of a message; None where it has none."""
    match message:
        case Samples(sampled_at_ns=at, received_at_ns=received) | Event(at_ns=at, received_at_ns=received):
            # A device's clock may be ahead; what was received cannot be of later (DESIGN 2.1).
            return min(at, received) if received else at
        case ProbeReport(end_ns=at, received_at_ns=received):
            return min(at, received) if received else at
        case CollectorStatus(at_ns=at) | Symptom(at_ns=at) | Facts(observed_at_ns=at):
            return at
        case CablingReport(at_ns=at) | VersionCensus(at_ns=at) | StateTransfer(at_ns=at):
            return at
        case SymptomsReplaced(since_ns=at):
            return at
        case (
            Window(end_ns=at)
            | PeerWindow(end_ns=at)
            | RailProbes(end_ns=at)
            | RailDelays(end_ns=at)
            | ProbeWindow(at_ns=at)
            | HostRates(end_ns=at)
        ):
            return at
        case Finding(observed_at_ns=at) | Episode(finding=Finding(observed_at_ns=at)):
            return at
        case Control(at_ns=maybe) | RemediationResult(at_ns=maybe):
            return maybe
        case PortStates(changed_ns=at) | ReadingsHeartbeat(watermark_ns=at) | PortModules(observed_ns=at):
            return at
        case PortQuality(readings=readings):
            return max((one.end_ns for one in readings), default=None)
        case Progress(watermark_ns=at) if at != IDLE_NS:
            return at
        case _:
            return None
