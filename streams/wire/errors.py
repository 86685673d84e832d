"""Errors, named for what the caller must do about them."""


class Reject(ValueError):
    """Bad input: send it to the rejected topic with this reason, and go on."""


class Retry(RuntimeError):
    """The far side is busy or away: keep the offset and try again later."""


class Misconfigured(Exception):
    """Cannot start as configured: print this one line and exit with 2."""
