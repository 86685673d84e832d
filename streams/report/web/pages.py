"""Defines the read-only pages and their JSON: open findings, one finding, jobs, one device, the pipeline's health.

A page is complete HTML without a script; the same path below /v1 returns its data. Functions that read the state are
coroutines, because the event loop changes it. Requires `railsight[serve]`.
"""

import hashlib
from base64 import b64encode
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path as FilePath
from typing import Annotated, Any, TypeVar

import jinja2
from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request, Response
from markdown_it import MarkdownIt

from streams.instrument.shipped import runbook_path, shipped
from streams.instrument.text import format_duration, format_time, in_words
from streams.report.explanation import NoSuchFinding
from streams.report.open_findings import FindingFilter
from streams.report.web.answers import Answers, Json
from streams.wire.errors import Misconfigured, Retry
from streams.wire.models import Severity

_FOLDER = FilePath(__file__).parent / "templates"
_STYLE = (_FOLDER / "style.css").read_text(encoding="utf-8")
_STYLE_DIGEST = b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_CSP = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_DIGEST}'; form-action 'self'; base-uri 'none';"
    " frame-ancestors 'none'"
)
_REFRESH_S = 15
"""The interval at which a browser loads the list of findings again."""
_HEADERS = {
    "Content-Security-Policy": _CSP, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}  # fmt: skip
_Result = TypeVar("_Result")


def _moment(text: str) -> str:
    """Return the time of a record to the second, as other times are written."""
    return f"{text[:10]} {text[11:19]}Z"


_templates = jinja2.Environment(
    loader=jinja2.FileSystemLoader(_FOLDER), autoescape=True, undefined=jinja2.ChainableUndefined, trim_blocks=True,
    lstrip_blocks=True,
)  # fmt: skip
_templates.filters |= {"time": format_time, "duration": format_duration, "moment": _moment, "words": in_words}
_markdown = MarkdownIt("commonmark", {"html": False}).enable("table")

data = APIRouter(prefix="/v1", generate_unique_id_function=lambda route: f"{route.name}_data", tags=["operations"])
pages = APIRouter(include_in_schema=False)


def _answers(request: Request) -> Answers:
    found = request.app.state.answers
    assert isinstance(found, Answers)
    return found


Found = Annotated[Answers, Depends(_answers)]
Text = Annotated[str, Query(max_length=253)]
Name = Annotated[str, Path(max_length=253)]
Id = Annotated[str, Path(pattern=r"^[0-9a-f]{4,64}$", description="The id of a finding, or the beginning of it.")]


def _filter(
    severity: Annotated[str, Query(pattern="^(|info|warning|critical)$", description="The lowest severity.")] = "",
    condition: Annotated[str, Query(max_length=64, description="A condition, or a glob such as link/*.")] = "",
    device: Annotated[Text, Query(description="A device at either end or an affected host, or a glob.")] = "",
    job: Annotated[Text, Query(description="An affected job, or a glob.")] = "",
    roots: Annotated[bool, Query(description="Only findings that no other one explains.")] = False,
    unacknowledged: bool = False,
) -> FindingFilter:
    least = Severity[severity.upper()] if severity else Severity.SEVERITY_UNSPECIFIED
    return FindingFilter(least, condition, device, job, roots, unacknowledged)


Wanted = Annotated[FindingFilter, Depends(_filter)]


async def _read(work: Awaitable[_Result | None], what: str) -> _Result:
    """Return the result; the answer is 404 for nothing, 503 while the servers do not answer."""
    try:
        found = await work
    except NoSuchFinding as error:
        raise HTTPException(404, str(error)) from error
    except (Retry, Misconfigured) as error:
        raise HTTPException(503, str(error).splitlines()[0]) from error
    if found is None:
        raise HTTPException(404, f"{what} is not known")
    return found


@data.get("/health")
async def health(answers: Found) -> Json:
    """Return how far behind the findings are, what is not read, and the state of each stage."""
    return answers.health()


