"""Extracts faults that devices report of their own ports, as evidence of a link's failure and of its cause."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from streams.detect.detector import Context
from streams.detect.evidence.link_history import FOREVER, LinkHistory
from streams.detect.thresholds import ns
from streams.fabric.ids import Port
from streams.fabric.intervals import Interval
from streams.wire.models import Cause, Endpoint, Evidence
from streams.wire.symptoms import SESSION_FAULTS, Fault, PortFault

_BEFORE_NS = ns(60)
"""A fault counts if it began within this time before: modules are read at least once a minute."""

_METRICS = {
    Fault.LOSS_OF_LIGHT: "rx_los", Fault.TRANSMITTER: "tx_fault", Fault.MODULE: "module_events",
    Fault.MODULE_REMOVED: "module_events", Fault.NIC_FIRMWARE: "nic_firmware_error", Fault.DAMPED: "damped",
    Fault.SLOT_POWER: "slot_power", Fault.FRAME_LOSS_PREDICTED: "fec_flr_predicted", Fault.LASER_OFF: "bias_ma",
    Fault.CORRUPT_PACKETS: "rx_icrc_errors", Fault.RETRIES_EXCEEDED: "transport_retries_exceeded",
    Fault.PCIE_SIGNAL: "pcie_rx_signal_errors", Fault.NVLINK: "nvlink_replays",
    Fault.BFD_SESSION_DOWN: "bfd_session_up", Fault.BGP_SESSION_DOWN: "bgp_session_up",
    Fault.OPTICS: "module_events", Fault.CONTRADICTED: "oper_up",
}  # fmt: skip
_STATEMENTS = {
    Fault.LOSS_OF_LIGHT: "its module reports loss of light",
    Fault.TRANSMITTER: "its module reports a fault of its transmitter",
    Fault.MODULE: "its module reports a fault",
    Fault.MODULE_REMOVED: "its module was removed",
    Fault.NIC_FIRMWARE: "its NIC reports a firmware error",
    Fault.DAMPED: "its switch dampens the port, so that further changes are not reported",
    Fault.SLOT_POWER: "the PCIe slot of its NIC gives too little power",
    Fault.FRAME_LOSS_PREDICTED: "its FEC codewords predict lost frames",
    Fault.LASER_OFF: "its laser takes no current",
    Fault.CORRUPT_PACKETS: "packets arrive with a good FCS and a bad ICRC: a switch or NIC corrupts them, not the link",
    Fault.RETRIES_EXCEEDED: "queue pairs failed, because their retries were exceeded",
    Fault.PCIE_SIGNAL: "the PCIe link of its NIC has signal errors",
    Fault.NVLINK: "its NVLinks have errors",
    Fault.BFD_SESSION_DOWN: "its BFD session is down",
    Fault.BGP_SESSION_DOWN: "its BGP session is not established",
    Fault.OPTICS: "a value of its module is beyond the module's limit",
    Fault.CONTRADICTED: "its sources contradict each other",
}
_REMOVED_NS = ns(30)
"""A removal counts as the cause if it is reported within this time after the begin: links go down before some devices
read the module. A module that is removed later belongs to the repair (choice)."""
_CAUSES = (
    (Fault.NIC_FIRMWARE, Cause.NIC), (Fault.MODULE, Cause.OPTIC), (Fault.TRANSMITTER, Cause.OPTIC),
    (Fault.LASER_OFF, Cause.OPTIC), (Fault.LOSS_OF_LIGHT, Cause.CABLE),
)  # fmt: skip
"""Faults and causes, the nearest to the root first. Missing light is lost in the fiber or not sent (DETECTION 4)."""


@dataclass(frozen=True, slots=True)
class ReportedFault:
    """A fault of one end, on one lane or all, from `begin_ns` to `end_ns`; equal for a fault without an end."""

    end: Endpoint
    fault: Fault
    lane: int | None
    begin_ns: int
    end_ns: int
    report: str


def reported_faults(history: LinkHistory, span: Interval) -> list[ReportedFault]:
    """Return the faults of both ends that an episode of the link may have by `span`, in order of time."""
    found = [
        fault
        for end in history.ends()
        for fault in _faults_at(history, end)
        if fault.begin_ns <= span[1] and (fault.end_ns >= span[0] - _BEFORE_NS)
    ]
    return sorted(
        found, key=lambda one: (one.begin_ns, one.end.device, one.fault, -1 if one.lane is None else one.lane)
    )


def _faults_at(history: LinkHistory, end: Endpoint) -> Iterator[ReportedFault]:
    open_since: dict[tuple[Fault, int | None], ReportedFault] = {}
    for symptom in history.at(end):
        payload = symptom.payload
        if not isinstance(payload, PortFault):
            continue
        key, at_ns = (payload.fault, payload.lane), symptom.at_ns
        if payload.is_over:
            if (known := open_since.pop(key, None)) is not None:
                yield ReportedFault(end, *key, known.begin_ns, at_ns, known.report)
        elif payload.fault.has_end:
            open_since.setdefault(key, ReportedFault(end, *key, at_ns, FOREVER, payload.report))
        else:
            yield ReportedFault(end, *key, at_ns, at_ns, payload.report)
    yield from open_since.values()


def part_evidence(context: Context, end: Endpoint, span: Interval, kinds: Collection[Fault]) -> list[Evidence]:
    """Return the evidence of a host's part: the faults of these kinds that its device reports."""
    history = context.evidence.links.get(context.topology.subject_id(Port(end.device, end.port)))
    if history is None:
        return []
    own = [one for one in reported_faults(history, span) if one.fault in kinds and one.end == end]
    return list(fault_evidence(own, span))


