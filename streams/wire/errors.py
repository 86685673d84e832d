"""Defines errors, named for the reaction of the caller."""


class Reject(ValueError):
    """Bad input: send it to the rejected topic with this reason and continue."""


class Retry(RuntimeError):
    """The remote side is busy or unavailable: retain the offset and retry later."""


class Misconfigured(Exception):
    """Invalid configuration: print this message and exit with 2."""
