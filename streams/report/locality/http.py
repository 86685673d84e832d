"""Defines the HTTP interface of the locality: JSON answers with an ETag, exports, long poll and server-sent events.

All inputs and the number of waiting clients are limited. Requires `railsight[serve]`.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, HTTPException, Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from streams.locality.answers import (
    Answer,
    DistanceAnswer,
    GpuDistanceAnswer,
    NeighborAnswer,
    PlacementAnswer,
    VersionAnswer,
)
from streams.locality.distance import UnknownHost
from streams.locality.export.slurm import Plugin
from streams.locality.export.write import Format, export_text
from streams.locality.params import LocalityParams
from streams.locality.placement import MAX_GPUS, place
from streams.report.locality.service import Current, LocalityService
from streams.wire.errors import Misconfigured

MAX_NAME = 253
"""The limit of a host's name in DNS."""
_MAX_WAIT_S = 60
_MAX_STREAM_S = 3600
_COMMENT_S = 15.0
"""The interval of comments, because proxies close a connection without data after 30 to 60 s."""
_MEDIA: dict[Format, str] = {
    "slurm": "text/plain; charset=utf-8",
    "slurm-yaml": "application/yaml",
    "kubernetes": "application/json",
    "json": "application/json",
}


class Problem(BaseModel):
    """An error: the value, and the next step."""

    detail: str


def _link(operation: str, **parameters: str) -> dict[str, Any]:
    """Return an OpenAPI link to an operation whose parameters are in an answer."""
    return {"operationId": operation, "parameters": parameters}


HostName = Annotated[str, Path(max_length=MAX_NAME, description="A host of the inventory.")]
End = Annotated[str, Query(max_length=MAX_NAME, description="A host of the inventory.")]
Gpu = Annotated[int | None, Query(ge=0, le=1023, description="A GPU of this host, from 0; both or none.")]
ERRORS: dict[int | str, dict[str, Any]] = {
    304: {"description": "The state has the version of If-None-Match."},
    401: {"model": Problem, "description": "The token is missing or wrong."},
    503: {"model": Problem, "description": "No inventory yet, or too many clients wait."},
}
_EXPORTS: dict[int | str, dict[str, Any]] = {
    200: {"content": {media.partition(";")[0]: {} for media in _MEDIA.values()}},
    409: {"model": Problem, "description": "The inventory has names or hosts that this format cannot have."},
}
_NOT_FOUND: dict[int | str, dict[str, Any]] = {404: {"model": Problem, "description": "No such host, or GPU."}}
_NEAR: dict[int | str, dict[str, Any]] = {
    **_NOT_FOUND,
    200: {"links": {"distance": _link("distance", a="$request.path.host", z="$response.body#/0/host")}},
}
_VERSIONS: dict[int | str, dict[str, Any]] = {
    200: {"links": {"change": _link("version", after="$response.body#/version")}}
}


router = APIRouter(prefix="/v1", generate_unique_id_function=lambda route: route.name)


def _service(request: Request) -> LocalityService:
    found = request.app.state.service
    assert isinstance(found, LocalityService)
    return found


def _params(request: Request) -> LocalityParams:
    found = request.app.state.params
    assert isinstance(found, LocalityParams)
    return found


Service = Annotated[LocalityService, Depends(_service)]
Params = Annotated[LocalityParams, Depends(_params)]


def _current(service: Service, if_none_match: Annotated[str | None, Header(max_length=1000)] = None) -> Current:
    """Return the state; the answer is 304 if the client has it, 503 if there is none."""
    found = service.current
    if found is None:
        raise HTTPException(503, service.problem())
    etags = {each.strip().removeprefix("W/") for each in (if_none_match or "").split(",")}
    if _etag(found) in etags or "*" in etags:
        raise HTTPException(304, headers=_headers(found))
    return found


State = Annotated[Current, Depends(_current)]


@router.get("/hosts/{host}/near", response_model=list[NeighborAnswer], responses=_NEAR)
def near(host: HostName, found: State, limit: Annotated[int, Query(ge=1, le=10_000)] = 20) -> Response:
    """Return the hosts nearest to one, usable ones first."""
    with _not_found():
        neighbors = found.locality.distances.near(host, limit)
    body = b",".join(each.model_dump_json().encode() for each in neighbors)
    return _json(b"[" + body + b"]", found)


