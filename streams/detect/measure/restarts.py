"""Makes the symptoms of restarts: between which two readings of a source its device booted.

A reading from in between may come late; it shows in which part of that time the device restarted.
"""

from collections.abc import Iterator

from streams.detect.measure.liveness import SourceState
from streams.wire.models import Symptom
from streams.wire.symptoms import Restart


def restart_symptom(state: SourceState, at_ns: int, since_ns: int, *, by_event: bool = False) -> Symptom:
    """Return the symptom of a restart, which is named by the boot that ended."""
    return _symptom(state, at_ns, since_ns, state.boot_id, by_event=by_event)


def on_other_boot(state: SourceState, at_ns: int, boot_id: int, lateness_ns: int) -> Symptom:
    """Return the symptom of a reading with another boot id than the last one."""
    state.restarts = [restart for restart in state.restarts if at_ns - restart[1] <= lateness_ns]
    state.restarts.append((state.last_ns, at_ns, state.boot_id, boot_id))
    return restart_symptom(state, at_ns, state.last_ns)


def late_restart_symptoms(state: SourceState, at_ns: int, boot_id: int) -> Iterator[Symptom]:
    """Yield the restart that a reading older than the last one dates better."""
    for number, (since_ns, until_ns, ended, begun) in enumerate(state.restarts):
        if since_ns < at_ns < until_ns and boot_id in (ended, begun):
            span = (at_ns, until_ns) if boot_id == ended else (since_ns, at_ns)
            state.restarts[number] = (*span, ended, begun)
            yield _symptom(state, span[1], span[0], ended)


def _symptom(state: SourceState, at_ns: int, since_ns: int, boot_id: int, *, by_event: bool = False) -> Symptom:
    return Symptom(state.device, "", Restart(boot_id), at_ns, since_ns, state.source, by_event)
