"""Records that the demo itself publishes: one result of automation if it has none, a control, an undecodable message.

They take the same paths as those of a user's automation, of an operator and of a broken device.
"""

from collections.abc import Iterable

from streams.wire.models import (
    Control,
    ControlKind,
    Outcome,
    Remediation,
    RemediationResult,
)
from streams.wire.topics import CONTROLS, REMEDIATION_RESULTS, SAMPLES, Record, encode

ACTOR = "railsight demo"
POISON = b"\xff\xff this is no Samples message"
"""Field 31 with wire type 7, which protobuf does not define."""


def result_record(remediations: Iterable[Remediation], now_ns: int) -> Record:
    """Return a result that answers one of the remediations, or an unknown one if there are none."""
    remediation_id = next((remediation.id for remediation in remediations), "demo/none-seen")
    return encode(
        REMEDIATION_RESULTS,
        RemediationResult(remediation_id, Outcome.REJECTED, now_ns, ACTOR, "a demo does not touch anything"),
    )


def control_record(now_ns: int) -> Record:
    """Return a control of no device."""
    return encode(
        CONTROLS,
        Control(
            "demo/maintenance",
            ControlKind.MAINTENANCE,
            subject_id="device:none-of-this-fabric",
            at_ns=now_ns,
            until_ns=now_ns + 60_000_000_000,
            actor=ACTOR,
            reason="shows the path",
        ),
    )


def poison_record() -> Record:
    """Return a message that cannot be decoded."""
    return Record(SAMPLES, b"poisoned", POISON, route="poisoned")