def fault_cause(faults: list[ReportedFault], otherwise: Cause) -> Cause:
    """Return the cause that the faults show."""
    kinds = {one.fault for one in faults}
    return next((cause for fault, cause in _CAUSES if fault in kinds), otherwise)


def down_cause(faults: list[ReportedFault], begin_ns: int) -> Cause:
    """Return the cause of downs from `begin_ns` on: a module that was removed, whatever the far end shows of it."""
    if any(one.fault is Fault.MODULE_REMOVED and one.begin_ns <= begin_ns + _REMOVED_NS for one in faults):
        return Cause.MODULE_REMOVED
    return fault_cause(faults, Cause.UNKNOWN)


def fault_evidence(faults: list[ReportedFault], span: Interval) -> Iterator[Evidence]:
    """Yield evidence of each end and kind of fault within an episode's `span`."""
    groups: dict[tuple[Endpoint, Fault], list[ReportedFault]] = {}
    for one in faults:
        groups.setdefault((one.end, one.fault), []).append(one)
    for (end, fault), own in groups.items():
        lanes = sorted({one.lane for one in own if one.lane is not None})
        name = "link" if fault is Fault.NVLINK else "lane"
        where = f" on {name} {', '.join(map(str, lanes))}" if lanes else ""
        report = next((f": {one.report}" for one in own if one.report), "")
        end_ns = min(max(one.end_ns for one in own), span[1])
        yield Evidence(
            f"{end.device}/{end.port}: {_STATEMENTS[fault]}{where}{report}", metric=_METRICS[fault], at=end,
            comparison="threshold", window_start_ns=own[0].begin_ns,
            window_end_ns=None if end_ns == FOREVER else max(end_ns, own[0].begin_ns),
        )  # fmt: skip


def session_downs(history: LinkHistory) -> Iterator[Interval]:
    """Yield the downs of sessions that were up before, until FOREVER if they are; a first reading shows no change."""
    for end in history.ends():
        for fault in SESSION_FAULTS:
            yield from _downs(history, end, fault)


def _downs(history: LinkHistory, end: Endpoint, fault: Fault) -> Iterator[Interval]:
    begin_ns = 0
    for symptom in history.at(end):
        payload = symptom.payload
        if not isinstance(payload, PortFault) or payload.fault is not fault:
            continue
        if payload.is_over and begin_ns:
            yield begin_ns, symptom.at_ns
            begin_ns = 0
        elif not payload.is_over and (symptom.since_ns or symptom.by_event):
            begin_ns = begin_ns or symptom.at_ns
    if begin_ns:
        yield begin_ns, FOREVER
