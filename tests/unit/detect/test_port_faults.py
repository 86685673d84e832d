"""Faults that devices report of their own ports are evidence for what happens to the link, and name its cause."""

from dataclasses import replace

import pytest

from streams.detect.evidence.link_history import LinkHistory
from streams.detect.evidence.subjects import device_subject, part_subject, port_subject
from streams.detect.measure.stage import Measure
from streams.detect.thresholds import ns
from streams.fabric.catalogue import Metric
from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from streams.wire.models import Cause, Condition, EventKind, Finding, Source, Symptom
from streams.wire.symptoms import Fault, GpuXid, PortFault
from tests.worlds.measure_stage import stage, symptoms_of
from tests.worlds.observations import HOST, LEAF, NIC, at, correlated, down, event, flaps, last, samples, up
from tests.worlds.small_fabric import inventory, topology


def fault(
    port: str, t: float, kind: Fault, lane: int | None = None, *, over: bool = False, report: str = ""
) -> Symptom:
    """Return a fault that a device reports."""
    device, _, name = port.partition("/")
    return Symptom(device, name, PortFault(kind, lane, over, report), at(t), source=Source.SOURCE_GNMI, by_event=True)


def faults_of(own: Measure, *readings: dict[tuple[Metric, int], float | None]) -> list[tuple[Fault, int | None, bool]]:
    """Return the faults that readings of one port, 10 s apart, show."""
    messages = [
        samples("p1-h1", 10 * turn, {Metric.OPER_UP: {"e0": 1.0}}, source=NIC, sequence=turn + 1,
                indexed={column: {"e0": value} for column, value in cells.items()})
        for turn, cells in enumerate(readings)
    ]  # fmt: skip
    payloads = (symptom.payload for symptom in symptoms_of(own, messages))
    return [(one.fault, one.lane, one.is_over) for one in payloads if isinstance(one, PortFault)]


def test_gauges_are_faults_where_they_pass_their_limit() -> None:
    """Of each lane; a flag that is not set at first is none."""
    los, bias = (Metric.RX_LOS, 1), (Metric.BIAS_MA, 0)
    assert faults_of(stage(), {los: 0.0}, {los: 1.0}, {los: 1.0}, {los: None}, {los: 0.0}) == [
        (Fault.LOSS_OF_LIGHT, 1, False), (Fault.LOSS_OF_LIGHT, 1, True),
    ]  # fmt: skip
    assert faults_of(stage(), {bias: 7.5}, {bias: 0.0}) == [(Fault.LASER_OFF, 0, False)]
    assert faults_of(stage(), {(Metric.FEC_FLR_PREDICTED, -1): 1e-7}) == [(Fault.FRAME_LOSS_PREDICTED, None, False)]
    assert faults_of(stage(), {(Metric.DAMPED, -1): 0.0}, {(Metric.DAMPED, -1): 0.0}) == []


def test_counters_are_faults_where_they_grow() -> None:
    """The first reading is none, and neither is a counter that falls."""
    events, retries = (Metric.MODULE_EVENTS, 1), (Metric.TRANSPORT_RETRIES_EXCEEDED, -1)
    assert faults_of(stage(), {events: 5}, {events: 6}, {events: 6}, {events: 0}) == [(Fault.MODULE, None, False)]
    assert faults_of(stage(), {retries: 9}, {retries: 12}) == [(Fault.RETRIES_EXCEEDED, None, False)]
    assert faults_of(stage(), {(Metric.RX_ICRC_ERRORS, -1): 0}, {(Metric.RX_ICRC_ERRORS, -1): 2}) == [
        (Fault.CORRUPT_PACKETS, None, False)
    ]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (EventKind.MODULE_FAULT, Fault.MODULE), (EventKind.NIC_FIRMWARE_ERROR, Fault.NIC_FIRMWARE),
        (EventKind.SLOT_POWER, Fault.SLOT_POWER), (EventKind.MODULE_INSERTED, None), (EventKind.LOG, None),
        (EventKind.LOSS_OF_SIGNAL, Fault.LOSS_OF_LIGHT), (EventKind.OPTICS_ALARM, Fault.OPTICS),
        (EventKind.BGP_DOWN, Fault.BGP_SESSION_DOWN), (EventKind.HARDWARE_FAULT, None),
    ],
)  # fmt: skip
def test_events_of_ports_are_faults(kind: EventKind, expected: Fault | None) -> None:
    """An event of the device as a whole belongs to no link."""
    found = [s.payload for s in symptoms_of(stage(), [event(HOST, 5, kind)]) if isinstance(s.payload, PortFault)]
    assert [one.fault for one in found] == ([expected] if expected else [])
    assert not symptoms_of(stage(), [replace(event(HOST, 5, kind), port="")])


@pytest.mark.parametrize("lane", [-1, 0, 3])
@pytest.mark.parametrize(
    ("begin", "end", "expected"),
    [
        (EventKind.LOSS_OF_SIGNAL, EventKind.SIGNAL_RESTORED, Fault.LOSS_OF_LIGHT),
        (EventKind.OPTICS_ALARM, EventKind.OPTICS_CLEARED, Fault.OPTICS),
    ],
)
def test_events_of_a_lane_begin_and_end(begin: EventKind, end: EventKind, expected: Fault, lane: int) -> None:
    """A line that names no lane is about the module."""
    messages = [replace(event(HOST, t, kind), code=lane) for t, kind in ((5, begin), (9, end))]
    found = [s.payload for s in symptoms_of(stage(), messages) if isinstance(s.payload, PortFault)]
    own = lane if lane >= 0 else None
    assert [(one.fault, one.lane, one.is_over) for one in found] == [(expected, own, False), (expected, own, True)]


