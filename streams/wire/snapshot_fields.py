"""Refuses states with fields that this version does not know: of a newer version, or of another stage.

Without them the state would be restored in part, and what they hold would be lost.
"""

from dataclasses import fields
from typing import Any

from streams.wire.errors import Reject


def refuse_unknown_fields(stage: str, state: type[Any], data: object) -> None:
    """Raise Reject where the JSON of a state is no object, or has fields that its dataclass does not have."""
    if not isinstance(data, dict):
        raise Reject(f"not a snapshot of {stage}: no JSON object")
    unknown = data.keys() - {field.name for field in fields(state)}
    if unknown:
        names = ", ".join(sorted(unknown))
        raise Reject(f"not a snapshot of {stage} that this version reads: unknown {names}; upgrade this process")
