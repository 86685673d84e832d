"""Bounds the connections of a server of aiohttp, which has no limit: beyond it, the oldest idle one is closed.

aiohttp itself closes a connection whose request's line and headers are not complete within `keepalive_timeout`.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import web


class BoundedServer(web.Server):
    """A server with at most `most` connections; `busy` marks those that may not be closed for others."""

    def __init__(self, handler: Any, most: int, **options: Any) -> None:
        super().__init__(handler, **options)
        self._most = most
        self._busy: set[asyncio.BaseTransport | None] = set()

    def connection_made(self, handler: Any, transport: asyncio.Transport) -> None:
        """Accept a connection; beyond the limit, close the oldest that is not busy."""
        super().connection_made(handler, transport)
        # An aborted connection is known until the next round of the event loop.
        open_ones = [one for one in self.connections if one.transport is not None and not one.transport.is_closing()]
        if len(open_ones) > self._most:
            idle = (one.transport for one in open_ones if one is not handler and one.transport not in self._busy)
            (next(idle, None) or transport).abort()

    @contextmanager
    def busy(self, transport: asyncio.BaseTransport | None) -> Iterator[None]:
        """Mark a connection while its request is processed."""
        self._busy.add(transport)
        try:
            yield
        finally:
            self._busy.discard(transport)
