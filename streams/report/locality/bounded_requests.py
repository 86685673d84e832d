"""HTTP connections whose requests arrive in bounded time: a stalled client would hold one of the few for ever.

uvicorn bounds the time between two requests, and not that of a request's headers and body.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_S = 10.0


class BoundedRequests(H11Protocol):
    """Closes a connection whose request is not complete within `request_s`; the response takes what it takes."""

    def __init__(self, *arguments: Any, request_s: float = REQUEST_S, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._request_s = request_s
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._bound()

    def data_received(self, data: bytes) -> None:
        """Receive a part of a request."""
        super().data_received(data)
        self._bound()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the wait."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _bound(self) -> None:
        """Begin the deadline where a request is incomplete, and end it where it is complete."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete or cycle.more_body:
            self._deadline = self._deadline or self.loop.call_later(self._request_s, self.transport.close)
        else:
            self._stop_waiting()

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
