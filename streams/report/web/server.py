"""Runs the HTTP server of the pages, their JSON and the locality while it reads Kafka, until a signal.

Every request needs the token, except the request for the OpenAPI document, which has no data.
"""

import asyncio
import hmac
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any

import uvicorn
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.exception_handlers import http_exception_handler, request_validation_exception_handler
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPAuthorizationCredentials, HTTPBasic, HTTPBasicCredentials, HTTPBearer
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from streams.health.health import Health
from streams.health.http_names import HEADER_BYTES
from streams.health.status_server import stop_of, supervised
from streams.locality.params import LocalityParams
from streams.report.locality.http import ERRORS, router
from streams.report.web import pages
from streams.report.web.answers import Answers
from streams.wire.errors import Misconfigured


def application(answers: Answers, params: LocalityParams, token: str) -> FastAPI:
    """Return the application; with `client_ca_file` the connection has identified the client, and no token is asked."""
    app = FastAPI(
        title="railsight", version="1", docs_url=None, redoc_url=None, responses=ERRORS,
        dependencies=[] if params.client_ca_file else [Depends(_token_check(token))],
        description="Findings, jobs, devices, who is near whom in the fabric, and which hosts suit a job.",
    )  # fmt: skip
    app.state.service, app.state.params, app.state.answers = answers.locality, params, answers
    app.include_router(router)
    app.include_router(pages.data)
    app.include_router(pages.pages)
    app.add_exception_handler(StarletteHTTPException, _refusal)
    app.add_exception_handler(RequestValidationError, _invalid)
    return app


async def _refusal(request: Request, error: Exception) -> Response:
    """Return a refusal as a page to a browser, else as JSON."""
    assert isinstance(error, StarletteHTTPException)
    if error.status_code == 401 or not pages.wants_page(request):
        return await http_exception_handler(request, error)
    return pages.problem(request, error.status_code, str(error.detail))


async def _invalid(request: Request, error: Exception) -> Response:
    """Return a refusal of an input as a page to a browser, else as JSON."""
    assert isinstance(error, RequestValidationError)
    if not pages.wants_page(request):
        return await request_validation_exception_handler(request, error)
    return pages.problem(request, 422, "; ".join(f"{each['loc'][-1]}: {each['msg']}" for each in error.errors()))


def _token_check(token: str) -> Callable[..., None]:
    """Return a check of the token, which a program sends as a bearer token and a browser as a password of any user."""
    bearer = HTTPBearer(auto_error=False, description="The content of the token file.")
    basic = HTTPBasic(auto_error=False, description="Any user, with the content of the token file as the password.")

    def check(
        request: Request,
        given: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)],
        login: Annotated[HTTPBasicCredentials | None, Depends(basic)],
    ) -> None:
        sent = given.credentials if given is not None else "" if login is None else login.password
        if not hmac.compare_digest(sent.encode(), token.encode()):
            scheme = 'Basic realm="railsight", charset="UTF-8"' if pages.wants_page(request) else "Bearer"
            raise HTTPException(401, "send the token: Authorization: Bearer TOKEN", {"WWW-Authenticate": scheme})

    return check


_STOP_S = 2
_IDLE_S = 5
_CONNECTIONS = 256
"""The limit of connections; above it the answer is 503."""
REQUEST_S = 10.0
"""The limit for a request's headers and body, which uvicorn lacks: a stalled client would keep its connection."""


class _Server(uvicorn.Server):
    """The server without its own signal handlers, because the process has one for all its parts."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listen(params: LocalityParams) -> socket.socket:
    """Return the listening socket; raises Misconfigured."""
    family = socket.AF_INET6 if ":" in params.host else socket.AF_INET
    try:
        return socket.create_server((params.host, params.port), family=family, backlog=128)
    except OSError as error:
        raise Misconfigured(
            f"locality: cannot listen on {params.host}:{params.port}: {error.strerror or error}; set locality.host and"
            " locality.port"
        ) from error


def http_server(app: ASGIApp, params: LocalityParams, request_s: float = REQUEST_S) -> uvicorn.Server:
    """Return the server; raises Misconfigured for a certificate that cannot be used."""
    protocol: Any = partial(BoundedRequests, request_s=request_s)
    config = uvicorn.Config(
        app, http=protocol, log_config=None, log_level="warning", access_log=False, ws="none", server_header=False,
        lifespan="off", loop="none", limit_concurrency=_CONNECTIONS, timeout_keep_alive=_IDLE_S,
        timeout_graceful_shutdown=_STOP_S, h11_max_incomplete_event_size=HEADER_BYTES,
        ssl_certfile=params.cert_file, ssl_keyfile=params.key_file,
        ssl_ca_certs=params.client_ca_file and str(params.client_ca_file),
        ssl_cert_reqs=ssl.CERT_REQUIRED if params.client_ca_file else ssl.CERT_NONE,
    )  # fmt: skip
    try:
        config.load()
    except OSError as error:  # includes ssl.SSLError
        raise Misconfigured(
            f"locality: cannot load {params.cert_file} ({error}); check cert_file and key_file"
        ) from error
    return _Server(config)


async def serve(
    answers: Answers, params: LocalityParams, token: str, health: Health, on_start: Callable[[str], None]
) -> None:
    """Serve until SIGINT or SIGTERM; `on_start` receives the address."""
    listener = listen(params)
    server = http_server(application(answers, params, token), params)
    health.ready_while("locality", answers.locality.problem)
    health.started()

    def stop() -> None:
        stop_of(health)
        server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    scheme = "https" if params.cert_file else "http"
    name = f"[{params.host}]" if ":" in params.host else params.host
    following = asyncio.create_task(answers.follow(), name="topics")
    on_start(f"{scheme}://{name}:{listener.getsockname()[1]}")
    serving = asyncio.create_task(server.serve(sockets=[listener]), name="http")
    try:
        async with supervised(health):
            await asyncio.wait((serving, following), return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                following.result()
    finally:
        server.should_exit = True
        following.cancel()
        await asyncio.gather(serving, following, return_exceptions=True)


class BoundedRequests(H11Protocol):
    """Closes a connection whose request is not complete within `request_s`; the time of the response is not limited."""

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
        """Start the deadline for an incomplete request, and stop it for a complete one."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete or cycle.more_body:
            self._deadline = self._deadline or self.loop.call_later(self._request_s, self.transport.close)
        else:
            self._stop_waiting()

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