@data.get("/findings")
async def findings(answers: Found, wanted: Wanted) -> Json:
    """Return the open findings, causes first and the most severe on top, and the remediations that wait."""
    return {"health": answers.health(), **answers.findings(wanted)}


@data.get("/findings/{identity}")
async def finding(identity: Id, answers: Found) -> Json:
    """Return one finding with its evidence, samples, revisions and remediations."""
    return await _read(answers.finding(identity), f"finding {identity}")


@data.get("/jobs")
async def jobs(answers: Found) -> list[Json]:
    """Return the jobs that run now."""
    return await _read(answers.jobs(), "the list of jobs")


@data.get("/jobs/{identity:path}")
async def job(identity: Name, answers: Found) -> Json:
    """Return whether the network was clean for a job so far."""
    return await _read(answers.job(identity), f"job {identity}")


@data.get("/devices/{name}")
async def device(name: Name, answers: Found) -> Json:
    """Return a device's findings, links, sources, jobs, remediations, near hosts and past findings."""
    return await _read(answers.device(name), f"device {name}")


def page(template: str, answers: Answers, status: int = 200, **values: Any) -> Response:
    """Return a page of a template, with the state of the pipeline in its header."""
    common = {"health": answers.health(), "now_ns": answers.now_ns(), "refresh_s": 0, "style": _STYLE}
    body = _templates.get_template(f"{template}.html").render(common | values)
    return Response(body, status, media_type="text/html; charset=utf-8", headers=_HEADERS)


def problem(request: Request, status: int, detail: str) -> Response:
    """Return the page of a refusal."""
    return page("problem", _answers(request), status, detail=detail, code=status)


@pages.get("/")
async def findings_page(answers: Found, wanted: Wanted, request: Request) -> Response:
    """Show the open findings."""
    chosen = dict(request.query_params)
    return page("findings", answers, found=answers.findings(wanted), chosen=chosen, refresh_s=_REFRESH_S)


@pages.get("/findings/{identity}")
async def finding_page(identity: Id, answers: Found) -> Response:
    """Show one finding."""
    found = await finding(identity, answers)
    return page("finding", answers, found=found, finding=found["finding"], runbook=_runbook(found["finding"]["slug"]))


@pages.get("/jobs")
async def jobs_page(answers: Found) -> Response:
    """Show the jobs that run now."""
    return page("jobs", answers, found=await jobs(answers))


@pages.get("/jobs/{identity:path}")
async def job_page(identity: Name, answers: Found) -> Response:
    """Show the verdict on a job."""
    return page("job", answers, job=identity, found=await job(identity, answers))


@pages.get("/devices")
def device_search(name: Text = "") -> Response:
    """Lead from the field of the header to a device's page."""
    return Response(status_code=303, headers={"Location": f"/devices/{name}"})


@pages.get("/devices/{name}")
async def device_page(name: Name, answers: Found) -> Response:
    """Show one device."""
    return page("device", answers, name=name, found=await device(name, answers))


@pages.get("/health")
async def health_page(answers: Found) -> Response:
    """Show the state of the pipeline."""
    return page("health", answers, refresh_s=_REFRESH_S)


@pages.get("/runbooks/{name}")
async def runbook_page(
    name: Annotated[str, Path(pattern=r"^[a-z][a-z0-9-]{1,60}(\.md)?$")], answers: Found
) -> Response:
    """Show a runbook."""
    text = _runbook(name.removesuffix(".md"))
    if not text:
        raise HTTPException(404, f"no runbook {name}")
    return page("runbook", answers, name=name.removesuffix(".md"), text=text)


def _runbook(slug: str) -> str:
    """Return the HTML of the runbook of a condition; empty without one."""
    with suppress(OSError):
        return str(_markdown.render(shipped(runbook_path(slug)).read_text(encoding="utf-8")))
    return ""


def wants_page(request: Request) -> bool:
    """Return whether the client is a browser that asks for a page."""
    return not request.url.path.startswith("/v1") and "text/html" in request.headers.get("accept", "")
