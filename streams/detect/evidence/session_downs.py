"""The times in which the BFD or BGP session over a link was down, as its ends reported them."""

from collections.abc import Iterator
from typing import NamedTuple

from streams.detect.evidence.link_history import FOREVER, LinkHistory
from streams.fabric.intervals import Interval
from streams.wire.models import Endpoint
from streams.wire.symptoms import SESSION_FAULTS, Fault, PortFault


class SessionDown(NamedTuple):
    """A session of one end that went down, and when it was up again; FOREVER while it is down."""

    end: Endpoint
    fault: Fault
    span: Interval


def session_downs(history: LinkHistory) -> list[SessionDown]:
    """Return the downs of sessions that were up before, by their begin; a first reading shows no change."""
    found = (one for end in history.ends() for fault in SESSION_FAULTS for one in _downs(history, end, fault))
    return sorted(found, key=lambda one: (one.span, one.end.device, one.fault))


def _downs(history: LinkHistory, end: Endpoint, fault: Fault) -> Iterator[SessionDown]:
    begin_ns = 0
    for symptom in history.at(end):
        payload = symptom.payload
        if not isinstance(payload, PortFault) or payload.fault is not fault:
            continue
        if payload.is_over and begin_ns:
            yield SessionDown(end, fault, (begin_ns, symptom.at_ns))
            begin_ns = 0
        elif not payload.is_over and symptom.since_ns:
            begin_ns = begin_ns or symptom.at_ns
    if begin_ns:
        yield SessionDown(end, fault, (begin_ns, FOREVER))
