"""Defines the promise of a ticket system: what a delivery does, and what its errors mean."""

from typing import Protocol

from streams.notify.tickets.book import Change


class TicketSystem(Protocol):
    """A ticket system. A repeated delivery of one change has no second effect."""

    async def prepare(self) -> None:
        """Check the configuration at the server, before the first delivery of a new owner; raises like `deliver`."""
        ...

    async def deliver(self, change: Change) -> None:
        """Apply one change.

        Raises Reject if the system refuses this ticket, Misconfigured if it refuses every one until a person changes
        the configuration, Retry (Busy, Interrupted) if a repetition can succeed.
        """
        ...