@router.get("/distance", response_model=DistanceAnswer | GpuDistanceAnswer, responses=_NOT_FOUND)
def distance(a: End, z: End, found: State, a_gpu: Gpu = None, z_gpu: Gpu = None) -> Response:
    """Return the distance between two hosts, or between two of their GPUs."""
    distances = found.locality.distances
    answer: Answer
    with _not_found():
        if a_gpu is None and z_gpu is None:
            answer = distances.between(a, z)
        elif a_gpu is None or z_gpu is None:
            raise UnknownHost("a_gpu and z_gpu belong together: give both or none")
        else:
            answer = distances.between_gpus((a, a_gpu), (z, z_gpu))
    return _json(answer.model_dump_json().encode(), found)


@router.get("/placement", response_model=PlacementAnswer)
def placement(
    gpus: Annotated[int, Query(ge=1, le=MAX_GPUS)],
    found: State,
    sets: Annotated[int, Query(ge=1, le=100)] = 3,
    idle: Annotated[bool, Query(description="Leave out hosts on which a job runs.")] = False,
    doubtful: Annotated[bool, Query(description="Use doubtful hosts after the others.")] = False,
) -> Response:
    """Return sets of hosts for a job, the best first, and the hosts that were left out."""
    busy = found.locality.busy_hosts() if idle else {}
    placed = place(found.locality.state, gpus, limit=sets, allow_doubtful=doubtful, busy=busy)
    return _json(placed.model_dump_json().encode(), found)


@router.get("/topology/{form}", responses=_EXPORTS, response_class=Response)
def topology(form: Format, found: State, params: Params, plugin: Plugin = "tree") -> Response:
    """Return the topology as `railsight topology export` writes it."""
    key = form, plugin
    if key not in found.exports:
        try:
            found.exports[key], _ = export_text(found.locality.state, form, plugin, params)
        except Misconfigured as error:
            raise HTTPException(409, str(error)) from error
    return Response(found.exports[key], media_type=_MEDIA[form], headers=_headers(found))


def _refuse_too_many(service: Service, params: Params) -> None:
    if service.waiting >= params.max_waiting:
        raise HTTPException(503, f"{service.waiting} clients wait already: try again", {"Retry-After": "5"})


@router.get("/version", response_model=VersionAnswer, responses=_VERSIONS, dependencies=[Depends(_refuse_too_many)])
async def version(
    service: Service,
    after: Annotated[str, Query(max_length=64, description="Wait until the version is another.")] = "",
    wait_s: Annotated[float, Query(ge=0, le=_MAX_WAIT_S)] = 0,
) -> Response:
    """Return the version of the state; with `after` and `wait_s` when it changes, or when the time is over."""
    found = await service.wait_for_change(after, wait_s)
    if found is None:
        raise HTTPException(503, service.problem())
    return _json(found.version.model_dump_json().encode(), found)


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {}}, "description": "Server-sent events `version`."}},
    dependencies=[Depends(_refuse_too_many)],
)
async def events(
    service: Service,
    seconds: Annotated[int, Query(ge=1, le=_MAX_STREAM_S, description="The stream ends then.")] = _MAX_STREAM_S,
) -> StreamingResponse:
    """Send the version of the state now and at each change, as server-sent events."""
    headers = {"Cache-Control": "no-store"}
    return StreamingResponse(_version_events(service, seconds), media_type="text/event-stream", headers=headers)


async def _version_events(service: LocalityService, seconds: float) -> AsyncIterator[bytes]:
    """Yield an event for each version, and a comment in between, until the time is over."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + seconds
    sent = ""
    while (left_s := end_s - loop.time()) > 0:
        found = await service.wait_for_change(sent, min(left_s, _COMMENT_S))
        if found is None or found.version.version == sent:
            yield b": no change\n\n"
            continue
        sent = found.version.version
        yield b"id: %s\nevent: version\ndata: %s\n\n" % (sent.encode(), found.version.model_dump_json().encode())


@contextmanager
def _not_found() -> Iterator[None]:
    try:
        yield
    except UnknownHost as error:
        raise HTTPException(404, str(error)) from error


def _etag(found: Current) -> str:
    return f'"{found.version.version}"'


def _headers(found: Current) -> dict[str, str]:
    return {"ETag": _etag(found), "Cache-Control": "no-cache"}


def _json(body: bytes, found: Current) -> Response:
    return Response(body, media_type="application/json", headers=_headers(found))
