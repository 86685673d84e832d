"""Provides a client of Alertmanager's API v2, which posts alerts and reads our active ones.

Every member of a cluster gets every post, and one success is enough: an unavailable member gets the next repetition. An
alert that a member refuses as invalid raises Reject, an error that a repetition cannot change raises Misconfigured, and
every other failure raises Retry. Redirects are not followed, because a POST would become a GET.
"""

import asyncio
import ssl
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import aiohttp
import orjson
from pydantic import SecretStr

from streams.notify.alert import SOURCE, Alert
from streams.notify.params import NotifyParams
from streams.wire.errors import Misconfigured, Reject, Retry
from streams.wire.tls_files import FileContext, TlsFiles

_BATCH = 256  # alerts of some 2 kB each; Prometheus sends 64 to 256 at once
_MAX_RESPONSE = 64 << 20  # decompressed: some 30,000 active alerts
_PERMANENT_STATUS = {300, 301, 302, 303, 307, 308, 401, 403, 404, 405}


class Alertmanager:
    """A client of one Alertmanager or of a cluster; an async context."""

    def __init__(self, params: NotifyParams) -> None:
        self._params = params
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=params.timeout_s), connector=aiohttp.TCPConnector(ssl=_tls(params))
        )

    async def post(self, alerts: Sequence[Alert]) -> None:
        """Post alerts to all members; raises Retry if none accepted them, Reject if one refused some as invalid.

        Reject is raised after all batches were posted; Alertmanager accepts the valid alerts of a batch.
        """
        refused: Reject | None = None
        for start in range(0, len(alerts), _BATCH):
            body = orjson.dumps([alert.to_api() for alert in alerts[start : start + _BATCH]])
            try:
                self._raise_unless_one_succeeded(await self._request_all("POST", "/api/v2/alerts", body=body))
            except Reject as error:
                refused = refused or error
        if refused is not None:
            raise refused

    async def active_alerts(self) -> list[Alert]:
        """Return our cluster's alerts that are active at any member; raises like `post`."""
        matchers = [f'source="{SOURCE}"', f'cluster="{self._params.cluster}"']
        responses = await self._request_all(
            "GET", "/api/v2/alerts", query=[("filter", matcher) for matcher in matchers]
        )
        self._raise_unless_one_succeeded(responses)
        found = {
            alert.identity: alert
            for response in responses
            if isinstance(response, bytes)
            for alert in _alerts(response)
        }
        return list(found.values())

    async def _request_all(
        self, method: str, path: str, *, body: bytes | None = None, query: Sequence[tuple[str, str]] = ()
    ) -> list[bytes | Exception]:
        """Return each member's response in order, or its error (Reject, Retry, Misconfigured)."""
        requests = (self._request(method, url + path, body, query) for url in self._params.alertmanagers)
        return list(await asyncio.gather(*(_as_value(response) for response in requests)))

    async def _request(self, method: str, url: str, body: bytes | None, query: Sequence[tuple[str, str]]) -> bytes:
        json = {"Content-Type": "application/json", **_authorization(self._params)}
        try:
            async with self._session.request(
                method, url, data=body, params=list(query), headers=json, allow_redirects=False
            ) as response:
                content = await _read(response, url)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Retry(f"{url}: {type(error).__name__}: {error}") from error
        if response.status < 300:
            return content
        message = f"{url}: HTTP {response.status} {content[:200].decode(errors='replace').strip()}"
        if response.status in (400, 422):
            raise Reject(message)
        raise Misconfigured(message) if response.status in _PERMANENT_STATUS else Retry(message)

    def _raise_unless_one_succeeded(self, responses: Sequence[bytes | Exception]) -> None:
        errors = [response for response in responses if isinstance(response, Exception)]
        # Every member refuses the same alerts, so a Reject counts even if other members accepted the post.
        refused = next((error for error in errors if isinstance(error, Reject)), None)
        if refused is not None:
            raise refused
        if len(errors) == len(responses):
            raise next((error for error in errors if isinstance(error, Retry)), errors[0])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()


async def _read(response: aiohttp.ClientResponse, url: str) -> bytes:
    """Return the body; raises Retry beyond _MAX_RESPONSE, which is more than all our alerts."""
    content = bytearray()
    async for piece in response.content.iter_any():
        content += piece
        if len(content) > _MAX_RESPONSE:
            raise Retry(f"{url}: the response has more than {_MAX_RESPONSE} bytes")
    return bytes(content)


async def _as_value(response: Any) -> bytes | Exception:
    try:
        return bytes(await response)
    except (Reject, Retry, Misconfigured) as error:
        return error


def _alerts(response: bytes) -> Iterator[Alert]:
    """Parse `gettableAlerts`; raises Retry for other content, because another server may respond temporarily."""
    try:
        for alert in orjson.loads(response):
            yield Alert(
                labels=_texts(alert["labels"]),
                annotations=_texts(alert["annotations"]),
                starts_at_ns=_nanoseconds(alert["startsAt"]),
                ends_at_ns=_nanoseconds(alert["endsAt"]),
                generator_url=str(alert.get("generatorURL", "")),
            )
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise Retry(f"the response is not a list of Alertmanager alerts: {error!r}") from error


def _texts(given: Any) -> dict[str, str]:
    """Return labels or annotations; raises TypeError if a value is not a text."""
    if not all(isinstance(text, str) for text in given.values()):
        raise TypeError("a label or annotation is no text")
    return dict(given)


def _nanoseconds(text: str) -> int:
    """Return the Unix nanoseconds of a time that UTC can represent; raises ValueError or OverflowError."""
    at = datetime.fromisoformat(text).astimezone(UTC)
    return int(at.replace(microsecond=0).timestamp()) * 1_000_000_000 + at.microsecond * 1000


def _authorization(params: NotifyParams) -> Mapping[str, str]:
    """Return the login header; raises Retry if a file is not readable now."""
    if token := _secret(params.token, params.token_file):
        return {"Authorization": f"Bearer {token}"}
    if params.username is not None and (password := _secret(params.password, params.password_file)):
        return {"Authorization": aiohttp.BasicAuth(params.username, password).encode()}
    return {}


def _secret(given: SecretStr | None, file: Path | None) -> str:
    if file is None:
        return given.get_secret_value() if given else ""
    try:
        return file.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:
        raise Retry(f"cannot read the login of Alertmanager: {error}") from error


def _tls(params: NotifyParams) -> ssl.SSLContext:
    try:
        return FileContext(TlsFiles(params.ca_file, params.cert_file, params.key_file))
    except (OSError, ssl.SSLError) as error:
        raise Misconfigured(
            f"cannot read the certificates of Alertmanager (notify.ca_file, cert_file, key_file): {error}"
        ) from error
