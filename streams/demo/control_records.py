"""What the demo itself writes: one result of automation, one control, and one message that nobody can read.

They take the paths that a user's automation, a person and a broken device would take.
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
"""Field 31 with wire type 7, which protobuf does not have."""


def control_records(seen: Iterable[Remediation], now_ns: int) -> list[Record]:
    """The three records; the result answers a remediation that was seen, or one that never was."""
    answered = next((remediation.id for remediation in seen), "demo/none-seen")
    return [
        encode(
            REMEDIATION_RESULTS,
            RemediationResult(answered, Outcome.REJECTED, now_ns, ACTOR, "a demo does not touch anything"),
        ),
        encode(
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
        ),
        Record(SAMPLES, b"poisoned", POISON, route="poisoned"),
    ]
