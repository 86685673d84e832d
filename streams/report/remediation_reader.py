"""Reads remediations and controls from their Kafka topics: the open ones, by id prefix, or as they arrive."""

from collections.abc import Callable, Iterable

from streams.config.kafka import KafkaSettings
from streams.runtime.topic_io import follow, read_newest, read_to_end
from streams.wire.errors import Reject
from streams.wire.models import Control, Remediation
from streams.wire.topics import CONTROLS, REMEDIATIONS, REMEDIATIONS_OPEN, decode


class NoSuchRemediation(Exception):
    """No remediation, or more than one, has this id prefix."""


async def open_remediations(kafka: KafkaSettings) -> list[Remediation]:
    """Return the remediations that are open now, newest first."""
    content = await read_newest(kafka, REMEDIATIONS_OPEN)
    remediations = [remediation for remediation in content.newest.values() if isinstance(remediation, Remediation)]
    return sorted(remediations, key=lambda remediation: -(remediation.decided_at_ns or 0))


async def remediation_revisions(kafka: KafkaSettings, id_prefix: str) -> list[Remediation]:
    """Return every revision of the one remediation with this id prefix, lowest first; raises NoSuchRemediation."""
    wanted = id_prefix.encode()
    values = [r.value async for r in read_to_end(kafka, REMEDIATIONS) if r.value is not None and wanted in r.value]
    decoded = (_remediation(value) for value in values)
    found = [remediation for remediation in decoded if remediation and remediation.id.startswith(id_prefix)]
    ids = sorted({remediation.id for remediation in found})
    if len(ids) != 1:
        raise NoSuchRemediation(f"several: {', '.join(ids)}" if ids else f"no remediation {id_prefix}")
    return latest_last(found)


def latest_last(revisions: Iterable[Remediation]) -> list[Remediation]:
    """Return each revision once, the highest last; a restart may have published one twice."""
    return [found for _, found in sorted({found.revision: found for found in revisions}.items())]


async def follow_remediations(kafka: KafkaSettings, on_remediation: Callable[[bytes, Remediation], None]) -> None:
    """Call `on_remediation` with the record's value and the remediation for each new revision, until cancelled."""
    async for record in follow(kafka, REMEDIATIONS, from_end=True):
        if record.value is not None and (remediation := _remediation(record.value)) is not None:
            on_remediation(record.value, remediation)


async def current_controls(kafka: KafkaSettings) -> list[Control]:
    """Return the last control of each id, without those that a tombstone removed."""
    content = await read_newest(kafka, CONTROLS)
    controls = [control for control in content.newest.values() if isinstance(control, Control)]
    return sorted(controls, key=lambda control: (control.at_ns or 0, control.id))


def _remediation(value: bytes) -> Remediation | None:
    try:
        message = decode(REMEDIATIONS, value)
    except Reject:
        return None
    return message if isinstance(message, Remediation) else None
