"""What is told of a restart: between which two readings of a source its device's life was another one.

A reading from in between may come late; it says in which part of that time it was.
"""

from collections.abc import Iterator

from streams.detect.measure.liveness import SourceState
from streams.wire.models import Symptom
from streams.wire.symptoms import Restart


def restart_symptom(heard: SourceState, at_ns: int, since_ns: int, *, by_event: bool = False) -> Symptom:
    """The life that ended names the restart."""
    return _told(heard, at_ns, since_ns, heard.boot_id, by_event=by_event)


def on_other_boot(heard: SourceState, at_ns: int, boot_id: int, lateness_ns: int) -> Symptom:
    """A reading of another life than the last one."""
    heard.restarts = [life for life in heard.restarts if at_ns - life[1] <= lateness_ns]
    heard.restarts.append((heard.last_ns, at_ns, heard.boot_id, boot_id))
    return restart_symptom(heard, at_ns, heard.last_ns)


def late_restart_symptoms(heard: SourceState, at_ns: int, boot_id: int) -> Iterator[Symptom]:
    """A reading that is older than the last, where a restart was told of."""
    for number, (since_ns, until_ns, ended, begun_) in enumerate(heard.restarts):
        if since_ns < at_ns < until_ns and boot_id in (ended, begun_):
            span = (at_ns, until_ns) if boot_id == ended else (since_ns, at_ns)
            heard.restarts[number] = (*span, ended, begun_)
            yield _told(heard, span[1], span[0], ended)


def _told(heard: SourceState, at_ns: int, since_ns: int, boot_id: int, *, by_event: bool = False) -> Symptom:
    return Symptom(heard.device, "", Restart(boot_id), at_ns, since_ns, heard.source, by_event)
