"""Errors of ticket systems, besides Reject (a bad ticket) and Misconfigured (no ticket is possible)."""

from streams.wire.errors import Retry


class Busy(Retry):
    """The ticket system names the time to wait, or cannot answer reliably before it."""

    def __init__(self, message: str, after_s: float) -> None:
        super().__init__(message)
        self.after_s = after_s


class Interrupted(Retry):
    """A request was sent and has no answer: the ticket system may have carried it out."""
