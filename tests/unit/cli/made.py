"""Findings and the like with only what a test says of them."""

from typing import Any

from streams.wire.models import Condition, Endpoint, Finding, Severity, Status, Subject

NS = 1_000_000_000


def finding(identity: str = "a", revision: int = 1, **more: Any) -> Finding:
    """A finding of a link that is down; `more` are fields of it."""
    subject = Subject("link:leaf1/e1--spine1/e1", Endpoint("leaf1", "e1"), Endpoint("spine1", "e1"))
    fields: dict[str, Any] = {
        "id": identity,
        "revision": revision,
        "final": False,
        "condition": Condition.LINK_DOWN,
        "status": Status.OPEN,
        "severity": Severity.WARNING,
        "subject": subject,
        "started_at_ns": 100 * NS,
        "observed_at_ns": 130 * NS,
        "detector": "link/down",
        "summary": "leaf1/e1 -- spine1/e1 is down",
    }
    return Finding(**(fields | more))
