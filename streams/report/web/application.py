"""Puts the pages, their JSON and the locality into one application: the token, refusals, and the OpenAPI document.

Every request needs the token, except the request for the OpenAPI document, which has no data.
"""

import hmac
from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.exception_handlers import http_exception_handler, request_validation_exception_handler
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPAuthorizationCredentials, HTTPBasic, HTTPBasicCredentials, HTTPBearer
from starlette.exceptions import HTTPException as StarletteHTTPException

from streams.locality.params import LocalityParams
from streams.report.locality.http import ERRORS, router
from streams.report.web import pages
from streams.report.web.answers import Answers


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
