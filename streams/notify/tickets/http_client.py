"""Sends requests to a ticket system, and raises a different error for each reaction of the caller.

A refusal of this ticket raises Reject; an error that a repetition cannot change (login, address, redirect) raises
Misconfigured; a request without an answer raises Interrupted; all other errors raise Retry, or Busy if the server names
a time. Redirects are not followed, because another server would get the token. Proxies are not used.
"""

import ssl
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Self

import aiohttp
import orjson

from streams.instrument.text import clean
from streams.notify.tickets.params import TicketParams
from streams.wire.errors import Busy, Misconfigured, Reject, Retry


class Interrupted(Retry):
    """Raised for a request without an answer, which the ticket system may have carried out."""


MAX_RESPONSE = 1 << 20
"""The limit of bytes to read from a response; a page of an issue's comments has some 100 kB."""
_TICKET_REFUSED = frozenset((400, 409, 410, 413, 414, 422, 431))
_BUSY = frozenset((408, 425, 429, 503))
_MAX_RETRY_AFTER_S = 600.0


class HttpClient:
    """A client of one server; an async context. `conflicts` is False if a repetition can succeed after 409."""

    def __init__(self, params: TicketParams, *, conflicts: bool = True) -> None:
        self._params = params
        self._refused = _TICKET_REFUSED if conflicts else _TICKET_REFUSED - {409}
        # Each request has its own connection, because a reused one may be closed by the server without an answer.
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=params.timeout_s),
            connector=aiohttp.TCPConnector(ssl=_tls(params), limit=1, force_close=True),
        )

    async def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, str] | None = None,
        is_missing_none: bool = False,
    ) -> Any:
        """Return the parsed JSON of a response; None if it is empty or, with `is_missing_none`, for status 404."""
        url = self._params.url + path
        headers = {"Accept": "application/json", **authorization(self._params)}
        data = None
        if body is not None:
            headers["Content-Type"], data = "application/json", orjson.dumps(body)
        try:
            async with self._session.request(
                method, url, data=data, params=query, headers=headers, allow_redirects=False
            ) as response:
                content = await _read(response)
        except aiohttp.ClientConnectorError as error:
            raise Retry(f"{method} {url}: {type(error).__name__}: {error}") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Interrupted(f"{method} {url}: {type(error).__name__}: {error}") from error
        if is_missing_none and response.status == 404:
            return None
        if response.status >= 300:
            raise self._error(response, f"{method} {url}: HTTP {response.status} {_excerpt(content)}".rstrip())
        return content

    def _error(self, response: aiohttp.ClientResponse, message: str) -> Exception:
        status = response.status
        if status in self._refused:
            return Reject(message)
        if status in _BUSY and (after_s := _retry_after_s(response)) is not None:
            return Busy(message, after_s)
        if status >= 500:
            # A gateway may send this answer after the server has carried out the request.
            return Interrupted(message)
        if status in _BUSY or status == 409:
            return Retry(message)
        return Misconfigured(message)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()


def parse(content: bytes, what: str) -> Mapping[str, Any]:
    """Return a JSON object; raises Retry for other content, because another server may respond temporarily."""
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise Retry(f"{what}: the response is not JSON: {_excerpt(content)}") from error
    if not isinstance(value, dict):
        raise Retry(f"{what}: the response is not a JSON object: {_excerpt(content)}")
    return value


def authorization(params: TicketParams) -> dict[str, str]:
    """Return the login header; raises Misconfigured if the token's file is unreadable or unusable."""
    if params.token_file is None:
        return {}
    try:
        token = params.token_file.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise Misconfigured(
            f"tickets.token_file: cannot read {params.token_file}: {reason}; check the path and its permissions"
        ) from error
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise Misconfigured(
            f"tickets.token_file: {params.token_file} has no token: one line of ASCII without blanks is expected"
        )
    if params.username:
        return {"Authorization": f"Basic {b64encode(f'{params.username}:{token}'.encode()).decode()}"}
    return {"Authorization": f"Bearer {token}"}


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """Return the body, truncated after MAX_RESPONSE bytes, which makes it invalid JSON."""
    pieces, size = [], 0
    async for piece in response.content.iter_any():
        pieces.append(piece)
        size += len(piece)
        if size > MAX_RESPONSE:
            break
    return b"".join(pieces)[:MAX_RESPONSE]


def _excerpt(content: bytes) -> str:
    return clean(content[:200].decode(errors="replace")).strip()


def _retry_after_s(response: aiohttp.ClientResponse) -> float | None:
    """Return the seconds of Retry-After; a date is ignored, because it depends on the clock of the server."""
    text = response.headers.get("Retry-After", "")
    return min(float(text), _MAX_RETRY_AFTER_S) if text.isascii() and text.isdigit() else None


def _tls(params: TicketParams) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=params.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise Misconfigured(f"tickets.ca_file: cannot read {params.ca_file}: {error}") from error
