"""Defines the interface of a ticket system, and the webhook: `PUT URL/<remediation id>` with the whole ticket.

PUT is idempotent (RFC 9110, 9.2.2): a repetition sets the same ticket to the same values, so no ticket opens twice.
"""

from typing import Protocol
from urllib.parse import quote

from streams.notify.tickets.book import Change
from streams.notify.tickets.http_client import HttpClient


class TicketSystem(Protocol):
    """A ticket system. A repeated delivery of one change has no second effect."""

    async def prepare(self) -> None:
        """Check the configuration at the server before the first delivery of a new owner; raises like `deliver`."""
        ...

    async def deliver(self, change: Change) -> None:
        """Apply one change.

        Raises Reject if the system refuses this ticket, Misconfigured if it refuses every ticket until a person changes
        the configuration, Retry (Busy, Interrupted) if a repetition can succeed.
        """
        ...


class Webhook:
    """A server with one resource per ticket."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client

    async def prepare(self) -> None:
        """Do nothing, because a webhook has no configuration to check."""

    async def deliver(self, change: Change) -> None:
        """Put the ticket, without reading the response's body."""
        await self._client.request("PUT", f"/{quote(change.ticket.id, safe='')}", change.ticket.to_json())
