"""The promise of a ticket system, and its simplest implementer: `PUT URL/<remediation id>` with the whole ticket.

PUT is idempotent (RFC 9110, 9.2.2): a repetition sets the same ticket to the same values, so none is opened twice.
"""

from typing import Protocol
from urllib.parse import quote

from streams.notify.tickets.book import Change
from streams.notify.tickets.http_client import HttpClient


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


class Webhook:
    """A server that has one resource for each ticket."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client

    async def prepare(self) -> None:
        """Check nothing: a webhook has no configuration."""

    async def deliver(self, change: Change) -> None:
        """Put the ticket; its body is not read from the response."""
        await self._client.request("PUT", f"/{quote(change.ticket.id, safe='')}", change.ticket.to_json())
