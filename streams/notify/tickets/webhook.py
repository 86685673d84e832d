"""Delivers tickets to a generic webhook: `PUT URL/<remediation id>` with the whole ticket.

PUT is idempotent (RFC 9110, 9.2.2): a repetition sets the same ticket to the same values, so none is opened twice.
"""

from urllib.parse import quote

from streams.notify.tickets.book import Change
from streams.notify.tickets.http_client import HttpClient


class Webhook:
    """A server that has one resource for each ticket."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client

    async def prepare(self) -> None:
        """Check nothing: a webhook has no configuration."""

    async def deliver(self, change: Change) -> None:
        """Put the ticket; its body is not read from the response."""
        await self._client.request("PUT", f"/{quote(change.ticket.id, safe='')}", change.ticket.to_json())
