"""Defines the codes of events of the kind NCCL.

A positive code is the status of a completion of ibverbs, such as 12 for retries exceeded.
"""

from enum import IntEnum


class NcclCode(IntEnum):
    """Reports of NCCL without a status of ibverbs."""

    ASYNC_FATAL = -1
    """A fatal asynchronous event of an HCA."""
    ASYNC_NON_FATAL = -2
    CONNECTION_CLOSED = -3
    """The bootstrap or socket connection of a peer ended, whatever the cause."""
    ASYNC_ERROR = -4
    """A rank whose communicator has an error."""
    UNRESPONSIVE = -5
    DEAD = -6
    STRAGGLER = -7
    """A rank that lags behind the others in several queries."""


def is_transport_error(code: int) -> bool:
    """Return whether the network or an HCA failed the transport; a failed peer or a straggler may have any cause."""
    return code > 0 or code == NcclCode.ASYNC_FATAL
