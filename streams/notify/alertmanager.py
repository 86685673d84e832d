"""Alertmanager's API v2: post alerts, and read which of ours it holds.

Every member of a cluster gets every post, and one that took it is enough: a member that was away is told at the next
repetition. What a member refuses as ill-formed is Reject, an answer that no repetition will change is Misconfigured,
all else is Retry. Redirects are not followed, because a POST would become a GET.
"""

import asyncio
import ssl
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import aiohttp
import orjson

from streams.notify.alert import SOURCE, Alert
from streams.notify.params import NotifyParams
from streams.wire.errors import Misconfigured, Reject, Retry

_BATCH = 256  # an alert is some 2 kB; Prometheus sends 64 to 256 at once
_NEVER = {300, 301, 302, 303, 307, 308, 401, 403, 404, 405}


class Alertmanager:
    """A client of one Alertmanager or a cluster of them; an async context."""

    def __init__(self, params: NotifyParams) -> None:
        self._params = params
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=params.timeout_s),
            headers=_authorization(params),
            connector=aiohttp.TCPConnector(ssl=_tls(params)),
        )

    async def post(self, alerts: Sequence[Alert]) -> None:
        """Post these to all members; raises Retry where none took them, Reject where one called some ill-formed.

        A Reject comes after all were posted, and Alertmanager keeps the good ones of a batch.
        """
        refused: Reject | None = None
        for start in range(0, len(alerts), _BATCH):
            body = orjson.dumps([alert.to_api() for alert in alerts[start : start + _BATCH]])
            try:
                self._one_is_enough(await self._all("POST", "/api/v2/alerts", body=body))
            except Reject as error:
                refused = refused or error
        if refused is not None:
            raise refused

    async def active_alerts(self) -> list[Alert]:
        """The alerts of this cluster that some member holds and that are not over; raises like `post`."""
        ours = [f'source="{SOURCE}"', f'cluster="{self._params.cluster}"']
        answers = await self._all("GET", "/api/v2/alerts", query=[("filter", matcher) for matcher in ours])
        self._one_is_enough(answers)
        found = {alert.identity: alert for answer in answers if isinstance(answer, bytes) for alert in _alerts(answer)}
        return list(found.values())

    async def _all(
        self, method: str, path: str, *, body: bytes | None = None, query: Sequence[tuple[str, str]] = ()
    ) -> list[bytes | Exception]:
        """What each member answered, in their order; the errors of rule 7 stand in the place of an answer."""
        asked = (self._ask(method, url + path, body, query) for url in self._params.alertmanagers)
        return list(await asyncio.gather(*(_as_value(answer) for answer in asked)))

    async def _ask(self, method: str, url: str, body: bytes | None, query: Sequence[tuple[str, str]]) -> bytes:
        json = {"Content-Type": "application/json"}
        try:
            async with self._session.request(
                method, url, data=body, params=list(query), headers=json, allow_redirects=False
            ) as response:
                answer = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Retry(f"{url}: {type(error).__name__}: {error}") from error
        if response.status < 300:
            return answer
        said = f"{url}: {response.status} {answer[:200].decode(errors='replace').strip()}"
        if response.status in (400, 422):
            raise Reject(said)
        raise Misconfigured(said) if response.status in _NEVER else Retry(said)

    def _one_is_enough(self, answers: Sequence[bytes | Exception]) -> None:
        errors = [answer for answer in answers if isinstance(answer, Exception)]
        # Which alert was refused is the same question at every member, so a Reject counts even where others answered.
        refused = next((error for error in errors if isinstance(error, Reject)), None)
        if refused is not None:
            raise refused
        if len(errors) == len(answers):
            raise next((error for error in errors if isinstance(error, Retry)), errors[0])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()


async def _as_value(answer: Any) -> bytes | Exception:
    try:
        return bytes(await answer)
    except (Reject, Retry, Misconfigured) as error:
        return error


def _alerts(answer: bytes) -> Iterator[Alert]:
    """Read `gettableAlerts`; raises Retry on what is none, since something else may have answered for a while."""
    try:
        for alert in orjson.loads(answer):
            yield Alert(
                labels=dict(alert["labels"]),
                annotations=dict(alert["annotations"]),
                starts_at_ns=_nanoseconds(alert["startsAt"]),
                ends_at_ns=_nanoseconds(alert["endsAt"]),
                generator_url=alert.get("generatorURL", ""),
            )
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise Retry(f"not the alerts of an Alertmanager: {error!r}") from error


def _nanoseconds(text: str) -> int:
    at = datetime.fromisoformat(text)
    return int(at.replace(microsecond=0).timestamp()) * 1_000_000_000 + at.microsecond * 1000


def _authorization(params: NotifyParams) -> Mapping[str, str]:
    if params.token is not None:
        return {"Authorization": f"Bearer {params.token.get_secret_value()}"}
    if params.username is not None and params.password is not None:
        return {"Authorization": aiohttp.BasicAuth(params.username, params.password.get_secret_value()).encode()}
    return {}


def _tls(params: NotifyParams) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=params.ca_file)
        if params.cert_file is not None:
            context.load_cert_chain(params.cert_file, params.key_file)
    except (OSError, ssl.SSLError) as error:
        raise Misconfigured(f"notify: cannot read the certificates: {error}") from error
    return context
