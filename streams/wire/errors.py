"""Defines errors, named for the reaction of the caller."""


class Reject(ValueError):
    """Bad input: send it to the rejected topic with this reason and continue."""


class Retry(RuntimeError):
    """The remote side is busy or unavailable: retain the offset and retry later."""


class Busy(Retry):
    """The remote side names the time to wait, or cannot answer reliably before that time."""

    def __init__(self, message: str, after_s: float) -> None:
        super().__init__(message)
        self.after_s = after_s


class Misconfigured(Exception):
    """Invalid configuration: print this message and exit with 2."""