CAUSES = {
    "a person takes the module out, so that the far end has no light": (
        [fault(HOST, 2, Fault.MODULE_REMOVED), fault(LEAF, 5, Fault.LOSS_OF_LIGHT)], Cause.MODULE_REMOVED, "removed"),
    "the module is taken out for the repair": ([fault(HOST, 120, Fault.MODULE_REMOVED)], Cause.UNKNOWN, "removed"),
    "light is lost at one end": ([fault(LEAF, 2, Fault.LOSS_OF_LIGHT, 3)], Cause.CABLE, "loss of light on lane 3"),
    "the module is faulty": ([fault(HOST, 0, Fault.MODULE, report="bus stuck")], Cause.OPTIC, "fault: bus stuck"),
    "the laser is off, so the far end has no light": (
        [fault(HOST, 1, Fault.LASER_OFF, 0), fault(LEAF, 2, Fault.LOSS_OF_LIGHT)], Cause.OPTIC, "takes no current"),
    "the NIC's firmware failed": ([fault(HOST, -5, Fault.NIC_FIRMWARE)], Cause.NIC, "firmware error"),
    "the slot gives too little power": ([fault(HOST, -5, Fault.SLOT_POWER)], Cause.UNKNOWN, "too little power"),
    "a fault of an hour before": ([fault(HOST, -3600, Fault.MODULE)], Cause.UNKNOWN, ""),
    "a flag that was cleared long before": (
        [fault(LEAF, -900, Fault.LOSS_OF_LIGHT), fault(LEAF, -600, Fault.LOSS_OF_LIGHT, over=True)], Cause.UNKNOWN, ""),
    "a fault of another link": ([fault("p1-l0/d2", 0, Fault.MODULE)], Cause.UNKNOWN, ""),
}  # fmt: skip


def statement_of(found: Finding, text: str) -> bool:
    return any(text in one.statement for one in found.evidence)


@pytest.mark.parametrize("case", CAUSES)
def test_a_fault_is_evidence_for_a_link_that_is_down(case: str) -> None:
    """The nearest to the root names the cause; a fault alone opens nothing."""
    faults, cause, text = CAUSES[case]
    (found,) = last(correlated([*faults, down(HOST, 0), up(HOST, 300)], 900))
    assert (found.condition, found.cause) == (Condition.LINK_DOWN, cause)
    assert statement_of(found, text) if text else len(found.evidence) == 1
    assert correlated(faults, 900) == []


def test_a_fault_is_evidence_for_a_flap() -> None:
    """And that the switch dampens the port, so that its count is too low."""
    (found,) = last(correlated([*flaps(HOST, 0, 60, 120), fault(LEAF, 61, Fault.DAMPED)], 900))
    assert (found.condition, found.cause) == (Condition.LINK_FLAP, Cause.UNKNOWN)
    assert statement_of(found, "dampens the port")


def test_subjects_have_racks_and_labels() -> None:
    """Of both ends of a link, and of one device; without them there is no location."""
    known = inventory()
    racked = {"p1-h1": "A12 U3", "p1-l0": "A14"}
    devices = tuple(one._replace(rack=racked.get(one.name, "")) for one in known.devices)
    links = tuple(one._replace(label="PP3/12") for one in known.links)
    top, port = Topology(replace(known, devices=devices, links=links)), Port("p1-h1", "e0")
    assert port_subject(top, port).location == "p1-h1 in rack A12 U3, p1-l0 in rack A14, label PP3/12"
    assert part_subject(top, "p1-h1", "gpu0", "gpu").location == "p1-h1 in rack A12 U3"
    assert device_subject(top, "p1-l0").location == "p1-l0 in rack A14"
    assert port_subject(topology(), port).location == device_subject(topology(), "p1-l0").location == ""


def test_a_fault_that_repeats_does_not_drive_out_the_transitions() -> None:
    """Whatever the order, the first of ten minutes is retained."""
    subject = port_subject(topology(), Port("p1-h1", "e0"))
    repeated = [fault(HOST, t, Fault.NIC_FIRMWARE) for t in range(0, 3000, 2)]
    forward, backward = LinkHistory(subject), LinkHistory(subject)
    for own, symptoms in ((forward, repeated), (backward, repeated[::-1])):
        own.add(down(HOST, -10))
        for symptom in symptoms:
            own.add(symptom)
    assert forward.symptoms == backward.symptoms
    assert len(forward.symptoms) == 1 + len({at(t) // ns(600) for t in range(0, 3000, 2)})


def test_errors_of_nvlinks_are_evidence_for_a_fault_of_their_gpu() -> None:
    """They open nothing; the faults of another GPU are not named."""
    gpu = "0000:9b:00.0"
    fallen = Symptom("p1-h1", gpu, GpuXid(74, False, "NVLink"), at(0), source=Source.SOURCE_HOST, by_event=True)
    own, other = (fault(f"p1-h1/{name}", -5, Fault.NVLINK, 3) for name in (gpu, "0000:1b:00.0"))
    found = last(correlated([own, other, fallen], 600))
    assert [one.condition for one in found] == [Condition.HOST_GPU_FAULT]
    assert [one.statement for one in found[0].evidence[1:]] == [f"p1-h1/{gpu}: its NVLinks have errors on link 3"]
